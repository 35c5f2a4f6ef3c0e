"""Delegation: the delegate's requests and their order, and the use of its answers (SPEC.md section 4)."""

import json
from collections.abc import Iterator, Mapping
from typing import Final, Unpack

from harness.conformance.catalogue import check
from harness.conformance.checks.verb_check import LOOKS
from harness.conformance.engine import expect
from harness.conformance.engine.delegates import (
    FAILURE,
    FAILURE_CODE,
    FAILURE_MESSAGE,
    REMARK,
    Delegate,
    DelegateAnswer,
    DelegateRecord,
    recording,
)
from harness.conformance.engine.outside_changes import demand_no_device, lose_namespace, prepare_all
from harness.conformance.engine.requests import Changes, json_object
from harness.conformance.engine.sequences import clean_up, demand_no_more
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import IN_POD
from harness.libcni.execute import Execution
from skel.errors import CniError
from skel.result import Result
from skel.strict_json import decode_output
from skel.versions import VERB_SINCE

_FORWARDS_GC: Final = ("delegate-gc",)
_FORWARDS: Final = (*_FORWARDS_GC, *LOOKS, "delegate-check")
_OF_SHELLS: Final = frozenset({"CNI_COMMAND", "OLDPWD", "PWD", "SHLVL", "_"})
"""Variables that differ by their nature, or that a shell changes by itself: a plugin may be a shell script."""
_OF_INTERFACES: Final = frozenset({"CNI_IFNAME"})
"""A variable that differs for a delegate that makes another interface, as those of Multus do."""
_MARKS: Final = {"TRACEPARENT": "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01", "A_MARK": "a = b;c"}
_ARGUMENT: Final = {"args": {"conformance": {"mark": ["a", 1, None]}}}
_NO_RESULTS: Final = ("", "no JSON\n", '["no", "object"]\n', '{"ips": [{"address": "no address"}]}\n')


@check("delegate-first-on-path", "delegate-found-on-path", profiles=IN_POD)
def first_on_path(trial: Trial) -> None:
    """ADD executes the delegate that stands first on CNI_PATH."""
    delegate = recording(trial)
    added = expect.succeeded(trial.add(environ=delegate.environ))
    delegate.demand("ADD", added, "since its folder stands first on CNI_PATH")


@check("delegate-addresses-applied", "ipam-determines", profiles=IN_POD, since="0.3.0")
def addresses_applied(trial: Trial) -> None:
    """ADD returns the addresses that the delegate gave."""
    delegate = recording(trial, named=True)
    added = trial.add(environ=delegate.environ)
    result = expect.result(added, trial.version)
    record = delegate.demand("ADD", added, "for its addresses")
    try:
        given = Result.decode_any(decode_output(record.stdout))
    except (ValueError, CniError) as error:
        raise NotApplicableError(f"the delegate gives no result: {error}") from None
    wanted = {str(ip.address) for ip in given.ips}
    missing = wanted - {str(ip.address) for ip in result.ips}
    if missing:
        raise ViolationError(f"{', '.join(sorted(wanted))} in the result, as the delegate gave it", "other ips", added)


@check("delegate-environment", "delegate-environment", "delegate-same-request", profiles=IN_POD, needs=_FORWARDS)
def environment(trial: Trial) -> None:
    """The delegate gets all the variables that the plugin got, whatever their names are."""
    delegate = recording(trial)
    for verb, executed in _all_verbs(trial, {**delegate.environ, **_MARKS}):
        record = delegate.demand(verb, executed, f"at {verb}")
        is_named = delegate.path.name == trial.subject.delegate
        free = _OF_SHELLS if is_named else _OF_SHELLS | _OF_INTERFACES
        wanted = executed.environ.items()
        lost = sorted(name for name, value in wanted if name not in free and record.environ.get(name) != value)
        if lost:
            got = ", ".join(f"{name}={record.environ.get(name, '(not set)')}" for name in lost)
            raise ViolationError(f"the variables {', '.join(lost)} passed on as they came, at {verb}", got, executed)


@check("delegate-configuration", "delegate-configuration", "delegate-same-request", profiles=IN_POD, needs=_FORWARDS)
def configuration(trial: Trial) -> None:
    """The delegate gets the whole configuration that the plugin got, and not just its own part."""
    delegate = recording(trial, named=True)
    for verb, executed in _all_verbs(trial, delegate.environ):
        record = delegate.demand(verb, executed, f"at {verb}")
        given, passed = json.loads(executed.stdin), _decoded(record, executed)
        lost = sorted(key for key in given if key not in passed or passed[key] != given[key])
        if lost:
            got = ", ".join(f"{key}: {json.dumps(passed[key]) if key in passed else '(not there)'}" for key in lost)
            raise ViolationError(f"the keys {', '.join(lost)} passed on as they came, at {verb}", got, executed)


@check("delegate-stderr", "delegate-stderr", profiles=IN_POD)
def stderr(trial: Trial) -> None:
    """The delegate's output on standard error appears on the plugin's."""
    delegate = recording(trial)
    added = trial.add(environ=delegate.environ)
    delegate.demand("ADD", added, "for its addresses")
    if REMARK not in added.stderr.decode(errors="replace"):
        raise ViolationError(
            f'"{REMARK}" on standard error', added.stderr.decode(errors="replace") or "nothing there", added
        )


@check("delegate-undone-after-failed-add", "delegate-failed-add", profiles=IN_POD)
def undone_after_failed_add(trial: Trial) -> None:
    """ADD whose delegate fails executes it again with DEL, and fails."""
    delegate = recording(trial)
    delegate.answer("ADD", FAILURE._replace(after_real=True))
    added = trial.add(environ=delegate.environ)
    expect.failed(added, "the delegate's ADD has failed")
    delegate.demand("DEL", added, "since its ADD has failed")
    if delegate.records()[-1].verb != "DEL":
        raise ViolationError("DEL after the delegate's failed ADD", "DEL before it, or another ADD after it", added)


@check(
    "delegate-failed-add-leaves-nothing",
    "habit-failed-add-undone",
    "delegate-failed-add",
    profiles=IN_POD,
    needs=("add-late-failure-leaves-nothing",),
)
def failed_add_leaves_nothing(trial: Trial) -> None:
    """ADD whose delegate fails leaves the node and the container as they were."""
    delegate = recording(trial)
    prepare_all(trial)
    try:
        with trial.unchanged("after ADD whose delegate has failed"):
            delegate.answer("ADD", FAILURE._replace(after_real=True))
            expect.failed(trial.add(environ=delegate.environ), "the delegate's ADD has failed")
    except ViolationError as error:
        if [each.verb for each in delegate.records()][-1:] == ["ADD"]:
            raise error.following("delegate-undone-after-failed-add") from None
        raise


@check("delegate-error-passed-on", "skel-error-once", profiles=IN_POD)
def error_passed_on(trial: Trial) -> None:
    """ADD that fails because of its delegate prints one object, with the delegate's code and message."""
    delegate = recording(trial)
    delegate.answer("ADD", FAILURE)
    added = trial.add(environ=delegate.environ)
    why = "that is what the delegate says"
    said = expect.refused(added, why, codes=[FAILURE_CODE], naming=[FAILURE_MESSAGE])
    if "{" in str(said.get("msg")):
        raise ViolationError("a message without an error object in it", str(said.get("msg")), added)


@check("delegate-success", "delegate-success", profiles=IN_POD)
def success(trial: Trial) -> None:
    """ADD fails if its delegate exits with 0 but prints no result, or prints one but exits with another code."""
    delegate = recording(trial)
    added = expect.succeeded(trial.add(environ=delegate.environ))
    good = delegate.demand("ADD", added, "for its addresses").stdout.decode(errors="replace")
    for answer in (*(DelegateAnswer(text, 0) for text in _NO_RESULTS), DelegateAnswer(good, 1)):
        container = trial.new_container()
        delegate.answer("ADD", answer)
        added = trial.add(container, environ=delegate.environ)
        delegate.answer("ADD", None)
        expect.failed(added, f"the delegate has exited with {answer.code} and printed {answer.stdout!r}")
        clean_up(trial, container)


@check("delegate-name", "ipam-type-characters", profiles=IN_POD)
def name(trial: Trial) -> None:
    """ADD is refused if the name of the delegate is a path, even of an executable."""
    delegate = recording(trial, below="nested", named=True)
    path = f"nested/{trial.subject.delegate}"
    ipam = trial.subject.plugin.raw["ipam"]
    config = {"ipam": {**(ipam if isinstance(ipam, dict) else {}), "type": path}}
    added = trial.add(environ=delegate.environ, config=config)
    expect.failed(added, f'"{path}" is no file name')
    if delegate.records():
        raise ViolationError(f"{path} not executed", "an execution of it", added)


@check("delegate-del", "delegate-every-verb", profiles=IN_POD)
def delete(trial: Trial) -> None:
    """DEL executes the delegate with DEL."""
    _forwarded(trial, "DEL")


@check(
    "delegate-check", "delegate-every-verb", "check-delegates", profiles=IN_POD, since=VERB_SINCE["CHECK"], needs=LOOKS
)
def verify(trial: Trial) -> None:
    """CHECK executes the delegate with CHECK."""
    _forwarded(trial, "CHECK")


@check("delegate-gc", "gc-delegates", "delegate-every-verb", profiles=IN_POD)
def collect(trial: Trial) -> None:
    """GC executes the delegate with GC, and the same list of valid attachments."""
    _forwarded(trial, "GC")


@check(
    "delegate-del-without-netns",
    "del-delegates-without-netns",
    "delegate-every-verb",
    profiles=IN_POD,
    needs=("del-netns-gone",),
)
def delete_without_netns(trial: Trial) -> None:
    """DEL executes the delegate if the namespace is gone, and if CNI_NETNS is empty."""
    for environ in ({}, {"CNI_NETNS": ""}):
        delegate, container = recording(trial), trial.new_container()
        expect.succeeded(trial.add(container, environ=delegate.environ))
        demand_no_device(trial, container)
        lose_namespace(container)
        deleted = trial.delete(container, environ={**delegate.environ, **environ})
        delegate.demand("DEL", deleted, "though the namespace is gone")


@check("delegate-del-fails", "delegate-error-returned", profiles=IN_POD)
def delete_fails(trial: Trial) -> None:
    """DEL fails if the delegate's DEL fails."""
    _fails_with_delegate(trial, "DEL")


@check("delegate-del-fails-once", "del-undoes", "del-best-effort", profiles=IN_POD)
def delete_fails_once(trial: Trial) -> None:
    """DEL after one whose delegate has failed succeeds, and leaves nothing."""
    delegate = recording(trial)
    prepare_all(trial)
    before = trial.snapshot()
    expect.succeeded(trial.add(environ=delegate.environ))
    delegate.answer("DEL", FAILURE)
    trial.delete(environ=delegate.environ)
    delegate.answer("DEL", None)
    expect.succeeded(trial.delete(environ=delegate.environ), "DEL after one whose delegate has failed")
    demand_no_more(trial, before, "after DEL, the delegate being well again")


@check(
    "delegate-check-fails",
    "check-delegates",
    "delegate-error-returned",
    profiles=IN_POD,
    needs=(*LOOKS, "delegate-check"),
)
def verify_fails(trial: Trial) -> None:
    """CHECK fails if the delegate's CHECK fails."""
    _fails_with_delegate(trial, "CHECK")


@check(
    "delegate-gc-fails",
    "gc-continues",
    "delegate-error-returned",
    profiles=IN_POD,
    needs=_FORWARDS_GC,
)
def collect_fails(trial: Trial) -> None:
    """GC reports the error of its delegate."""
    _fails_with_delegate(trial, "GC")


def _fails_with_delegate(trial: Trial, verb: str) -> None:
    delegate = recording(trial)
    expect.succeeded(trial.add(environ=delegate.environ))
    delegate.answer(verb, FAILURE)
    expect.failed(_execute(trial, verb, environ=delegate.environ), f"the delegate's {verb} has failed")


def _forwarded(trial: Trial, verb: str) -> None:
    delegate = recording(trial)
    for forwarded, executed in _all_verbs(trial, delegate.environ, verb):
        delegate.demand(forwarded, executed, f"since the plugin was executed with {verb}")
        if verb != "GC":
            _demand_each(delegate, verb, executed)


def _demand_each(delegate: Delegate, verb: str, executed: Execution) -> None:
    """Demand a verb for each interface for which the delegate got an ADD."""
    added, done = (
        {record.environ.get("CNI_IFNAME", "") for record in delegate.records(each)} for each in ("ADD", verb)
    )
    if missing := ", ".join(sorted(added - done)):
        raise ViolationError(
            f"{verb} executed on {delegate.path.name} for each interface of its ADD", f"none for {missing}", executed
        )


def _all_verbs(trial: Trial, environ: Mapping[str, str], *verbs: str) -> Iterator[tuple[str, Execution]]:
    """Execute ADD, and then those of the other verbs that this version has: yield each, and its execution."""
    added = expect.succeeded(trial.add(environ=environ, config=_ARGUMENT))
    if not verbs:
        yield "ADD", added
    # GC is the last one: a plugin may lack it, and the others count all the same.
    for verb in filter(trial.has, verbs or ("CHECK", "DEL", "GC")):
        yield verb, _execute(trial, verb, environ=environ, config=_ARGUMENT)


def _execute(trial: Trial, verb: str, **changes: Unpack[Changes]) -> Execution:
    """Execute a verb for the trial's container, or GC with its attachment in the list."""
    if verb == "GC":
        return trial.gc(trial.container, **changes)
    return trial.call(verb, trial.container, **changes)


def _decoded(record: DelegateRecord, executed: Execution) -> dict[str, object]:
    passed = json_object(record.stdin)
    if passed is None:
        raise ViolationError("a configuration on the delegate's standard input", repr(record.stdin[:200]), executed)
    return passed
