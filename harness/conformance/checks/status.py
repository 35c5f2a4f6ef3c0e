"""STATUS: that it predicts the next ADD, and that it hinders no other verb."""

from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.delegates import FAILURE, recording
from harness.conformance.engine.failing_adds import exhaust_addresses
from harness.conformance.engine.requests import ABSENT, json_object
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, SlowError
from harness.conformance.sentences import Level
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD
from harness.libcni.execute import Execution
from harness.overload import overload
from skel.versions import VERB_SINCE

_SINCE: Final = VERB_SINCE["STATUS"]
_NOT_AVAILABLE: Final = (50, 51)
_NO_SUCH_PLUGIN: Final = "conformance-no-such-plugin"
_POLLED_EVERY: Final = 5.0
"""Seconds between the polls of containerd and kubelet."""
_OF_ATTACHMENTS: Final = dict.fromkeys(("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"), ABSENT)


@check("status-ready", "status-ready")
def ready(trial: Trial) -> None:
    """STATUS succeeds on a new node and with a container attached, if the next ADD succeeds."""
    asked = trial.status()
    trial.attach()
    expect.succeeded(asked, "STATUS before an ADD that succeeds")
    asked = trial.status()
    if trial.add(trial.new_container()).exit_code == 0:
        expect.succeeded(asked, "STATUS before another ADD that succeeds")


@check("status-without-attachment", "status-ready")
def without_attachment(trial: Trial) -> None:
    """STATUS needs no variable but CNI_COMMAND and CNI_PATH."""
    expect.succeeded(trial.status(environ=_OF_ATTACHMENTS), "STATUS without the variables of an attachment")


@check("status-not-relied-on", "status-not-relied-on")
def not_relied_on(trial: Trial) -> None:
    """ADD, CHECK and DEL succeed on a node that was never asked for its STATUS."""
    trial.attach()
    expect.succeeded(trial.check())
    trial.detach()


# A remark: a STATUS error taints the node, and pods that run may be evicted (docs/design-plugins.md, "STATUS").
@check("status-exhausted", "status-exhausted", profiles=GIVING_ADDRESSES, level=Level.MAY)
def exhausted(trial: Trial) -> None:
    """STATUS fails if no address is left; for an interface plugin, if its IPAM plugin's STATUS fails then."""
    asked, _ = _asked_when_exhausted(trial)
    expect.refused(asked, "no address is left and ADD fails")


@check("status-exhausted-code", "status-codes", profiles=GIVING_ADDRESSES)
def exhausted_code(trial: Trial) -> None:
    """STATUS that fails for want of addresses says so with code 50 or 51, or passes on its IPAM plugin's code."""
    asked, code = _asked_when_exhausted(trial)
    if asked.exit_code == 0:
        raise NotApplicableError("STATUS succeeds, which another check is about")
    if code not in {None, *_NOT_AVAILABLE}:
        raise NotApplicableError(f"the code {code} is the IPAM plugin's, which is examined itself")
    expect.refused(asked, "no address is left", codes=_NOT_AVAILABLE)


@check("status-exhausted-in-time", "habit-status-often", profiles=GIVING_ADDRESSES, since=_SINCE)
def exhausted_in_time(trial: Trial) -> None:
    """STATUS answers before the next poll, five seconds later, if no address is left."""
    config, _ = exhaust_addresses(trial)
    asked = trial.status(config=config)
    if asked.timed_out or asked.seconds >= _POLLED_EVERY * overload():
        raise SlowError(f"an answer within {_POLLED_EVERY:.0f} s", f"one after {asked.seconds:.1f} s", asked)


@check("status-ready-again", "status-ready", profiles=GIVING_ADDRESSES)
def ready_again(trial: Trial) -> None:
    """STATUS succeeds again after an address was released."""
    config, [first, *_] = exhaust_addresses(trial)
    trial.delete(config=config)  # as after any failed ADD
    trial.status(config=config)
    expect.succeeded(trial.delete(first, config=config))
    asked = trial.status(config=config)
    expect.succeeded(trial.add(config=config), "ADD when an address was given back")
    expect.succeeded(asked, "STATUS before an ADD that succeeds")


@check("status-failed-prevents-nothing", "status-prevents-nothing", profiles=GIVING_ADDRESSES)
def failed_prevents_nothing(trial: Trial) -> None:
    """CHECK and DEL of an attached container succeed if STATUS fails for want of addresses."""
    config, [first, *_] = exhaust_addresses(trial)
    if trial.status(config=config).exit_code == 0:
        raise NotApplicableError("STATUS does not fail, which another check is about")
    expect.succeeded(trial.check(first, config=config), "CHECK after STATUS has failed")
    expect.succeeded(trial.delete(first, config=config), "DEL after STATUS has failed")


@check("status-delegate-missing", "status-not-ready", profiles=IN_POD)
def delegate_missing(trial: Trial) -> None:
    """STATUS fails if the delegate cannot be found, so that no ADD can succeed."""
    config = _with_delegate(trial, _NO_SUCH_PLUGIN)
    asked = trial.status(config=config)
    if trial.add(config=config).exit_code == 0:
        raise NotApplicableError("ADD succeeds without its delegate")
    expect.refused(asked, f'there is no plugin "{_NO_SUCH_PLUGIN}" and ADD fails')


@check("status-forwarded", "status-delegates", profiles=IN_POD)
def forwarded(trial: Trial) -> None:
    """STATUS is asked of the delegate, too."""
    delegate = recording(trial)
    delegate.demand("STATUS", trial.status(environ=delegate.environ), "since STATUS was asked")


@check(
    "status-of-delegate-fails",
    "status-delegated-error",
    "status-prevents-nothing",
    profiles=IN_POD,
    needs=("status-forwarded",),
)
def of_delegate_fails(trial: Trial) -> None:
    """STATUS fails if the delegate's STATUS fails, and ADD, CHECK and DEL go on working."""
    delegate = recording(trial)
    delegate.answer("STATUS", FAILURE)
    expect.failed(trial.status(environ=delegate.environ), "the delegate's STATUS fails")
    expect.succeeded(trial.add(environ=delegate.environ), "ADD after STATUS has failed")
    expect.succeeded(trial.check(environ=delegate.environ), "CHECK after STATUS has failed")
    expect.succeeded(trial.delete(environ=delegate.environ), "DEL after STATUS has failed")


def _asked_when_exhausted(trial: Trial) -> tuple[Execution, object]:
    """Return the answer to STATUS when no address is left, and the code of the IPAM plugin's own error, if it has one.

    Addresses are the IPAM plugin's. Raises NotApplicableError if that says that it is ready, or is not asked.
    """
    config, _ = exhaust_addresses(trial)
    if not trial.subject.delegate:
        return trial.status(config=config), None
    delegate = recording(trial)
    asked = trial.status(config=config, environ=delegate.environ)
    records = delegate.records("STATUS")
    if not records:
        raise NotApplicableError(f"{trial.subject.delegate} is not asked, which another check is about")
    said = json_object(records[-1].stdout)
    if not said or "code" not in said:
        raise NotApplicableError(f"{trial.subject.delegate} says that it is ready, and is examined itself")
    return asked, said["code"]


def _with_delegate(trial: Trial, name: str) -> dict[str, object]:
    """Return keys for a configuration with another delegate. Raises NotApplicableError if the plugin has none."""
    ipam = trial.subject.plugin.raw.get("ipam")
    if not trial.subject.delegate or not isinstance(ipam, dict):
        raise NotApplicableError("the configuration names no IPAM plugin to delegate to")
    return {"ipam": {**ipam, "type": name}}
