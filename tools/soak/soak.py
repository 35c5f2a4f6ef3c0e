"""One execution after the other gets SIGTERM on its way; after each the node has to be as the outcome says.

An ADD that fails must have left nothing, before any DEL. One that succeeds must have its result on stdout. After DEL
nothing may be left, nor after the next DEL if SIGTERM ended the first.
"""

import json
import random
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.chaos import PointUnit, killed
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import settled
from harness.conformance.engine.trial import Trial
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.execute import Execution
from harness.libcni.networks import parse_network_list
from harness.runtime.site import Site
from harness.snapshot import Snapshot
from netlink.rtnl import Rtnl

_BRIDGE = "br0"
_NETWORK = {
    "cniVersion": "1.1.0",
    "name": "soak",
    "plugins": [
        {
            "type": "bridge",
            "bridge": _BRIDGE,
            "isGateway": True,
            "ipMasq": True,
            "macspoofchk": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64"}]]},
        }
    ],
}
_OPTIONS = CheckOptions(timeout=300)
"""A time limit that only a hang reaches."""
_RUNS_ON_A_NODE = 50
"""Namespaces of pods stay until their node goes."""


@dataclass(frozen=True)
class Soak:
    """Which executions are ended: of which plugins (`kind` is their name in the table), which verb, and when."""

    kind: str
    subject: Subject
    verb: str
    by: PointUnit
    points: tuple[int, ...]
    """Microseconds after the start, or numbers of system calls."""
    options: CheckOptions = _OPTIONS
    """With `preparation` for a plugin that needs more than an empty node."""


@dataclass
class Tally:
    """The outcome of a soak."""

    soak: Soak
    ended: int = 0
    """Executions that failed; the others succeeded before the signal came, or in spite of it."""
    left: list[str] = field(default_factory=list)
    """In words: leftovers before any DEL of each ADD that failed or had no result, and executions that did not end."""
    left_for_good: list[str] = field(default_factory=list)
    """The same, after the (next) DEL."""

    def __add__(self, other: "Tally") -> "Tally":
        """Return the sum of two parts of a soak."""
        return Tally(
            self.soak,
            self.ended + other.ended,
            self.left + other.left,
            self.left_for_good + other.left_for_good,
        )


def subject_in(bin_dir: Path) -> Subject:
    """Return the bridge plugin in a folder, with a network of both families, a gateway and a firewall."""
    network = parse_network_list(json.dumps(_NETWORK).encode())
    (subject,) = subjects_of(network, [bin_dir], profile=Profile.INTERFACE)
    return subject


def survey(subject: Subject, verb: str, state_dir: Path, options: CheckOptions = _OPTIONS) -> tuple[int, int]:
    """Return how many system calls a verb makes, and how many microseconds it takes if nothing traces it."""
    with Site(state_dir, "soak") as site:
        trial = Trial(subject, site, options)
        trial.warm_up()
        found = []
        for by in (PointUnit.CALLS, PointUnit.TIME):
            container = trial.new_container()
            if verb == "DEL":
                trial.attach(container)
            found.append(killed(trial, verb, container, by, 0))
            trial.delete(container)
    return found[0][1], found[1][2]


def random_points(count: int, microseconds: int, seed: int) -> tuple[int, ...]:
    """Return `count` moments of an execution that takes so long."""
    chance = random.Random(seed)  # noqa: S311 - the same moments each time
    return tuple(chance.randint(1, microseconds) for _ in range(count))


def soak(wanted: Soak, state_dir: Path, jobs: int) -> Tally:
    """End the executions, on `jobs` nodes at once, and return what came of it."""

    def end_share(points: Iterable[int]) -> Tally:
        tally = Tally(wanted)
        remaining = iter(points)
        while batch := list(islice(remaining, _RUNS_ON_A_NODE)):
            for part in _on_a_node(wanted, batch, state_dir):
                tally += part
        return tally

    with ThreadPoolExecutor(jobs) as threads:
        tallies = threads.map(end_share, [wanted.points[number::jobs] for number in range(jobs)])
        return sum(tallies, Tally(wanted))


def _on_a_node(wanted: Soak, points: list[int], state_dir: Path) -> Iterator[Tally]:
    """Yield what comes of each point; a node on which something stays is not used again."""
    remaining = list(points)
    while remaining:
        with Site(state_dir, "soak") as site:
            trial = Trial(wanted.subject, site, wanted.options)
            trial.warm_up()
            clean = True
            while remaining and clean:
                part = _ended(trial, wanted, remaining.pop(0))
                clean = not part.left_for_good
                yield part


def _ended(trial: Trial, wanted: Soak, point: int) -> Tally:
    container = trial.new_container()
    tally = Tally(wanted)
    _remove_bridge(trial)  # so that each ADD makes it
    before = trial.snapshot(container)
    if wanted.verb == "DEL":
        trial.attach(container)
    execution, *_ = killed(trial, wanted.verb, container, wanted.by, point, signal.SIGTERM)
    tally.ended = int(execution.exit_code != 0)
    if execution.timed_out:
        tally.left.append(f"{wanted.by} {point}: still there after {execution.seconds:.0f} s")
    if wanted.verb == "ADD" and (fault := _fault(trial, container, execution, before)):
        tally.left.append(f"{wanted.by} {point}: {fault}")
    deleted = trial.delete(container)
    _remove_bridge(trial)
    left = [each.in_words() for each in settled(trial, before, container)]
    if deleted.exit_code or left:
        tally.left_for_good.append(f"{wanted.by} {point}: DEL {deleted.exit_code}: {'; '.join(left)}")
    return tally


def _fault(trial: Trial, container: TrialContainer, execution: Execution, before: Snapshot) -> str:
    if execution.exit_code == 0:
        return "" if trial.result_document(container) else f"success without a result: {execution.stdout!r}"
    return "; ".join(each.in_words() for each in trial.leftovers(before, trial.snapshot(container)))


def _remove_bridge(trial: Trial) -> None:
    def remove() -> None:
        with Rtnl() as host:
            host.delete_link(_BRIDGE)

    trial.node.run(remove)
