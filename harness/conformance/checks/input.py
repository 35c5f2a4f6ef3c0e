"""The configuration on standard input: invalid ones, and keys that have to be ignored."""

import json
from collections.abc import Mapping
from typing import Any, Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from skel.errors import Code

_NO_JSON: Final = (b"", b"{", b'{"cniVersion":"1.1.0",}', b"net", b"\xff\xfe{}")
_NO_OBJECT: Final = (b"[]", b'"text"', b"5")

_NETWORK_NAMES: Final = (ABSENT, "", "-net", "../net", "a/b", "a b", "nät")
_WRONG_KINDS: Final[tuple[Mapping[str, object], ...]] = (
    {"cniVersion": 11},
    {"cniVersion": ["1.1.0"]},
    {"name": 5},
    {"name": {"text": "net"}},
)
_UNKNOWN_KEY: Final = "org.example.unknown"
_UNKNOWN_VALUE: Final = "never heard of"
_UNKNOWN: Final = {_UNKNOWN_KEY: _UNKNOWN_VALUE, "unknownList": [1, {"two": [None]}], "unknownObject": {"name": 3}}


@check("stdin-no-json", "skel-invalid-json", "error-structure")
def stdin_no_json(trial: Trial) -> None:
    """A configuration that is no JSON object is refused with code 6."""
    unreadable = expect.codes_of(trial.version, Code.DECODING_FAILURE)
    unfit = expect.codes_of(trial.version, Code.DECODING_FAILURE, Code.INVALID_CONFIG)
    for verb in ("ADD", "DEL"):
        for stdin in _NO_JSON:
            execution = trial.call(verb, trial.container, stdin=stdin)
            expect.refused(execution, f"{stdin!r} is not JSON", codes=unreadable)
        for stdin in _NO_OBJECT:
            execution = trial.call(verb, trial.container, stdin=stdin)
            expect.refused(execution, f"{stdin!r} is no configuration", codes=unfit)


@check("network-name", "skel-network-name")
def network_name(trial: Trial) -> None:
    """A configuration without a name, or with one that is no possible file name, is refused with code 7."""
    trial.prepare(trial.container)
    with trial.unchanged("after ADDs that were refused for the network's name"):
        for name in _NETWORK_NAMES:
            why = "the network has no name" if name in {ABSENT, ""} else f'"{name}" is no name of a network'
            expect.refused(
                trial.add(config={"name": name}), why, codes=expect.codes_of(trial.version, Code.INVALID_CONFIG)
            )


@check("wrong-kinds-of-values", "error-structure", "skel-incompatible-version", "skel-network-name")
def wrong_kinds_of_values(trial: Trial) -> None:
    """A key of the protocol with a value of the wrong kind is answered with an error object."""
    for config in _WRONG_KINDS:
        expect.refused(trial.add(config=config), f"{json.dumps(config)[1:-1]} is of the wrong kind")


@check("unknown-keys", "skel-unknown-keys", "unknown-fields")
def unknown_keys(trial: Trial) -> None:
    """Keys that the plugin does not know, in the configuration and in prevResult, are ignored by every verb."""
    given = trial.add(config=_UNKNOWN)
    expect.result(given, trial.version)
    if trial.has("CHECK"):
        result = trial.result_document()
        known: dict[str, Any] = result if isinstance(result, dict) else {}
        expect.succeeded(trial.check(config=_UNKNOWN, prev_result={**known, **_UNKNOWN}), "CHECK with unknown keys")
        expect.succeeded(trial.delete(config=_UNKNOWN, prev_result={**known, **_UNKNOWN}), "DEL with unknown keys")
    else:
        expect.succeeded(trial.delete(config=_UNKNOWN), "DEL with unknown keys")


@check("unsupported-field-named", "error-unsupported-field", "unknown-fields")
def unsupported_field_named(trial: Trial) -> None:
    """An error of code 2 has the key and the value of the field that is not supported."""
    execution = trial.add(config={_UNKNOWN_KEY: _UNKNOWN_VALUE})
    if execution.exit_code == 0:
        return  # a plugin may refuse unknown values
    said = expect.refused(execution, f"{_UNKNOWN_KEY} is not supported")
    if said["code"] != Code.UNSUPPORTED_FIELD:
        raise NotApplicableError(f"it refuses an unknown key with code {said['code']}")
    expect.refused(execution, f"{_UNKNOWN_KEY} is not supported", naming=[_UNKNOWN_KEY, _UNKNOWN_VALUE])


@check("keys-in-any-case", "skel-keys-in-any-case")
def keys_in_any_case(trial: Trial) -> None:
    """The keys of the configuration may be in upper or lower case, as Go reads them: the result is the same."""
    first = trial.add()
    plain = expect.result(first, trial.version)
    trial.detach()
    config = json.loads(first.stdin)
    for how in (str.upper, str.lower):
        container = trial.new_container()
        trial.prepare(container)
        keys = {key: value for key, value in config.items() if key != "prevResult"}
        keys["prevResult"] = trial.prev_result(container)
        spelt = {how(key): value for key, value in keys.items() if value is not None}
        execution = trial.add(container, stdin=json.dumps(spelt).encode())
        found = expect.result(execution, trial.version)
        counts = [(len(each.interfaces), len(each.ips), len(each.routes), bool(each.dns)) for each in (plain, found)]
        if counts[0] != counts[1]:
            words = [f"{links} interfaces, {ips} ips and {routes} routes" for links, ips, routes, _ in counts]
            raise ViolationError(f"{words[0]}, as with the ordinary keys", words[1], execution)
        trial.detach(container)
