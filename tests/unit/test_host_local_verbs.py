"""host-local's DEL, CHECK, GC and STATUS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import DUAL_STACK, HostLocal


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path / "networks")


def previous(*addresses: str) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "ips": [{"address": address} for address in addresses]}


def valid(*pods: str, ifname: str = "eth0") -> dict[str, Any]:
    return {"cni.dev/valid-attachments": [{"containerID": pod, "ifname": ifname} for pod in pods]}


# DEL


def test_del_releases_all_of_the_attachment_and_nothing_else(net: HostLocal) -> None:
    for pod, ifname in (("a", "eth0"), ("a", "eth1"), ("b", "eth0")):
        net.add(pod, ifname)

    net.succeed("DEL", "a", "eth0")

    assert net.reservations() == {
        "192.0.2.3": "a\r\neth1",
        "192.0.2.4": "b\r\neth0",
        "2001:db8::3": "a\r\neth1",
        "2001:db8::4": "b\r\neth0",
    }
    assert net.index() == {"a@eth1": "192.0.2.3,2001:db8::3", "b@eth0": "192.0.2.4,2001:db8::4"}


@pytest.mark.parametrize("verb", ["DEL", "GC", "STATUS"])
def test_verbs_without_data_dir_make_none(net: HostLocal, verb: str) -> None:
    net.succeed(verb, **valid())

    assert not net.data_dir.exists()


def test_del_twice(net: HostLocal) -> None:
    net.add()

    net.succeed("DEL")
    net.succeed("DEL", netns="")

    assert net.reservations() == net.index() == {}


@pytest.mark.parametrize("content", ["pod\r\neth0", " pod\r\neth0\n\n", "pod", "pod\r\n"])
def test_del_releases_reservations_of_other_programs(net: HostLocal, content: str) -> None:
    net.write("192.0.2.9", content)
    net.write("192.0.2.10", "pod2\r\neth0")
    net.write("192.0.2.11", "pod\r\neth1")

    net.succeed("DEL", "pod", "eth0")

    assert net.reservations().keys() == {"192.0.2.10", "192.0.2.11"}


def test_del_prefers_the_entry_that_names_the_interface(net: HostLocal) -> None:
    net.write("192.0.2.9", "pod")
    net.write("192.0.2.10", "pod\r\neth0")

    net.succeed("DEL", "pod", "eth0")

    assert net.reservations() == {"192.0.2.9": "pod"}


def test_del_releases_only_addresses_with_a_matching_file(net: HostLocal) -> None:
    net.write("192.0.2.9", "pod\r\neth0")
    net.write("192.0.2.10", "other\r\neth0")

    net.succeed("DEL", prevResult=previous("192.0.2.9/24", "192.0.2.10/24"))

    assert net.reservations() == {"192.0.2.10": "other\r\neth0"}


def test_del_needs_no_ranges(net: HostLocal) -> None:
    net.add()

    net.succeed("DEL", ipam={"type": "host-local", "dataDir": str(net.data_dir)})

    assert net.reservations() == {}


@pytest.mark.parametrize(
    ("key", "value", "ignored"),
    [
        ("subnet", "10.0.0.0/33", 'ipam.subnet: expected a CIDR, got "10.0.0.0/33"'),
        ("ranges", [[{"subnet": 1}]], "ipam.ranges[0][0].subnet: expected a CIDR, got 1"),
        ("rangeStart", "x", ""),
        ("gateway", 7, ""),
        ("routes", [{"dst": "nowhere"}], ""),
    ],
)
def test_del_releases_despite_a_bad_key_that_it_does_not_need(
    net: HostLocal, key: str, value: object, ignored: str
) -> None:
    net.add()
    net.config["ipam"][key] = value
    assert net.fail("ADD", "next")[0] == 7

    assert ignored in net.succeed("DEL").log
    assert net.reservations() == {}


def test_del_of_an_owner_with_very_many_addresses(net: HostLocal) -> None:
    for number in range(1, 200):
        net.write(f"203.0.113.{number}", "pod\r\neth0")
    net.succeed("DEL", "none")

    assert net.index() == {"pod@eth0": ",".join(sorted(net.reservations()))}

    net.succeed("DEL", "pod")

    assert net.reservations() == net.index() == {}


# CHECK


def test_check_finds_the_reservation(net: HostLocal) -> None:
    net.add()

    net.succeed("CHECK")
    net.succeed("CHECK", prevResult=previous("192.0.2.2/24", "2001:db8::2/64", "203.0.113.5/24"))


@pytest.mark.parametrize("content", ["pod\r\neth0", "pod"])
def test_check_finds_reservations_of_other_programs(net: HostLocal, content: str) -> None:
    net.write("192.0.2.9", content)

    net.succeed("CHECK", prevResult=previous("192.0.2.9/24"))


def test_check_misses_a_reservation(net: HostLocal) -> None:
    message = "no address is reserved for eth0 of container pod"

    assert net.fail("CHECK") == (101, message)
    assert not net.data_dir.exists()

    net.add("other")

    assert net.fail("CHECK") == (101, message)


@pytest.mark.parametrize("content", [None, "other\r\neth0"])
def test_check_misses_one_of_prev_result(net: HostLocal, content: str | None) -> None:
    net.add()
    (net.folder / "2001:db8::2").unlink()
    if content:
        net.write("2001:db8::2", content)

    assert net.fail("CHECK", prevResult=previous("192.0.2.2/24", "2001:db8::2/64")) == (
        101,
        "2001:db8::2 is not reserved for eth0 of container pod",
    )


# GC


def test_gc_releases_unlisted_attachments(net: HostLocal) -> None:
    for pod in "abc":
        net.add(pod)
    net.add("a", "eth1")

    net.succeed("GC", **valid("a", "c"))

    assert set(net.reservations().values()) == {"a\r\neth0", "c\r\neth0"}
    assert net.index().keys() == {"a@eth0", "c@eth0"}


def test_gc_reads_the_other_spelling(net: HostLocal) -> None:
    net.add("a")

    net.config["cni.dev/attachments"] = [{"containerID": "a", "ifname": "eth0"}]
    net.succeed("GC")

    assert len(net.reservations()) == 2


@pytest.mark.parametrize("key", ["cni.dev/valid-attachments", "cni.dev/attachments"])
def test_gc_with_an_empty_list_releases_all(net: HostLocal, key: str) -> None:
    net.add("a")

    net.config[key] = None
    net.succeed("GC")

    assert net.reservations() == net.index() == {}


def test_gc_without_a_list_releases_nothing_and_says_so(net: HostLocal) -> None:
    net.add("a")

    ran = net.succeed("GC")

    assert "nothing is released" in ran.log
    assert len(net.reservations()) == 2


def test_gc_keeps_old_entries_of_a_valid_container(net: HostLocal) -> None:
    valid_id, gone = "0a" * 32, "0b" * 32
    net.write("192.0.2.9", valid_id)
    net.write("192.0.2.10", gone)

    net.succeed("GC", **valid(valid_id))

    assert net.reservations() == {"192.0.2.9": valid_id}


@pytest.mark.parametrize(
    "note", ["printer", "printer\n", "printer\r\n", "kept for a printer", "10.0.0.1", "0a-1b-2c", "2026", "0A" * 32]
)
def test_gc_spares_a_note_of_an_operator(net: HostLocal, note: str) -> None:
    net.write("192.0.2.2", note)
    net.add("a")

    for _ in range(2):
        net.succeed("GC", **valid())

    assert net.reservations() == {"192.0.2.2": note}


def test_gc_removes_only_blank_files_of_a_crash(net: HostLocal) -> None:
    net.write("192.0.2.9", "")
    net.write("192.0.2.10", "kept free for the printer\n")
    net.write("192.0.2.11", "\0" * 9)
    (net.folder / "192.0.2.11").chmod(0o600)
    net.write(".owners", "gone@eth0 192.0.2.9\n")

    net.succeed("GC", **valid())

    assert net.reservations() == {"192.0.2.10": "kept free for the printer\n"}
    assert net.index() == {}


@pytest.fixture
def immutable(net: HostLocal) -> Iterator[str]:
    """The name of a reservation that nobody can remove, not even root."""
    net.write("192.0.2.7", "stuck\r\neth0")
    made = subprocess.run(["chattr", "+i", net.folder / "192.0.2.7"], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"no immutable files here: {made.stderr.decode().strip()}")
    yield "192.0.2.7"
    subprocess.run(["chattr", "-i", net.folder / "192.0.2.7"], check=True)


@pytest.mark.sudo
def test_gc_continues_after_a_failed_release(net: HostLocal, immutable: str) -> None:
    net.add("a")
    net.add("b")

    ran = net.run("GC", **valid("b"))

    assert ran.printed["code"] == 5
    assert ran.printed["details"] == f"{immutable}: Operation not permitted"
    assert set(net.reservations().values()) == {"stuck\r\neth0", "b\r\neth0"}


# STATUS


def test_status_warns_of_the_range_set_that_is_exhausted(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, ranges=[[{"subnet": "2001:db8::/64"}], [{"subnet": "192.0.2.0/30"}]])
    assert net.succeed("STATUS").log == ""

    net.add()

    warned = net.succeed("STATUS").log
    assert "warning: no address is free in ipam.ranges[1] (192.0.2.1-192.0.2.2)" in warned
    assert net.fail("ADD", "next")[0] == 11

    net.succeed("DEL")
    assert net.succeed("STATUS").log == ""


def test_status_fails_for_a_range_set_that_is_exhausted_if_the_key_says_so(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, ranges=[[{"subnet": "192.0.2.0/30"}]], statusFailsWhenFull=True)
    net.succeed("STATUS")
    net.add()

    assert net.fail("STATUS") == (50, "no address is free in ipam.ranges[0] (192.0.2.1-192.0.2.2)")

    net.config["ipam"]["statusFailsWhenFull"] = False
    net.succeed("STATUS")
    net.config["ipam"]["statusFailsWhenFull"] = "yes"
    assert net.fail("STATUS") == (7, 'ipam.statusFailsWhenFull: expected true or false, got "yes"')
    net.succeed("DEL")


@pytest.mark.sudo
@pytest.mark.parametrize(
    ("options", "fill", "warning"),
    [
        ("size=16k", "yes >net/big 2>/dev/null; cat net/big >net/more 2>/dev/null", "no space is left"),
        ("nr_inodes=4", "touch net/lock net/a net/b 2>/dev/null", "no inode is left"),
    ],
)
def test_status_warns_of_a_full_file_system(tmp_path: Path, options: str, fill: str, warning: str) -> None:
    root = Path(__file__).parents[2]
    status = (
        "from pathlib import Path; from tests.unit.host_local import HostLocal; "
        f"ran = HostLocal(Path({str(tmp_path)!r})).run('STATUS'); print(ran.code, ran.log)"
    )
    prepare = f"mount -t tmpfs -o {options} none {tmp_path} && cd {tmp_path} && mkdir net && {{ {fill}; cd {root}; }}"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{prepare}; exec "$@"', "sh", sys.executable, "-c", status],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )

    assert ran.stdout.startswith("0 ")
    assert f"warning: ipam.dataDir: {warning} on the file system of {tmp_path}/net" in ran.stdout


def test_status_ignores_files_outside_the_range(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/29")
    for number in range(10):
        net.write(f"203.0.113.{number}", "other\r\neth0")
    net.write("192.0.2.1", "the gateway")

    assert net.succeed("STATUS").log == ""


def test_status_of_a_range_that_is_all_gateway(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/29", rangeEnd="192.0.2.1", statusFailsWhenFull=True)
    net.folder.mkdir()

    assert net.fail("STATUS")[0] == 50


@pytest.mark.parametrize("static", [{}, {"ranges": []}, {"ranges": None}])
def test_status_knows_no_ranges_that_come_with_each_pod(net: HostLocal, static: dict[str, Any]) -> None:
    net.config["ipam"] = {"type": "host-local", "dataDir": str(net.data_dir), **static}
    net.config["capabilities"] = {"ipRanges": True}

    net.succeed("STATUS")
    net.add(runtimeConfig={"ipRanges": [[{"subnet": "192.0.2.0/30"}]]})
    net.succeed("STATUS")

    (net.data_dir.parent / "file").touch()
    net.config["ipam"]["dataDir"] = f"{net.data_dir.parent}/file/networks"

    assert net.fail("STATUS")[0] == 50


@pytest.mark.parametrize("capabilities", [{}, {"ipRanges": False}, {"ips": True}])
def test_status_without_any_ranges_to_come(net: HostLocal, capabilities: dict[str, bool]) -> None:
    net.config["ipam"] = {"type": "host-local", "dataDir": str(net.data_dir)}

    assert net.fail("STATUS", capabilities=capabilities) == (
        7,
        "ipam.ranges: expected at least one range set, or ipam.subnet, got []",
    )


def test_status_with_the_ip_ranges_capability_counts_the_networks_range(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/30", statusFailsWhenFull=True)
    net.add()

    assert net.fail("STATUS", capabilities={"ipRanges": True})[0] == 50


def test_status_fails_if_the_data_dir_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    net = HostLocal(tmp_path / "file/networks", ranges=DUAL_STACK)

    assert net.fail("STATUS") == (50, f"ipam.dataDir: {tmp_path}/file is not a directory")


@pytest.mark.parametrize("verb", ["STATUS", "CHECK"])
def test_verbs_that_need_the_ranges_check_them(net: HostLocal, verb: str) -> None:
    code, message = net.fail(verb, ipam={"type": "host-local", "subnet": "192.0.2.0/31", "dataDir": str(net.data_dir)})

    assert code == 7
    assert message.startswith("ipam.subnet: ")
