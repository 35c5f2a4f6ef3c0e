"""Processes on a site's nodes and in its pods end with it, and no others do."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.runtime.site import Site
from tests.nodes import HANG

pytestmark = pytest.mark.sudo


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Those that the test has started; they are gone after it."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(*words: str) -> subprocess.Popen[bytes]:
    """Start a process, and return when the words describe it."""
    process = subprocess.Popen([*words, "sh", "-c", "echo && exec sleep 600"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("setsid",), id="on the node"),
        pytest.param(("nsenter", "--net={pod}"), id="in the pod"),
        pytest.param(("nsenter", "--net={pod}", "unshare", "--mount"), id="in the pod, as of ip netns exec"),
        pytest.param(("unshare", "--net"), id="in a network namespace of its own"),
        pytest.param(("unshare", "--mount", "chroot", "/proc/self/root"), id="in a mount namespace of its own"),
    ],
)
def test_a_process_ends_with_the_site(
    words: tuple[str, ...], tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    with Site(tmp_path, "processes") as site:
        node, pod = site.node(), site.namespace()
        started.append(node.run(start, *(word.format(pod=pod) for word in words)))

        assert [each.pid for each in site.processes()] == [started[0].pid]
        assert started[0].poll() is None

    assert started[0].wait(timeout=HANG) == -9
    assert not Path(pod).exists()


def test_a_process_of_a_pod_that_is_gone_ends_with_the_site(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    with Site(tmp_path, "processes") as site, ExitStack() as gone:
        node, pod = site.node(until=gone), site.namespace()
        started.append(node.run(start, "nsenter", f"--net={pod}"))
        subprocess.run(["ip", "netns", "delete", Path(pod).name], check=True)

    assert started[0].wait(timeout=HANG) == -9


def test_processes_of_other_sites_continue(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    with Site(tmp_path, "processes") as other:
        neighbour = other.node()
        with Site(tmp_path, "processes") as site:
            site.node()
            started += [start(), neighbour.run(start)]

            assert site.processes() == []

        assert [process.poll() for process in started] == [None, None]
