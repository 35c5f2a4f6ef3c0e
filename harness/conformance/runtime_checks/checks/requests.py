"""Network lists, and the configurations on standard input that a runtime makes of them."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, in_json, listed
from harness.conformance.runtime_checks.history import ATTACHMENT_VERBS, History
from harness.conformance.runtime_checks.networks import RecordedNetwork
from harness.conformance.runtime_checks.records import RecordedCall
from skel.strict_json import decode_json

_CONFIGURED = (*ATTACHMENT_VERBS, "GC", "STATUS")
_ANY = "any request"
_GENERATED = frozenset({"cniVersion", "name", "prevResult", "runtimeConfig", "args", "capabilities"})
"""Keys that are the runtime's, or that other checks look at."""


@check("network-name", "runtime-network-name-characters", needs="a request for, or a report of, a list with a bad name")
def refuses_bad_names(history: History) -> Iterator[Observation]:
    """A list whose name has forbidden characters is refused."""
    for network in history.records.networks:
        if not network.valid and network.document["name"] != network.name:
            yield from _refused(history, network, "no execution of a list with this name")


@check("plugin-type", "runtime-type-characters", needs="a request for, or a report of, a list with a bad type")
def refuses_bad_types(history: History) -> Iterator[Observation]:
    """A plugin whose `type` is a path is not executed."""
    for network in history.records.networks:
        if not network.valid and network.document["name"] == network.name:
            yield from _refused(history, network, "no execution of a type with a slash")


@check(
    "beside-appended",
    "runtime-aggregated-plugins-appended",
    "runtime-aggregated-plugins-associated",
    "runtime-aggregated-plugins-validated",
    "runtime-inlined-plugins-merged",
    needs="an ADD with a plugin from the folder beside the list",
)
def appends_plugins_beside(history: History) -> Iterator[Observation]:
    """Plugins from the folder with the network's name come after those of the list, with this network."""
    for operation in history.of("ADD"):
        [network] = [each for each in history.records.networks if each.name == operation.key.network]
        count = len(network.inlined)
        beside = [type for type in operation.types if type in network.types[count:]]
        if beside and not network.only_inlined:
            is_right = operation.types[count:] == network.types[count:]
            yield Observation(operation.calls[0], listed(network.types), "" if is_right else listed(operation.types))


@check("only-inlined", "runtime-only-inlined", needs="an ADD with loadOnlyInlinedPlugins, and one with a plugin beside")
def obeys_load_only_inlined(history: History) -> Iterator[Observation]:
    """With loadOnlyInlinedPlugins, plugins from the folder are ignored."""
    reads_folders = any(
        call.type in history.network(call).types[len(history.network(call).inlined) :] for call in history.calls
    )
    for operation in history.of("ADD") if reads_folders else ():
        [network] = [each for each in history.records.networks if each.name == operation.key.network]
        if network.only_inlined and network.beside:
            wanted = network.types[: len(network.inlined)]
            strange = [type for type in operation.types if type not in wanted]
            yield Observation(operation.calls[0], listed(wanted), listed(strange) if strange else "")


@check("stdin-one-object", "runtime-stdin-configuration", needs=_ANY)
def sends_one_object(history: History) -> Iterator[Observation]:
    """Standard input is one JSON object in UTF-8."""
    for call in history.calls:
        try:
            got = "" if isinstance(decode_json(call.stdin), dict) else call.stdin.decode(errors="replace")
        except ValueError as error:
            got = f"{error}: {call.stdin.decode(errors='replace')[:200]}"
        yield Observation(call, "one JSON object", got)


@check("name-inserted", "runtime-name-inserted", needs=_ANY)
def inserts_the_name(history: History) -> Iterator[Observation]:
    """Every request has the name of the network."""
    for call in history.sent(*_CONFIGURED):
        wanted = history.network(call).document["name"]
        got = call.request.get("name")
        yield Observation(call, f"name: {in_json(wanted)}", "" if got == wanted else in_json(got))


@check("version-inserted", "runtime-version-inserted", needs=_ANY)
def inserts_the_version(history: History) -> Iterator[Observation]:
    """Every request has a cniVersion, one of those that the list offers."""
    for call in history.sent(*_CONFIGURED):
        offered = history.network(call).versions
        got = "" if call.version in offered else in_json(call.request.get("cniVersion"))
        yield Observation(call, f"cniVersion: {' or '.join(sorted(offered))}", got)


@check("capabilities-removed", "runtime-capabilities-removed", needs="a request to a plugin with capabilities")
def removes_capabilities(history: History) -> Iterator[Observation]:
    """ADD, DEL and CHECK have no key `capabilities`."""
    for call in history.sent(*ATTACHMENT_VERBS):
        if "capabilities" in history.configuration(call):
            sent = in_json(call.request["capabilities"]) if "capabilities" in call.request else ""
            yield Observation(call, "no key capabilities", sent)


@check("runtime-config-filtered", "runtime-runtime-config", needs="an ADD")
def filters_by_capability(history: History) -> Iterator[Observation]:
    """No runtimeConfig has a capability that the plugin's configuration does not declare true."""
    for call in history.sent(*ATTACHMENT_VERBS):
        declared = _declared(history, call)
        strange = sorted(_runtime_config(call).keys() - declared)
        expected = f"runtimeConfig: at most {listed(sorted(declared))}"
        yield Observation(call, expected, listed(strange) if strange else "")


@check("runtime-config-inserted", "runtime-capability-arguments", needs="a request with runtimeConfig")
def inserts_every_capability(history: History) -> Iterator[Observation]:
    """Plugins of one operation that declare a capability get the same value of it, or none of them gets it."""
    for operation in history.of(*ATTACHMENT_VERBS):
        given: dict[str, object] = {}
        for call in operation.calls:
            given |= _runtime_config(call)
        for call in operation.calls if given else ():
            wanted = {key: value for key, value in given.items() if key in _declared(history, call)}
            mine = {key: value for key, value in _runtime_config(call).items() if key in wanted}
            yield Observation(call, f"runtimeConfig: {in_json(wanted)}", "" if mine == wanted else in_json(mine))


@check(
    "fields-unchanged",
    "runtime-additional-fields-passed",
    "runtime-unknown-fields-preserved",
    "runtime-configuration-between-attachments",
    needs=_ANY,
)
def passes_fields_unchanged(history: History) -> Iterator[Observation]:
    """Every field of the plugin's configuration that is not the runtime's is passed on unchanged."""
    for call in history.sent(*_CONFIGURED):
        wanted = {key: value for key, value in history.configuration(call).items() if key not in _GENERATED}
        changed = [key for key, value in wanted.items() if not _same(value, call.request.get(key, _MISSING))]
        got = in_json({key: call.request[key] for key in changed if key in call.request}) if changed else ""
        yield Observation(call, in_json({key: wanted[key] for key in changed}) if changed else "as configured", got)


@check("fields-only", "runtime-other-fields", "runtime-configuration-transformed", needs=_ANY)
def adds_no_other_field(history: History) -> Iterator[Observation]:
    """A request has no field besides the plugin's own and those that the specification has the runtime insert."""
    for call in history.sent(*_CONFIGURED):
        known = history.configuration(call).keys() | _GENERATED
        strange = [key for key in call.request if key not in known and not key.startswith("cni.dev/")]
        yield Observation(call, "no other field", listed(strange) if strange else "")


_MISSING = object()


def _refused(history: History, network: RecordedNetwork, expected: str) -> Iterator[Observation]:
    calls = [call for call in history.sent(*_CONFIGURED) if history.network(call) == network]
    if calls:
        yield Observation(calls[0], expected, listed([f"{call.verb} {call.type}" for call in calls]))
    elif any(report.network == network.name and report.error for report in history.reports("ADD")):
        yield Observation(None, expected)


def _same(one: object, other: object) -> bool:
    """Compare values of JSON: unlike Python, it tells true from 1, and not 1.0 from 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _declared(history: History, call: RecordedCall) -> set[str]:
    declared = history.configuration(call).get("capabilities")
    return {key for key, value in declared.items() if value is True} if isinstance(declared, dict) else set()


def _runtime_config(call: RecordedCall) -> dict[str, object]:
    found = call.request.get("runtimeConfig")
    return found if isinstance(found, dict) else {}
