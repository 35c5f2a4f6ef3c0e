"""host-local's ADD: addresses, files, refusals."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import DUAL_STACK, HostLocal


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path / "networks")


def test_result_has_addresses_gateways_and_routes(tmp_path: Path) -> None:
    routes = [{"dst": "0.0.0.0/0"}, {"dst": "198.51.100.0/24", "gw": "192.0.2.9", "mtu": 1400, "priority": 5}]
    net = HostLocal(tmp_path, ranges=DUAL_STACK, routes=routes)

    assert net.succeed("ADD").printed == {
        "cniVersion": "1.1.0",
        "ips": [
            {"address": "192.0.2.2/24", "gateway": "192.0.2.1"},
            {"address": "2001:db8::2/64", "gateway": "2001:db8::1"},
        ],
        "routes": routes,
    }


def test_files_match_the_reference(net: HostLocal) -> None:
    net.add("pod", "eth0")

    assert net.reservations() == {"192.0.2.2": "pod\r\neth0", "2001:db8::2": "pod\r\neth0"}
    assert (net.folder / "last_reserved_ip.0").read_bytes() == b"192.0.2.2"
    assert (net.folder / "last_reserved_ip.1").read_bytes() == b"2001:db8::2"
    assert (net.folder / "lock").read_bytes() == b""
    assert {path.stat().st_mode & 0o777 for path in net.folder.iterdir() if path.name != "lock"} == {0o600}
    assert net.folder.stat().st_mode & 0o777 == 0o755


def test_reservations_of_one_add_share_no_file_content(net: HostLocal) -> None:
    net.add("pod")

    (net.folder / "192.0.2.2").write_text("kept for the printer")

    assert (net.folder / "2001:db8::2").read_bytes() == b"pod\r\neth0"

    net.succeed("DEL", "pod")

    assert net.reservations() == {"192.0.2.2": "kept for the printer"}


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o755), (0o022, 0o755), (0o077, 0o700)])
def test_every_folder_that_is_made_is_its_owner_s_alone_to_write(tmp_path: Path, umask: int, mode: int) -> None:
    net = HostLocal(tmp_path / "a" / "b" / "networks")
    before = os.umask(umask)
    try:
        net.add()
    finally:
        os.umask(before)

    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert sorted(made) == [tmp_path / "a", tmp_path / "a/b", net.data_dir, net.folder]
    assert {path.stat().st_mode & 0o777 for path in made} == {mode}


def test_a_data_dir_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = HostLocal(Path("a/../b"))

    net.add()

    assert net.reservations().keys() == {"192.0.2.2", "2001:db8::2"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("place", ["networks", "networks/net"])
def test_file_in_the_place_of_the_data_dir_is_an_io_failure(tmp_path: Path, place: str) -> None:
    net = HostLocal(tmp_path / "networks")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()

    code, message = net.fail("ADD")

    assert code == 5
    assert message.startswith(f"ipam.dataDir: {tmp_path}/networks")
    assert (tmp_path / place).read_bytes() == b""


@pytest.mark.parametrize(("version", "shape"), [("0.2.0", "ip4"), ("0.3.1", "ips"), ("1.0.0", "ips")])
def test_result_is_in_the_shape_of_the_version(net: HostLocal, version: str, shape: str) -> None:
    printed = net.succeed("ADD", cniVersion=version).printed

    assert printed["cniVersion"] == version
    assert shape in printed


def test_old_style_keys_are_the_first_range_set(tmp_path: Path) -> None:
    old = {"subnet": "198.51.100.0/24", "rangeStart": "198.51.100.9", "rangeEnd": "198.51.100.10", "gateway": ""}
    net = HostLocal(tmp_path, **old, ranges=[[{"subnet": "2001:db8::/64"}]])

    assert net.add("a") == ["198.51.100.9", "2001:db8::2"]
    assert net.add("b") == ["198.51.100.10", "2001:db8::3"]
    assert net.fail("ADD", "c") == (11, "no address is free in ipam (198.51.100.9-198.51.100.10)")


def test_ranges_of_the_runtime_come_first(net: HostLocal) -> None:
    ranges = [[{"Subnet": "203.0.113.0/24", "RangeStart": "203.0.113.7"}]]

    assert net.add(runtimeConfig={"ipRanges": ranges}) == ["203.0.113.7", "192.0.2.2", "2001:db8::2"]


def test_keys_are_read_in_any_case_and_null_is_absent(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/24", RANGESTART="192.0.2.77", routes=None, ranges=None, resolvConf=None)

    assert net.add(runtimeConfig=None) == ["192.0.2.77"]


def test_an_unnamed_data_dir_is_the_reference_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ipam.host_local.DATA_DIR", str(tmp_path / "default"))
    net = HostLocal(tmp_path, subnet="192.0.2.0/24", dataDir="")

    net.add()

    assert (tmp_path / "default/net/192.0.2.2").exists()


def test_the_default_data_dir() -> None:
    from ipam.host_local_config import DATA_DIR

    assert DATA_DIR == "/var/lib/cni/networks"


def test_round_robin_goes_on_after_a_release(net: HostLocal) -> None:
    first = net.add("a")
    net.succeed("DEL", "a")

    assert [first, net.add("a")] == [["192.0.2.2", "2001:db8::2"], ["192.0.2.3", "2001:db8::3"]]


def test_round_robin_wraps_and_skips_used_addresses(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/29")
    for pod in "abcde":
        net.add(pod)
    net.succeed("DEL", "c")

    assert net.add("f") == ["192.0.2.4"]
    assert net.fail("ADD", "g")[0] == 11


def test_the_note_of_the_last_address_is_all_of_the_file(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/24")
    net.add("a", args="IP=192.0.2.254")
    net.add("b")

    assert (net.folder / "last_reserved_ip.0").read_bytes() == b"192.0.2.2"


@pytest.mark.parametrize("note", [b"", b"nonsense", b"203.0.113.5", b"\xff", b"2001:db8::9"])
def test_an_unusable_note_of_the_last_address_starts_again(tmp_path: Path, note: bytes) -> None:
    net = HostLocal(tmp_path, subnet="192.0.2.0/24")
    net.folder.mkdir()
    (net.folder / "last_reserved_ip.0").write_bytes(note)

    assert net.add() == ["192.0.2.2"]


def test_a_second_add_of_an_attachment_is_refused_and_changes_nothing(net: HostLocal) -> None:
    net.add("pod", "eth0")
    before = net.reservations()

    code, message = net.fail("ADD", "pod", "eth0")

    assert (code, message) == (100, "192.0.2.2 is already reserved for eth0 of container pod")
    assert net.fail("ADD", "pod", "eth0", runtimeConfig={"ips": ["192.0.2.50", "2001:db8::50"]})[0] == 100
    assert net.reservations() == before


def test_a_container_has_one_address_an_interface(net: HostLocal) -> None:
    assert [net.add("pod", "eth0")[0], net.add("pod", "eth1")[0]] == ["192.0.2.2", "192.0.2.3"]


def test_an_old_entry_of_the_container_counts_as_its_own(net: HostLocal) -> None:
    net.write("192.0.2.2", "pod\n")

    assert net.fail("ADD", "pod", "eth0")[0] == 100


def test_an_address_outside_of_the_ranges_does_not_count(net: HostLocal) -> None:
    net.write("203.0.113.2", "pod\r\neth0")

    assert net.add("pod") == ["192.0.2.2", "2001:db8::2"]

    net.succeed("DEL", "pod")

    assert net.reservations() == {}


def test_add_that_fails_half_way_releases_only_its_own_addresses(tmp_path: Path) -> None:
    ranges = [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64", "rangeEnd": "2001:db8::2"}]]
    net = HostLocal(tmp_path, ranges=ranges)
    net.add("a", "eth0")
    before = net.reservations(), net.index()

    code, message = net.fail("ADD", "a", "eth1")

    assert (code, message) == (11, "no address is free in ipam.ranges[1] (2001:db8::1-2001:db8::2)")
    assert (net.reservations(), net.index()) == before


def test_add_is_undone_after_a_write_error(net: HostLocal) -> None:
    net.add("a")
    (net.folder / "last_reserved_ip.1").unlink()
    (net.folder / "last_reserved_ip.1").mkdir()
    before = net.reservations(), net.index()

    code, message = net.fail("ADD", "b")

    assert code == 5
    assert message.startswith(f"ipam.dataDir: {net.folder}/last_reserved_ip.1: ")
    assert (net.reservations(), net.index()) == before


def test_resolv_conf_becomes_the_result_s_dns(tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text(
        "nameserver 192.0.2.53\n  nameserver\t2001:db8::53 # first\n#nameserver 192.0.2.1\n;nameserver 192.0.2.1\n"
        "domain example.com\nsearch example.net example.org\nsearch example.gov\n"
        "options ndots:5\noptions edns0 rotate\n"
        "\nnameserver\nsortlist 192.0.2.0\n"
    )
    net = HostLocal(tmp_path, subnet="192.0.2.0/24", resolvConf=str(resolv_conf))

    assert net.succeed("ADD").printed["dns"] == {
        "nameservers": ["192.0.2.53", "2001:db8::53"],
        "domain": "example.com",
        "search": ["example.net", "example.org", "example.gov"],
        "options": ["ndots:5", "edns0", "rotate"],
    }


def test_a_resolv_conf_that_is_missing_reserves_nothing(tmp_path: Path) -> None:
    net = HostLocal(tmp_path / "networks", subnet="192.0.2.0/24", resolvConf=str(tmp_path / "none"))

    assert net.fail("ADD") == (5, f'ipam.resolvConf: cannot read "{tmp_path}/none": No such file or directory')
    assert not (tmp_path / "networks").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ipam": None}, "ipam: required key is missing"),
        ({"ipam": {"type": "host-local"}}, "ipam.ranges: expected at least one range set, or ipam.subnet, got []"),
        ({"ipam": {"ranges": [[]]}}, "ipam.ranges[0]: expected at least one range, got []"),
        ({"ipam": {"ranges": [None]}}, "ipam.ranges[0]: expected a list, got null"),
        ({"ipam": {"ranges": [[{}]]}}, "ipam.ranges[0][0].subnet: required key is missing"),
        ({"ipam": {"ranges": [[{"subnet": "10.1"}]]}}, 'ipam.ranges[0][0].subnet: expected a CIDR, got "10.1"'),
        ({"ipam": {"subnet": ""}}, 'ipam.subnet: expected a CIDR, got ""'),
        ({"ipam": {"subnet": "192.0.2.1/24"}}, "ipam.subnet: expected a network address without host bits"),
        ({"ipam": {"subnet": "192.0.2.0/24", "rangeEnd": "192.0.3.1"}}, "ipam.rangeEnd: expected an address of"),
        ({"ipam": {"subnet": "192.0.2.0/24", "gateway": 1}}, "ipam.gateway: expected an IP address, got 1"),
        ({"ipam": {"subnet": "192.0.2.0/24", "dataDir": "a\0b"}}, "ipam.dataDir: expected a path, got"),
        ({"ipam": {"subnet": "192.0.2.0/24", "routes": [{}]}}, "ipam.routes[0].dst: required key is missing"),
        (
            {"runtimeConfig": {"ipRanges": [[{"subnet": "192.0.2.0/31"}]]}},
            "runtimeConfig.ipRanges[0][0].subnet: expected a subnet large enough",
        ),
        (
            {"runtimeConfig": {"ipRanges": [[{"subnet": "192.0.2.0/25"}]]}},
            "ipam.ranges[0]: 192.0.2.1-192.0.2.254 overlaps with 192.0.2.1-192.0.2.126 of runtimeConfig.ipRanges[0]",
        ),
        ({"runtimeConfig": {"ips": ["192.0.2"]}}, "runtimeConfig.ips[0]: expected an IP address, with or without"),
        ({"args": {"cni": {"ips": "192.0.2.5"}}}, 'args.cni.ips: expected a list, got "192.0.2.5"'),
    ],
)
def test_a_malformed_configuration_names_key_and_value_and_makes_nothing(
    net: HostLocal, change: dict[str, Any], message: str
) -> None:
    if isinstance(change.get("ipam"), dict):
        change = {"ipam": {"dataDir": str(net.data_dir), **change["ipam"]}}

    # `args` is a key of the configuration here.
    net.config |= change
    code, found = net.fail("ADD")

    assert code == 7
    assert found.startswith(message)
    assert not net.data_dir.exists()


@pytest.mark.parametrize(("version", "code"), [("0.1.0", 7), ("0.2.0", 7), ("0.3.0", None), ("1.0.0", None)])
def test_old_versions_have_one_address_a_family(tmp_path: Path, version: str, code: int | None) -> None:
    net = HostLocal(tmp_path, ranges=[[{"subnet": "192.0.2.0/24"}], [{"subnet": "198.51.100.0/24"}]])

    ran = net.run("ADD", cniVersion=version)

    assert ran.printed.get("code") == code


def test_a_data_dir_that_cannot_be_made_is_an_io_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    net = HostLocal(tmp_path / "file" / "networks", subnet="192.0.2.0/24")

    code, message = net.fail("ADD")

    assert code == 5
    assert str(tmp_path / "file") in message


def test_container_ids_may_be_long(net: HostLocal) -> None:
    long, longer = "a" * 1023, "a" * 1024
    for pod in (longer, long):
        net.add(pod)

    assert net.index() == {f"{longer}@eth0": "192.0.2.2,2001:db8::2", f"{long}@eth0": "192.0.2.3,2001:db8::3"}

    net.succeed("CHECK", long)
    net.succeed("DEL", long)

    assert set(net.reservations().values()) == {f"{longer}\r\neth0"}

    net.succeed("DEL", longer)

    assert net.reservations() == net.index() == {}


def test_the_last_addresses_of_a_large_range_are_found_without_trying_each(tmp_path: Path) -> None:
    net = HostLocal(tmp_path, subnet="10.0.0.0/20", gateway="10.0.0.1")
    net.folder.mkdir()
    for number in range(2, 4094):
        (net.folder / f"10.0.{number // 256}.{number % 256}").write_text("x")

    assert net.add() == ["10.0.15.254"]


@pytest.mark.parametrize("lacking", ["files without a name", "/proc", "links"])
def test_add_works_without_unnamed_files_or_links(
    tmp_path: Path, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = HostLocal(tmp_path)
    open_file, link = os.open, os.link

    def open_named(path: Any, flags: int, *mode: int, **more: Any) -> int:
        if lacking == "files without a name" and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path)
        return open_file(path, flags, *mode, **more)

    def link_here(source: str, *more: Any, **options: Any) -> None:
        if lacking == "/proc" and source.startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if lacking == "links":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source)
        link(source, *more, **options)

    monkeypatch.setattr(os, "open", open_named)
    monkeypatch.setattr(os, "link", link_here)
    first = net.add("pod")
    second = net.add("other")

    assert {net.reservations()[address] for address in first} == {"pod\r\neth0"}
    assert {net.reservations()[address] for address in second} == {"other\r\neth0"}
    assert not set(first) & set(second)
