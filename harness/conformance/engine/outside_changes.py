"""Changes around a plugin: interfaces, namespaces and files that are made or removed without its knowledge."""

import subprocess
from contextlib import suppress
from typing import Final

from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import settled
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.overload import overload
from harness.snapshot import Snapshot
from netlink.namespace import remove_namespace

_SECONDS: Final = 60.0
"""The timeout of a command."""
_OTHER_END: Final = "conformance0"


def command(trial: Trial, netns: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Execute a command on the node, in the namespace at `netns`; the caller looks at its exit code."""
    return trial.node.run(
        lambda: subprocess.run(
            ["nsenter", f"--net={netns}", "--", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS * overload(),
        )
    )


def require(trial: Trial, netns: str, *words: str, stdin: str = "") -> None:
    """Execute a command there. Raises NotApplicableError if it fails: the node cannot be made as a check needs it."""
    done = command(trial, netns, *words, stdin=stdin)
    if done.returncode != 0:
        raise NotApplicableError(f"the node cannot be prepared: {words[0]}: {done.stderr.strip()}")


def succeeds(trial: Trial, netns: str, *words: str) -> bool:
    """Execute a command there and tell whether it succeeded."""
    return command(trial, netns, *words).returncode == 0


def has_interface(trial: Trial, netns: str, name: str) -> bool:
    """Tell whether an interface of this name exists."""
    return succeeds(trial, netns, "ip", "link", "show", "dev", name)


def make_interface(trial: Trial, container: TrialContainer) -> None:
    """Make an interface in a container, with the name that ADD is asked for. Raises NotApplicableError."""
    made = command(
        trial, container.netns, "ip", "link", "add", container.ifname, "type", "veth", "peer", "name", _OTHER_END
    )
    if made.returncode != 0:
        raise NotApplicableError(f"no interface can be made in the container: {made.stderr.strip()}")


def lose_interface(trial: Trial, netns: str, name: str) -> bool:
    """Remove an interface without the plugin's knowledge; False if it is missing or cannot be removed."""
    return succeeds(trial, netns, "ip", "link", "delete", "dev", name)


def take_interface(trial: Trial) -> None:
    """Remove the interface of the trial's container so. Raises NotApplicableError if it is missing or stays."""
    if not lose_interface(trial, trial.container.netns, trial.container.ifname):
        raise NotApplicableError("the interface cannot be removed")


def lose_namespace(container: TrialContainer) -> None:
    """Remove a container's namespace, as at the end of the container; the kernel removes its content later."""
    remove_namespace(container.netns)


def demand_no_device(trial: Trial, container: TrialContainer) -> None:
    """Raise NotApplicableError if ADD has moved an interface of the node's preparation into the container.

    A virtual interface ends with its namespace. The kernel puts hardware back, but to the machine's first namespace.
    """
    if trial.prepared & trial.macs(container.netns) - trial.macs(trial.node_netns):
        raise NotApplicableError("ADD moves an interface of the node, which would end with the container")


def attach_and_vanish(trial: Trial, container: TrialContainer, before: Snapshot, seen: TrialContainer) -> None:
    """Attach a container whose namespace then goes without a DEL. `before` is the state, with `seen`, before.

    Raises NotApplicableError if the plugins before leave something themselves, or ADD moves an interface of the node.
    """
    if trial.subject.before:
        other = trial.new_container()
        trial.prepare(other)
        lose_namespace(other)
        demand_of_others(trial, before, other, seen)
    trial.attach(container)
    demand_no_device(trial, container)
    lose_namespace(container)


def lose_files(trial: Trial) -> bool:
    """Remove the plugin's files below the node's /var/lib/cni, but none of the preparation; False if it has none."""
    # Files come before their folders.
    found = sorted(set(trial.node.var_lib_cni.rglob("*")) - trial.prepared_files, reverse=True)
    for path in found:
        with suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
    return bool(found)


def prepare_all(trial: Trial) -> None:
    """Have everything on the node that containers share, and what the plugins before make for this container."""
    trial.warm_up()
    trial.prepare(trial.container)


def untouched_by_any(trial: Trial) -> Snapshot:
    """Return the state before this container's first ADD of any plugin, to compare with the state after the list's DEL.

    Raises NotApplicableError if the plugins before leave something themselves.
    """
    trial.warm_up()
    before = trial.snapshot()
    if trial.subject.before:
        trial.prepare(trial.container)
        demand_of_others(trial, before, trial.container)
    return before


def demand_of_others(trial: Trial, before: Snapshot, container: TrialContainer, *seen: TrialContainer) -> None:
    """Have the plugins before the one under test clean up. Raises NotApplicableError if they leave something."""
    trial.detach_others(container)
    left = settled(trial, before, *seen)
    if left:
        things = ", ".join(sorted({each.thing for each in left}))
        raise NotApplicableError(f"the plugins before leave something themselves: {things}")
