"""Killed before any of its system calls, host-local leaves files that are whole and that DEL and GC clear."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import HostLocal, at_each_system_call, system_calls

# As DEL leaves them, ours and the reference's.
LASTING = {"lock", "last_reserved_ip.0", "last_reserved_ip.1"}


def prepare(net: HostLocal, state: str) -> None:
    """Bring a folder into the state that a verb is to be killed in."""
    if state == "nothing":
        return
    net.add("other")
    net.add("pod", "net1")
    if state == "entries of others":
        net.write("192.0.2.99", "pod\r\neth0")
        net.write("192.0.2.100", "old")
        net.succeed("DEL", "pod", "net1")
    if state == "attached":
        net.add("pod")


def killed_before(call: int, net: HostLocal, verb: str) -> None:
    """Carry out a verb, and die before its n-th system call, as from `kill -9`."""
    left = call

    def count(_name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    more: dict[str, Any] = {"cni.dev/valid-attachments": []} if verb == "GC" else {}
    at_each_system_call(lambda: net.run(verb, "pod", **more), count)


def kill_everywhere(folder: str, state: str, verb: str, calls: str) -> None:
    """Kill the verb before each of its calls, every time in a folder of its own.

    This is a process of its own: it forks, which a test's process with its threads should not.
    """
    prepared = HostLocal(Path(folder) / "prepared")
    prepare(prepared, state)
    for call in range(1, int(calls) + 1):
        net = HostLocal(Path(folder) / str(call))
        if prepared.data_dir.exists():
            shutil.copytree(prepared.data_dir, net.data_dir, symlinks=True)
        child = os.fork()
        if child == 0:
            killed_before(call, net, verb)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), call


def crashes(tmp_path: Path, state: str, verb: str) -> Iterator[HostLocal]:
    """The network after each of the crashes."""
    counted = HostLocal(tmp_path / "counted")
    prepare(counted, state)
    more: dict[str, Any] = {"cni.dev/valid-attachments": []} if verb == "GC" else {}
    calls = len(system_calls(lambda: counted.run(verb, "pod", **more)))
    assert calls > 3
    script = f"from {__name__} import kill_everywhere; import sys; kill_everywhere(*sys.argv[1:])"
    arguments = [str(tmp_path), state, verb, str(calls)]
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, cwd=root, env={"PYTHONPATH": str(root)})
    for call in range(1, calls + 1):
        yield HostLocal(tmp_path / str(call))


def assert_sound(net: HostLocal) -> None:
    """Every reservation is whole, and where the seal says that the index is whole it is."""
    if not net.folder.exists():
        return
    reservations = net.reservations()
    assert all(reservations.values())
    assert all(note.stat().st_size for note in net.folder.glob("last_reserved_ip.*"))
    if net.folder.stat().st_mtime == 1_000_000_000:
        by_owner: dict[str, list[str]] = {}
        for address, owner in sorted(reservations.items()):
            container_id, _, ifname = owner.partition("\r\n")
            by_owner.setdefault(f".owner@{container_id}@{ifname}", []).append(address)
        indexed = {link: target.split(",") for link, target in net.index().items()}
        assert by_owner.items() <= indexed.items()


CASES = [
    ("nothing", "ADD"),
    ("others", "ADD"),
    ("entries of others", "ADD"),
    ("attached", "DEL"),
    ("entries of others", "DEL"),
    ("others", "DEL"),
    ("attached", "GC"),
]


@pytest.mark.parametrize(("state", "verb"), CASES)
def test_a_crash_leaves_whole_files_and_del_clears_them(tmp_path: Path, state: str, verb: str) -> None:
    for net in crashes(tmp_path, state, verb):
        assert_sound(net)

        net.succeed("DEL", "pod")

        assert_sound(net)
        if net.folder.exists():
            assert "pod\r\neth0" not in net.reservations().values()


@pytest.mark.parametrize(("state", "verb"), CASES)
def test_a_crash_leaves_nothing_that_gc_does_not_clear(tmp_path: Path, state: str, verb: str) -> None:
    for net in crashes(tmp_path, state, verb):
        listed: dict[str, Any] = {"cni.dev/valid-attachments": [{"containerID": "other", "ifname": "eth0"}]}
        net.succeed("GC", **listed)

        if net.folder.exists():
            assert set(net.reservations().values()) <= {"other\r\neth0"}
            assert set(net.names()) <= LASTING | net.reservations().keys() | {".owner@other@eth0"}


@pytest.mark.parametrize("state", ["nothing", "others", "entries of others"])
def test_an_add_after_a_crash_gets_addresses_of_its_own(tmp_path: Path, state: str) -> None:
    for net in crashes(tmp_path, state, "ADD"):
        before = net.reservations() if net.folder.exists() else {}

        given = net.add("next")

        assert not before.keys() & set(given)
        net.succeed("DEL", "next")
        assert not net.folder.exists() or net.reservations() == before
