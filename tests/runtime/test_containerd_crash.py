"""SIGKILL ends containerd while plugins are at work, which go on; the pods that the next one removes leave nothing.

Since the end of 2022 containerd 1.6 records a pod before it asks for its network. So the next one knows of every ADD,
and StopPodSandbox has DEL executed for each: no GC is needed.
"""

import fcntl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nodes import until
from tests.runtime.containerd import Containerd, State
from tests.runtime.cri import SECONDS, CriError

NAMES = [f"pod{number}" for number in range(6)]
PER_POD = 2
"""Addresses."""


@contextmanager
def all_at_once(function: Callable[[str], object], names: list[str]) -> Iterator[list[Future[object]]]:
    """Call a function with each of the names while the block lasts; it may fail."""
    with ThreadPoolExecutor(len(names)) as pool:
        yield [pool.submit(function, name) for name in names]


@contextmanager
def addresses_held(containerd: Containerd) -> Iterator[None]:
    """Let host-local reserve and release nothing while the block lasts: plugins that want to, wait."""
    with (containerd.node.var_lib_cni / "networks/cni-harness/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ports(containerd: Containerd) -> int:
    """How many pods are connected with the bridge."""
    return len(containerd.node.ip("link", "show", "master", "cni-harness0"))


def plugins_at_work(containerd: Containerd) -> list[str]:
    """The command lines of plugins, executed by themselves or waiting for the server."""
    return [args for args in containerd.node.processes() if "/cni/bridge" in args or args.endswith(" bridge")]


def restart(containerd: Containerd) -> None:
    """Have another containerd in its place as soon as the plugins of the one that was killed are done."""
    until(lambda: not plugins_at_work(containerd), within=SECONDS)
    containerd.start()


def forget_results_half_written(containerd: Containerd) -> None:
    """Remove results that containerd was writing when it was killed: it could not stop their pods otherwise.

    libcni empties the file of a result, then writes it (`cacheAdd` in libcni/api.go, up to 1.3.0); its content
    at DEL must be JSON, and a missing file is no error.
    """
    for path in containerd.results():
        if not path.stat().st_size:
            path.unlink()


def assert_nothing_left(containerd: Containerd, before: State) -> None:
    """Have containerd remove all of its pods; raise AssertionError for leftovers on the node.

    The next containerd may not know of state without a plugin: shims that run without a container, empty
    control groups of what runc was about to start, and namespaces for which no plugin was executed yet.
    """
    forget_results_half_written(containerd)
    containerd.remove(*containerd.cri.pods())
    assert containerd.cri.pods() == {}
    containerd.end_shims()
    for path, from_outside in containerd.node.pods_namespaces().items():
        links = {link["ifname"]: link["operstate"] for link in containerd.node.ip("link", netns=from_outside)}
        assert links == {"lo": "DOWN"}
        containerd.node.run(["ip", "netns", "delete", Path(path).name])
    containerd.assert_same_state(before, but_for=["control groups"])


def test_killed_while_every_add_is_half_done(containerd: Containerd) -> None:
    containerd.warm_up()
    before = containerd.state()
    containerd.cri.run_pod("settled")
    with addresses_held(containerd), all_at_once(containerd.cri.run_pod, NAMES) as calls:
        until(lambda: ports(containerd) == 1 + len(NAMES), within=SECONDS)
        assert plugins_at_work(containerd)
        containerd.kill()
    assert {type(call.exception()) for call in calls} == {CriError}
    restart(containerd)

    assert len(containerd.reservations()) == PER_POD * (1 + len(NAMES))
    assert set(containerd.reservations().values()) == set(containerd.cri.pods())
    assert sorted(containerd.cri.pods().values()) == [*NAMES, "settled"]
    assert_nothing_left(containerd, before)


@pytest.mark.parametrize("reserved", [1, 6, 12])
def test_kill_of_containerd_after_reservations_leaves_nothing(containerd: Containerd, reserved: int) -> None:
    containerd.warm_up()
    before = containerd.state()
    with all_at_once(containerd.cri.run_pod, NAMES):
        until(lambda: len(containerd.reservations()) >= reserved, within=SECONDS)
        containerd.kill()
    restart(containerd)

    assert set(containerd.reservations().values()) <= set(containerd.cri.pods())
    assert_nothing_left(containerd, before)


def test_killed_while_it_writes_a_result(containerd: Containerd) -> None:
    containerd.warm_up()
    before = containerd.state()
    pod = containerd.cri.run_pod("one")
    [result] = (path for path in containerd.results() if "loopback" not in path.name)
    containerd.kill()
    result.write_bytes(b"")
    restart(containerd)

    with pytest.raises(CriError) as failure:
        containerd.cri.stop_pod(pod.id)
    assert "unexpected end of JSON input" in str(failure.value)
    assert set(containerd.reservations().values()) == {pod.id}
    assert_nothing_left(containerd, before)


def test_killed_while_every_del_is_half_done(containerd: Containerd) -> None:
    containerd.warm_up()
    before = containerd.state()
    pods = [containerd.cri.run_pod(name).id for name in NAMES]
    with addresses_held(containerd), all_at_once(containerd.cri.stop_pod, pods) as calls:
        until(lambda: ports(containerd) == 0, within=SECONDS)
        assert len(containerd.reservations()) == PER_POD * len(NAMES)
        containerd.kill()
    assert {type(call.exception()) for call in calls} == {CriError}
    restart(containerd)

    assert_nothing_left(containerd, before)
