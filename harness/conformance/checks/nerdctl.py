"""The requests of nerdctl, from its hooks of the OCI runtime, that the specification does not mention."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.outside_changes import attach_and_vanish, demand_no_device
from harness.conformance.engine.requests import ABSENT, TrialContainer
from harness.conformance.engine.sequences import as_before, demand_no_more
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import GIVING_ADDRESSES
from netlink.namespace import entered, open_namespace, remove_namespace

_ABOUT: Final = re.compile(r"CNI \S+ plugin v\d+\.\d+\.\d+\S*")
_NOT_THE_PROTOCOL: Final = dict.fromkeys(("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"), ABSENT)
_LONGEST_LIFE: Final = "300"


@check("nerdctl-about", "habit-about-version")
def nerdctl_about(trial: Trial) -> None:
    """A plugin that describes itself without CNI_COMMAND does so as "CNI NAME plugin vX.Y.Z" on stderr."""
    execution = trial.ask_version(environ={**_NOT_THE_PROTOCOL, "CNI_ARGS": ABSENT, "CNI_PATH": ABSENT}, stdin=b"")
    said = execution.stderr.decode(errors="replace").strip().partition("\n")[0]
    if execution.exit_code != 0 or not said:
        raise NotApplicableError("without CNI_COMMAND, the plugin says nothing of itself")
    if not _ABOUT.match(said):
        raise ViolationError('"CNI NAME plugin vX.Y.Z" as the first line on stderr', said, execution)


@check(
    "nerdctl-del-before-add",
    "habit-del-before-add",
    "del-repeated",
    needs=("del-twice", "del-never-added", "del-netns-gone"),
)
def nerdctl_del_before_add(trial: Trial) -> None:
    """DEL comes before every ADD, with an empty CNI_NETNS and no prevResult, and leaves the node as it was."""
    with as_before(trial, "after DEL before ADD"):
        expect.succeeded(trial.delete(environ={"CNI_NETNS": ""}, prev_result=ABSENT), "DEL before ADD")
    expect.succeeded(trial.add(), "ADD after that DEL")


@check("nerdctl-namespace-of-process", "habit-proc-netns", profiles=GIVING_ADDRESSES, needs=("del-netns-gone",))
def nerdctl_namespace_of_process(trial: Trial) -> None:
    """CNI_NETNS is the namespace of a process, "/proc/PID/ns/net", and that process is gone when DEL comes."""
    trial.warm_up()
    before = trial.snapshot()
    with _process(trial) as container:
        trial.attach(container)
        demand_no_device(trial, container)
    expect.succeeded(trial.delete(container), "DEL after the end of the process")
    demand_no_more(trial, before, "after DEL, the process being gone")


@check("nerdctl-last-del", "habit-last-del-empty-netns", profiles=GIVING_ADDRESSES, needs=("del-netns-gone",))
def nerdctl_last_del(trial: Trial) -> None:
    """The only DEL has an empty CNI_NETNS and the result of ADD, and comes when the namespace is gone."""
    trial.warm_up()
    before, container = trial.snapshot(), trial.new_container()
    attach_and_vanish(trial, container, before, trial.container)
    expect.succeeded(trial.delete(container, environ={"CNI_NETNS": ""}), "DEL with an empty CNI_NETNS")
    demand_no_more(trial, before, "after the only DEL, with an empty CNI_NETNS")


@contextmanager
def _process(trial: Trial) -> Iterator[TrialContainer]:
    """Make a process with a network namespace that no other process holds, and end it."""
    origin = trial.new_container()
    with open_namespace(origin.netns) as namespace, entered(namespace):
        process = subprocess.Popen(["/bin/sleep", _LONGEST_LIFE])
    try:
        remove_namespace(origin.netns)
        yield origin._replace(netns=f"/proc/{process.pid}/ns/net")
    finally:
        process.kill()
        process.wait()
