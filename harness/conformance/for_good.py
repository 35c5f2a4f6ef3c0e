"""The things that a plugin's first ADD leaves on a node for good: shared by all containers, and no fault."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.conformance.check_options import CheckOptions
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.prerequisites import NUMBERS
from harness.conformance.requests import TrialContainer
from harness.conformance.subject import Subject
from harness.conformance.trial import Trial
from harness.snapshot import Difference

_NODE: Final = "node"


def left_for_good(subject: Subject, state_dir: Path, options: CheckOptions) -> tuple[str, ...]:
    """Return the things of the node that remain after the first ADD and DEL: "nft table ip nat", "sysctl NAME=1".

    Things that each ADD and DEL leaves are left out: they are a finding. So are the contents of a table and of a link,
    and files. None are returned if the plugin or one before it fails. Raises OSError, PreparationError.
    """
    with Trial.on_new_node(subject, state_dir, options) as trial:
        try:
            trial.prepare(trial.container)
            trial.detach_others(trial.container)  # their things are told of them
            before, (first, second) = trial.snapshot(), (trial.new_container(), trial.new_container())
            _come_and_go(trial, first)
            between = trial.snapshot()
            _come_and_go(trial, second)
        except (ViolationError, NotApplicableError):
            return ()
        after = trial.snapshot()
        again = {_pattern(each) for each in trial.leftovers(between, after)}
        left = [each for each in trial.leftovers(before, after) if each.place == _NODE]
    return tuple(_told([each for each in left if _pattern(each) not in again]))


def _come_and_go(trial: Trial, container: TrialContainer) -> None:
    trial.attach(container)
    trial.detach(container)


def _pattern(difference: Difference) -> tuple[str, str]:
    return difference.thing, NUMBERS.sub("#", difference.name)


def _told(left: Sequence[Difference]) -> Iterator[str]:
    new = [each for each in left if each.kind == "appeared"]
    tables = tuple(f"{each.name} " for each in new if each.thing == "nft table")
    links = [each.name for each in new if each.thing == "link"]
    for each in left:
        in_table = each.thing.startswith(("nft ", "iptables ")) and each.name.startswith(tables)
        of_link = each.name.endswith(tuple(f" dev {name}" for name in links)) or any(
            each.thing == "sysctl" and f".{name}." in each.name for name in links
        )
        if not in_table and not of_link:
            yield _in_words(each)


def _in_words(difference: Difference) -> str:
    named = f"{difference.thing} {difference.name}"
    if difference.thing == "sysctl":
        return f"{named}={difference.after}"
    return named if difference.kind == "appeared" else f"{named} {difference.kind}"
