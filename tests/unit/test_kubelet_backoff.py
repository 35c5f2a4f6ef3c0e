"""Restarts come at once, then after 10, 20, 40, … 300 seconds; ten quiet minutes begin anew."""

from harness.kubelet.sync.backoff import Backoff

KEY = "pod_container"


class Clock:
    """A time that stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def crash(backoff: Backoff, clock: Clock, *, ran_s: float = 0) -> float:
    """Let a container run, end, and start again as soon as it may; return the seconds between end and start."""
    clock.now += ran_s
    end = clock.now
    while backoff.is_in_backoff_since(KEY, end):
        clock.now += 1
    backoff.next(KEY, end)
    return clock.now - end


def test_delays_double_up_to_the_maximum() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)

    assert [crash(backoff, clock) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_run_of_more_than_ten_minutes_begins_anew() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)
    for _ in range(5):
        crash(backoff, clock)

    assert crash(backoff, clock, ran_s=600) == 160
    assert backoff.get(KEY) == 300
    assert crash(backoff, clock, ran_s=601) == 0
    assert backoff.get(KEY) == 10


def test_delay_counts_from_the_end_not_from_the_start() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)

    assert [crash(backoff, clock, ran_s=15) for _ in range(4)] == [0, 10, 20, 40]


def test_keys_are_apart() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)
    backoff.next(KEY, clock.now)

    assert backoff.is_in_backoff_since(KEY, clock.now)
    assert not backoff.is_in_backoff_since("other", clock.now)
    assert (backoff.get(KEY), backoff.get("other")) == (10, 0)


def test_backoff_uses_the_given_delays() -> None:
    clock = Clock()
    backoff = Backoff(1, 5, clock)

    assert [crash(backoff, clock) for _ in range(5)] == [0, 1, 2, 4, 5]


def test_expired_keys_alone_are_forgotten() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)
    backoff.next("old", clock.now)
    clock.now += 600
    backoff.next("new", clock.now)
    assert backoff.get("old") == 10
    clock.now += 1

    backoff.next("newest", clock.now)

    assert (backoff.get("old"), backoff.get("new")) == (0, 10)


def test_a_try_without_an_end_waits_from_the_last_failure() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)
    waited = []
    for _ in range(3):
        began = clock.now
        while backoff.is_in_backoff(KEY):
            clock.now += 1
        backoff.next(KEY)
        waited.append(clock.now - began)

    assert waited == [0, 10, 20]
    assert not backoff.is_in_backoff("other")
