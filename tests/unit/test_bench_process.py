"""Executing and timing processes, with real ones."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bench.process import (
    Chain,
    PluginFailedError,
    ProcessRequest,
    TimedExecution,
    TimedProcess,
    run_chains,
    run_one,
)
from tests.nodes import HANG

PATH = {"PATH": "/usr/bin:/bin"}


def shell(script: str) -> ProcessRequest:
    """A shell that reads its script, as plugins their configuration, from standard input."""
    return ProcessRequest("/bin/sh", PATH, script.encode())


def one(request: ProcessRequest) -> Chain:
    yield request


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    before, children = sorted(Path("/proc/self/fd").iterdir()), own_children()
    yield
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert own_children() == children


def own_children() -> set[str]:
    """The children of this process: the server of other tests may be one."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_output_and_time() -> None:
    ended = run_one(shell("echo done; sleep 0.1"), timeout=HANG)

    assert ended.stdout == b"done\n"
    assert 0.1 <= ended.seconds < HANG


def test_a_program_gets_its_arguments() -> None:
    ended = run_one(ProcessRequest("/bin/sh", PATH, b"", ("-c", 'echo "$0" "$@"', "a", "b c")), timeout=HANG)

    assert ended.stdout == b"a b c\n"


def test_a_request_larger_than_a_pipe_arrives_whole() -> None:
    text = b"x" * 300_000
    ended = run_one(ProcessRequest("/usr/bin/wc", PATH, text), timeout=HANG)

    assert ended.stdout.split()[2] == b"300000"


def test_error_has_the_output_of_the_failed_plugin() -> None:
    with pytest.raises(PluginFailedError, match=r"^/bin/sh: exit code 3: result complaint$"):
        run_one(shell("echo complaint >&2; echo result; exit 3"), timeout=HANG)


@pytest.mark.parametrize("script", ["sleep 1d", "exec >&-; sleep 1d", "sleep 1d & sleep 1d"])
def test_process_beyond_the_timeout_is_killed(script: str) -> None:
    with pytest.raises(PluginFailedError, match="still running after 0"):
        run_one(shell(script), timeout=0.3)


def test_signals_that_python_ignores_are_not_ignored_in_plugins() -> None:
    ended = run_one(shell("grep SigIgn /proc/self/status"), timeout=HANG)

    ignored = int(ended.stdout.split()[1], 16)
    assert [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1] == []


def test_chains_run_at_once_and_their_links_one_after_the_other(tmp_path: Path) -> None:
    """Each of three waits for the files of the others: they could not end one by one."""
    heard: dict[int, list[bytes]] = {}

    def chain(number: int) -> Chain:
        script = (
            f"touch {tmp_path}/{number}; while [ $(ls {tmp_path} | wc -l) -lt 3 ]; do sleep 0.01; done; echo {number}"
        )
        first: TimedExecution = yield shell(script)
        second: TimedExecution = yield shell(f"echo after {first.stdout.decode().strip()}")
        heard[number] = [first.stdout, second.stdout]

    seconds = run_chains([chain(number) for number in range(3)], timeout=HANG)

    assert heard == {number: [b"%d\n" % number, b"after %d\n" % number] for number in range(3)}
    assert 0 < seconds < HANG


def test_all_chains_end_before_a_failure_is_raised(tmp_path: Path) -> None:
    slow = tmp_path / "slow"

    with pytest.raises(PluginFailedError, match="exit code 1"):
        run_chains([one(shell("exit 1")), one(shell(f"sleep 0.2; touch {slow}"))], timeout=HANG)

    assert slow.exists()


def test_process_blocks_on_writing_to_a_full_stdout() -> None:
    from harness.bench.resources import is_writing, peak_rss
    from tests.nodes import until

    process = TimedProcess(shell("echo result"))
    try:
        process.fill_stdout()
        process.spawn()
        until(lambda: is_writing(process.pid))
        assert 100_000 < peak_rss(process.pid) < 10_000_000
        while process.read():
            pass
        assert process.wait(time.perf_counter() + HANG).stdout.split() == [b"result"]
    finally:
        process.close()
