"""The lines of the log: one for each event, with its labels."""

from pathlib import Path

from tests.unit.sample_plugin import Sample


def test_a_log_line_is_one_line_with_its_labels(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("one\ntwo\r\nthree\x0bfour"))

    outcome = sample.run("DEL", environ={"TRACEPARENT": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})

    assert outcome.stderr == (
        b"sample: one | two | three | four containerID=pod-1 traceID=4bf92f3577b34da6a3ce929d0e0e4736\n"
    )
    assert outcome.stdout == b""


def test_a_delegates_line_is_not_labelled_twice(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("host-local: full containerID=pod-1"))

    assert sample.run("DEL").stderr == b"sample: host-local: full containerID=pod-1\n"


def test_labels_cannot_start_a_line_either(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("x"))

    outcome = sample.run("STATUS", environ={"CNI_CONTAINERID": "a\nsample: b", "TRACEPARENT": "odd"})

    assert outcome.stderr == b"sample: x containerID=a | sample: b\n"
