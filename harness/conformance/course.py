"""Courses of verbs that many checks take, and what they demand at the end."""

import time
from typing import Final, Unpack

from harness.conformance import expect
from harness.conformance.kernel import links
from harness.conformance.trial import Changes, Container, Trial, leftovers
from harness.conformance.verdict import NotApplicableError
from harness.snapshot import Snapshot
from skel.result import Result

__all__ = [
    "addresses",
    "baseline",
    "declared",
    "demand_soon_same",
    "pod_mac",
    "refuses",
    "round_trip",
    "spare_addresses",
]

_SETTLING_SECONDS: Final = 5.0
_PAUSE: Final = 0.05


def baseline(trial: Trial, *containers: Container) -> Snapshot:
    """Make what pods share, and what the plugin under test works on; return the state of the node then."""
    trial.warm_up()
    for container in containers or (trial.container,):
        trial.prepare(container)
    return trial.snapshot(*containers)


def round_trip(trial: Trial, when: str, **changes: Unpack[Changes]) -> Result:
    """Demand that ADD and DEL, both with the same changes, succeed and leave nothing; return the result of ADD.

    `when` says what is different: "without a PATH".
    """
    before = baseline(trial)
    added = trial.add(**changes)
    expect.succeeded(added, f"ADD {when}")
    result = expect.result(added, trial.version)
    expect.succeeded(trial.delete(**changes), f"DEL {when}")
    trial.demand_same(before, trial.snapshot(), f"after ADD and DEL {when}")
    return result


def demand_soon_same(trial: Trial, before: Snapshot, when: str, *containers: Container) -> None:
    """Demand that the node is as before, once the kernel has taken apart what it takes apart in the background."""
    deadline = time.monotonic() + _SETTLING_SECONDS
    after = trial.snapshot(*containers)
    while leftovers(before, after) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        after = trial.snapshot(*containers)
    trial.demand_same(before, after, when)


def declared(trial: Trial, capability: str) -> None:
    """Raise NotApplicableError where the configuration does not declare a capability."""
    if capability not in trial.subject.plugin.capabilities:
        raise NotApplicableError(f'the configuration does not declare the capability "{capability}"')


def refuses(trial: Trial, **changes: Unpack[Changes]) -> bool:
    """Tell whether an ADD of a container of its own fails; a DEL follows, as a runtime has it."""
    container = trial.new_container()
    execution = trial.add(container, **changes)
    trial.delete(container)
    trial.detach_others(container)
    return execution.exit_code != 0


def addresses(result: Result) -> list[str]:
    """Return the addresses of a result, without their prefix lengths."""
    return [str(each.address.ip) for each in result.ips]


def spare_addresses(trial: Trial, count: int = 1) -> list[str]:
    """Return so many addresses that the plugin gives, all free, and none of them the one that it would give next.

    They are of one family. Raises NotApplicableError where it gives none.
    """
    containers = [trial.new_container() for _ in range(count + 1)]
    given = [addresses(trial.attach(container)) for container in containers]
    for container in containers:
        trial.detach(container)
    if not all(given):
        raise NotApplicableError("the plugin gives no addresses")
    # The first is what an allocator gives that takes the lowest; one that goes on gives another than all of them.
    return [each[0] for each in given[1:]]


def pod_mac(trial: Trial) -> str:
    """Return the hardware address that the container's interface really has, nothing where there is none."""
    link = links(trial.container.netns).get(trial.container.ifname)
    return link.mac if link else ""
