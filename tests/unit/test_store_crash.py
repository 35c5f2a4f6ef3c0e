"""Killed before any of its system calls, host-local leaves nothing that DEL, GC or the next ADD does not clear."""

import ipaddress
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import HostLocal, at_each_system_call

# As DEL leaves them, ours and the reference's.
LASTING = {".owners", "lock", "last_reserved_ip.0", "last_reserved_ip.1"}

MOST_CALLS = 200

PRINTER = "kept free for the printer"

OLD = "0d" * 32
"""A container, noted as very old releases of the reference did."""


def prepare(net: HostLocal, state: str) -> None:
    """Bring a folder into the state that a verb is to be killed in."""
    if state == "nothing":
        return
    net.add("other")
    net.add("pod", "net1")
    if state == "entries of others":
        net.write("192.0.2.99", "pod\r\neth0")
        net.write("192.0.2.100", OLD)
        net.succeed("DEL", "pod", "net1")
    if state == "attached":
        net.add("pod")
    if state == "a full bucket":
        # So that the line of "pod" has no room.
        index = net.folder / ".owners"
        while (room := 4096 - len(index.read_bytes().rstrip())) > 150:
            net.add(f"{room:064}")
        net.add("x" * (room - 50))
    if state == "given away":
        # An operator wrote into the reservations: whole as the index is, it names an owner who has nothing.
        for address in net.add("pod"):
            (net.folder / address).write_text(PRINTER)
        net.add("other", "net2")


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


def kill_everywhere(folder: str, state: str, verb: str) -> None:
    """Kill the verb before each of its calls, every time in a folder of its own.

    This is a process of its own: it forks, which a test's process with its threads should not.
    """
    prepared = HostLocal(Path(folder) / "prepared")
    prepare(prepared, state)
    for call in range(1, MOST_CALLS):
        net = HostLocal(Path(folder) / str(call))
        if prepared.data_dir.exists():
            shutil.copytree(prepared.data_dir, net.data_dir)
        child = os.fork()
        if child == 0:
            killed_before(call, net, verb)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            (Path(folder) / "calls").write_text(str(call - 1))
            return


def crashes(tmp_path: Path, state: str, verb: str) -> Iterator[HostLocal]:
    """The network after each of the crashes."""
    script = f"from {__name__} import kill_everywhere; import sys; kill_everywhere(*sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), state, verb],
        check=True,
        cwd=(root := Path(__file__).parents[2]),
        env={"PYTHONPATH": str(root)},
    )
    calls = int((tmp_path / "calls").read_text())
    assert calls > 3
    for call in range(1, calls + 1):
        yield HostLocal(tmp_path / str(call))


def assert_sound(net: HostLocal) -> None:
    """Every reservation is whole, and where the seal says that the index is whole all of it is."""
    if not net.folder.exists():
        return
    reservations = net.reservations()
    for address, owner in reservations.items():
        assert owner.count("\r\n") == 1 or owner in {OLD, PRINTER}, address
    for note in net.folder.glob("last_reserved_ip.*"):
        assert note.read_text() == "" or ipaddress.ip_address(note.read_text()) is not None
    if net.is_sealed():
        by_owner: dict[str, list[str]] = {}
        for address, owner in sorted(reservations.items()):
            assert owner
            if owner == PRINTER:
                continue
            container_id, _, ifname = owner.partition("\r\n")
            by_owner.setdefault(f"{container_id}@{ifname}", []).append(address)
        indexed = {owner: addresses.split(",") for owner, addresses in net.index().items()}
        assert by_owner.items() <= indexed.items()
        assert indexed.keys() - by_owner.keys() <= {"pod@eth0"}


CASES = [
    ("nothing", "ADD"),
    ("others", "ADD"),
    ("entries of others", "ADD"),
    ("attached", "DEL"),
    ("entries of others", "DEL"),
    ("others", "DEL"),
    ("attached", "GC"),
    ("a full bucket", "ADD"),
    ("given away", "DEL"),
    ("given away", "GC"),
]


@pytest.mark.mostly_slow(4, "each system call of the store; a part is in make test")
@pytest.mark.parametrize(("state", "verb"), CASES)
def test_a_crash_leaves_whole_files_and_del_clears_them(tmp_path: Path, state: str, verb: str) -> None:
    for net in crashes(tmp_path, state, verb):
        assert_sound(net)

        net.succeed("DEL", "pod")

        assert_sound(net)
        if net.folder.exists():
            left = net.reservations()
            assert not {"", "pod\r\neth0"} & set(left.values())
            assert "pod@eth0" not in net.index()
            assert set(net.names()) <= LASTING | left.keys()


@pytest.mark.mostly_slow(5, "each system call of the store; a part is in make test")
@pytest.mark.parametrize(("state", "verb"), CASES)
def test_a_crash_leaves_nothing_that_gc_does_not_clear(tmp_path: Path, state: str, verb: str) -> None:
    for net in crashes(tmp_path, state, verb):
        listed: dict[str, Any] = {"cni.dev/valid-attachments": [{"containerID": "other", "ifname": "eth0"}]}
        net.succeed("GC", **listed)

        if net.folder.exists():
            assert set(net.reservations().values()) <= {"other\r\neth0", PRINTER}
            assert set(net.names()) <= LASTING | net.reservations().keys()
            assert net.index().keys() <= {"other@eth0"}


@pytest.mark.mostly_slow(4, "each system call of the store; a part is in make test")
@pytest.mark.parametrize("state", ["nothing", "others", "entries of others", "a full bucket"])
def test_an_add_after_a_crash_gets_addresses_of_its_own(tmp_path: Path, state: str) -> None:
    for net in crashes(tmp_path, state, "ADD"):
        files = net.reservations() if net.folder.exists() else {}
        before = {address: owner for address, owner in files.items() if owner}

        given = net.add("next")

        assert not before.keys() & set(given)
        net.succeed("DEL", "next")
        assert not net.folder.exists() or net.reservations() == before
