"""The rhythm of `cni-harness repair --watch`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import pytest

from harness.runtime.node_repair import watch

if TYPE_CHECKING:
    from netlink.nft_monitor import LossMonitor


class EndError(Exception):
    """The answers of the monitor are used up."""


class Monitor:
    """Answers each wait with the next of `losses`, and notes how long it was to wait."""

    def __init__(self, losses: Iterable[bool]) -> None:
        self.losses = list(losses)
        self.log: list[str] = []

    def wait(self, timeout_s: float | None) -> bool:
        self.log.append(f"wait {timeout_s}")
        if not self.losses:
            raise EndError
        return self.losses.pop(0)


def watched(losses: Iterable[bool]) -> list[str]:
    """Watch with these answers of the monitor, and return all that happened."""
    monitor = Monitor(losses)
    log = monitor.log
    with pytest.raises(EndError):
        watch(
            cast("LossMonitor", monitor),
            repair=lambda: log.append("repair"),
            confirm=lambda: log.append("confirm"),
            pause=lambda seconds: log.append(f"pause {seconds}"),
        )
    return log


def test_watch_repairs_at_the_start_and_rereads_the_caches_later() -> None:
    log = watched([False, False, False, False])

    begin = ["confirm", "repair", "wait 0"]
    assert log == [*begin, "wait 1.0", "confirm", "wait 4.0", "confirm", "wait 15.0", "confirm", "wait None"]


def test_a_loss_is_repaired_at_once() -> None:
    log = watched([False, True])

    assert log == ["confirm", "repair", "wait 0", "wait 1.0", "confirm", "repair", "wait 0"]


def test_a_loss_during_a_repair_leads_to_one_more() -> None:
    log = watched([True, False, True])

    assert log.count("repair") == 3
    assert [entry for entry in log if entry.startswith("pause")] == []


def test_repairs_that_cause_each_other_slow_down() -> None:
    log = watched([True] * 14)

    pauses = [float(entry.split()[1]) for entry in log if entry.startswith("pause")]
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 60.0
    assert pauses == sorted(pauses)
