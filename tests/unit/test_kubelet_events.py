"""Events are counted, kept in files, and read back."""

import threading
from pathlib import Path

from harness.kubelet.events import NORMAL, WARNING, EventRecorder
from tests.unit.kubelet_objects import START, UID, pod


class Clock:
    """A time that moves by ten seconds each time it is read."""

    def __init__(self) -> None:
        self.now = START - 10

    def __call__(self) -> float:
        self.now += 10
        return self.now


def recorder(folder: Path) -> EventRecorder:
    return EventRecorder(folder, clock=Clock())


def test_event_has_the_pods_identity_and_a_time(tmp_path: Path) -> None:
    recorder(tmp_path).event(pod(), NORMAL, "Pulled", 'Image "x" \u2028present\n', "spec.containers{foo1}")

    [event] = recorder(tmp_path).of(UID)

    assert event.encode() == {
        "type": "Normal",
        "reason": "Pulled",
        "message": 'Image "x" \u2028present\n',
        "fieldPath": "spec.containers{foo1}",
        "count": 1,
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "pod": "foo",
        "namespace": "new",
        "uid": UID,
    }


def test_equal_events_are_counted_and_move_to_the_end(tmp_path: Path) -> None:
    events = recorder(tmp_path)
    for message in ("a", "b", "a", "a"):
        events.event(pod(), WARNING, "BackOff", message)

    assert [(event.message, event.count) for event in events.of(UID)] == [("b", 1), ("a", 3)]
    last = events.of(UID)[1]
    assert (last.first_timestamp, last.last_timestamp) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:30Z")


def test_events_of_other_kinds_are_apart(tmp_path: Path) -> None:
    events = recorder(tmp_path)
    events.event(pod(), WARNING, "Failed", "m")
    events.event(pod(), NORMAL, "Failed", "m")
    events.event(pod(), WARNING, "BackOff", "m")
    events.event(pod(), WARNING, "Failed", "m", "spec.containers{a}")

    assert [event.count for event in events.of(UID)] == [1, 1, 1, 1]


def test_another_run_of_kubelet_counts_on(tmp_path: Path) -> None:
    recorder(tmp_path).event(pod(), NORMAL, "Started", "Container started")
    recorder(tmp_path).event(pod(), NORMAL, "Started", "Container started")

    assert [event.count for event in recorder(tmp_path).of(UID)] == [2]


def test_oldest_events_are_dropped(tmp_path: Path) -> None:
    events = recorder(tmp_path)
    events.event(pod(), NORMAL, "Unhealthy", "0")
    path = tmp_path / UID / "events.jsonl"
    line = path.read_text()
    path.write_text("".join(line.replace('"0"', f'"{number}"') for number in range(256)))

    events.event(pod(), NORMAL, "Unhealthy", "256")

    assert [event.message for event in events.of(UID)] == [str(number) for number in range(1, 257)]


def test_pod_without_events_has_none(tmp_path: Path) -> None:
    assert recorder(tmp_path).of("unknown") == []


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    events = recorder(tmp_path)
    events.event(pod(), NORMAL, "Started", "Container started")
    path = tmp_path / UID / "events.jsonl"
    path.write_text("{\n[]\n" + path.read_text() + '{"type": 1}\n')

    assert [event.reason for event in events.of(UID)] == ["Started"]


def test_threads_lose_no_event(tmp_path: Path) -> None:
    events = recorder(tmp_path)

    def ten() -> None:
        for _ in range(10):
            events.event(pod(), NORMAL, "Pulled", "m")

    threads = [threading.Thread(target=ten) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [event.count for event in events.of(UID)] == [40]
