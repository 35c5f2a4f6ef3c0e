"""The network lists for a runtime under examination. Each names recorders of its own: the file tells list and place."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from harness.libcni.networks import LIST_KEYS

FIRST: Final = "witness"
"""The network for runtimes that use only the first list of a folder."""
OFFERED: Final = ("0.4.0", "1.0.0", "1.1.0")
_BASE: Final = "1.0.0"
"""The `cniVersion` of each list: runtimes before 1.1.0 read no `cniVersions`, and refuse unknown versions."""
_ALWAYS: Final = "always"
_ONCE: Final = "once"

# Keys that no runtime knows, with values that a careless one would change. Numbers are those that JSON exchanges
# exactly (RFC 8259, section 6).
_FIELDS: Final[Mapping[str, object]] = {
    "witnessText": 'é "quoted" <&> \u2028',
    "witnessNumbers": [0, -1, 1.5, 9007199254740991],
    "witnessEmpty": {"null": None, "text": "", "list": [], "object": {}, "false": False, "zero": 0},
    "witnessNested": {"deep": [{"er": [[1], {"type": "not-a-plugin", "capabilities": {"mac": True}}]}]},
    "WitnessCase": "upper",
    "ipam": {},
    "dns": {"nameservers": ["192.0.2.53"], "search": ["witness.example"]},
}
_CAPABILITIES: Final[Sequence[Mapping[str, bool]]] = (
    {"portMappings": True, "bandwidth": False, "dns": True},
    {},
    {"portMappings": True, "dns": True, "aliases": True, "ips": False, "io.kubernetes.cri.pod-annotations": True},
)


class PlannedFailure(NamedTuple):
    """A planned failure of one recorder. `place` counts from 1; `times` is "always", or "once" per attachment."""

    place: int
    verb: str
    times: str = _ALWAYS


class RecordedNetwork(NamedTuple):
    """A network list, the plugins in the folder beside it, and the planned failures of its recorders.

    `valid` is False for a list that the specification forbids.
    """

    name: str
    document: dict[str, object]
    beside: tuple[dict[str, object], ...] = ()
    failures: tuple[PlannedFailure, ...] = ()
    valid: bool = True

    @property
    def inlined(self) -> list[dict[str, object]]:
        """The plugins of the list itself."""
        plugins = self.document["plugins"]
        return list(plugins) if isinstance(plugins, list) else []

    @property
    def types(self) -> list[str]:
        """The recorders, by the names of their files: those of the list, then those of the folder beside it."""
        return [str(plugin["type"]).rpartition("/")[2] for plugin in (*self.inlined, *self.beside)]

    @property
    def file(self) -> str:
        """The name of its file. In a folder, the lists stand in the order of `NETWORKS`."""
        names = [network.name for network in NETWORKS]
        return f"{10 + names.index(self.name)}-{self.name}.conflist"

    @property
    def versions(self) -> frozenset[str]:
        """The versions of the specification that the list offers."""
        several = self.document.get("cniVersions")
        return frozenset([str(self.document["cniVersion"]), *(map(str, several) if isinstance(several, list) else ())])

    @property
    def only_inlined(self) -> bool:
        """Whether plugins of other sources are to be ignored."""
        return self.document.get("loadOnlyInlinedPlugins") is True

    def is_disabled(self, verb: str) -> bool:
        """Tell whether the list forbids a verb."""
        return self.document.get({"CHECK": "disableCheck", "GC": "disableGC"}.get(verb, "")) is True

    def to_document(self) -> dict[str, object]:
        """Return a JSON object for `from_document`."""
        return {
            "name": self.name,
            "list": self.document,
            "beside": list(self.beside),
            "misfits": [list(failure) for failure in self.failures],
            "valid": self.valid,
        }


def from_document(document: Mapping[str, object]) -> RecordedNetwork:
    """Return the network of `to_document`. Raises ValueError."""
    match document:
        case {"name": str(name), "list": dict(listed), "beside": list(beside), "misfits": list(failures)}:
            valid = document.get("valid") is not False
            return RecordedNetwork(
                name, listed, tuple(beside), tuple(PlannedFailure(*each) for each in failures), valid
            )
    raise ValueError(f"no network of witnesses: {json.dumps(document)[:200]}")


def _network(
    name: str,
    *failures: PlannedFailure,
    count: int = 2,
    beside: int = 0,
    listed_name: str = "",
    type_prefix: str = "",
    valid: bool = True,
    **keys: object,
) -> RecordedNetwork:
    assert keys.keys() <= set(LIST_KEYS)  # noqa: S101 -- a slip of this module, not of a user
    plugins: list[dict[str, object]] = []
    for index in range(count + beside):
        plugin: dict[str, object] = {"type": f"{type_prefix}{name}-{index + 1}", **_FIELDS}
        declared = _CAPABILITIES[index % len(_CAPABILITIES)]
        plugins.append({**plugin, "capabilities": dict(declared)} if declared else plugin)
    document: dict[str, object] = {
        "cniVersion": _BASE,
        "cniVersions": list(OFFERED),
        "name": listed_name or name,
        **keys,
        "plugins": plugins[:count],
    }
    return RecordedNetwork(name, document, tuple(plugins[count:]), failures, valid)


NETWORKS: Final[Sequence[RecordedNetwork]] = (
    _network(FIRST, count=3, beside=1),
    _network("witness-failing", PlannedFailure(2, "ADD"), count=3),
    _network(
        "witness-errors",
        PlannedFailure(2, "DEL", _ONCE),
        PlannedFailure(1, "GC"),
        PlannedFailure(2, "GC"),
        count=3,
    ),
    _network("witness-no-check", disableCheck=True),
    _network("witness-no-gc", disableGC=True),
    _network("witness-inlined", beside=1, loadOnlyInlinedPlugins=True),
    _network("witness-misnamed", listed_name="witness: misnamed", valid=False),
    _network("witness-mistyped", type_prefix="witness-folder/", valid=False),
)
"""All lists. Only the first one suits a runtime that serves other pods at the same time."""
