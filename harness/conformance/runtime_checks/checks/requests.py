"""The configuration on standard input: the keys that a runtime inserts, removes, and leaves unchanged."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, in_json, listed
from harness.conformance.runtime_checks.history import ATTACHMENT_VERBS, History
from harness.conformance.runtime_checks.records import RecordedCall
from skel.strict_json import decode_json

_CONFIGURED = (*ATTACHMENT_VERBS, "GC", "STATUS")
_ANY = "any request"
_GENERATED = frozenset({"cniVersion", "name", "prevResult", "runtimeConfig", "args", "capabilities"})
"""Keys that are the runtime's, or that other checks look at."""


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
