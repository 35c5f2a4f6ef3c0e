"""The queueing disciplines that an ADD made, found in order to take one away again."""

from typing import Final, NamedTuple

from harness.conformance.circumstances import happened
from harness.conformance.requests import TrialContainer
from harness.conformance.trial import Trial
from harness.snapshot import Snapshot

_WITHOUT_PARENT: Final = ("ingress", "clsact")


class Qdisc(NamedTuple):
    """A queueing discipline, as a snapshot names it: "tbf dev eth0 root". `netns` is the place of its device."""

    netns: str
    name: str


def added(trial: Trial, container: TrialContainer, before: Snapshot, after: Snapshot) -> list[Qdisc]:
    """Return the additions on the node and in the container of the snapshots; none if tc(8) is not installed."""
    return [
        Qdisc(netns, name)
        for place, netns in (("node", trial.node_netns), ("pod", container.netns))
        for name in after.section(place, "qdiscs")
        if name not in before.section(place, "qdiscs")
    ]


def remove(trial: Trial, qdisc: Qdisc) -> bool:
    """Remove one without the plugin's knowledge; False if it cannot be removed."""
    kind, _, device, *place = qdisc.name.split()
    where = [kind] if kind in _WITHOUT_PARENT else place
    return happened(trial, qdisc.netns, "tc", "qdisc", "del", "dev", device, *where)
