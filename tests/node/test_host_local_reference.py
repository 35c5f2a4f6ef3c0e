"""Our host-local and the reference's, as Debian packages it, on one folder: each releases the other's reservations.

Plus what takes a mount namespace: file systems and a /proc that are not as usual.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import REFERENCE_BIN_DIR, is_waited_for
from tests.nodes import until
from tests.unit.host_local import DUAL_STACK

# The reference's release knows versions up to 1.0.0.
VERSION = "1.0.0"


class Pair:
    """One network, and the two plugins that share its folder."""

    def __init__(self, data_dir: Path, ours: Path, theirs: Path) -> None:
        self.plugins = {"ours": ours / "host-local", "theirs": theirs / "host-local"}
        self.data_dir = data_dir
        self.folder = data_dir / "net"
        self.ranges: Any = DUAL_STACK

    def start(self, suite: str, verb: str, pod: str, ifname: str = "eth0", **config: Any) -> subprocess.Popen[bytes]:
        """Start one of the two; it gets its configuration at once."""
        ipam = {"type": "host-local", "dataDir": str(self.data_dir), "ranges": self.ranges}
        network = {"cniVersion": VERSION, "name": "net", "type": "bridge", "ipam": ipam} | config
        environ = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": pod,
            "CNI_IFNAME": ifname,
            "CNI_NETNS": "/run/netns/none",
            "CNI_PATH": "/none",
        }
        process = subprocess.Popen([self.plugins[suite]], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(json.dumps(network).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, suite: str, verb: str, pod: str, ifname: str = "eth0", **config: Any) -> tuple[int, Any]:
        """Carry out a verb; return exit code and JSON document."""
        process = self.start(suite, verb, pod, ifname, **config)
        stdout, _ = process.communicate()
        return process.returncode, json.loads(stdout) if stdout else None

    def succeed(self, suite: str, verb: str, pod: str, ifname: str = "eth0", **config: Any) -> Any:
        """Carry out a verb that must succeed."""
        code, printed = self.run(suite, verb, pod, ifname, **config)

        assert code == 0, (suite, verb, printed)
        return printed

    def reservations(self) -> dict[str, str]:
        """Who has which address."""
        return {
            path.name: path.read_bytes().decode()
            for path in self.folder.iterdir()
            if path.name != "lock" and not path.name.startswith(("last_reserved_ip.", "."))
        }


@pytest.fixture
def pair(tmp_path: Path, bin_dir: Path) -> Pair:
    if not (REFERENCE_BIN_DIR / "host-local").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Pair(tmp_path / "networks", bin_dir, REFERENCE_BIN_DIR)


@pytest.fixture(params=["ours", "theirs"])
def one(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def other(one: str) -> str:
    return {"ours": "theirs", "theirs": "ours"}[one]


SINGLE_STACK = [[{"subnet": "192.0.2.0/24"}]]

stacks = pytest.mark.parametrize("ranges", [SINGLE_STACK, DUAL_STACK], ids=["IPv4", "dual stack"])


@stacks
def test_both_print_the_same_result_and_write_the_same_files(pair: Pair, ranges: Any) -> None:
    pair.ranges = ranges
    printed = {}
    files = {}
    for suite in ("theirs", "ours"):
        pair.data_dir = pair.data_dir.parent / suite
        pair.folder = pair.data_dir / "net"
        printed[suite] = pair.succeed(suite, "ADD", "pod")
        files[suite] = {path.name: path.read_bytes() for path in pair.folder.glob("[!.]*")}

    assert files["theirs"] == files["ours"]
    assert {"dns": {}} | printed["ours"] == printed["theirs"]


@stacks
def test_either_plugin_checks_and_releases_reservations_of_the_other(
    pair: Pair, ranges: Any, one: str, other: str
) -> None:
    pair.ranges = ranges
    pair.succeed(one, "ADD", "bystander")
    before = pair.reservations()
    pair.succeed(one, "ADD", "pod")

    pair.succeed(other, "CHECK", "pod")
    pair.succeed(other, "DEL", "pod")

    assert pair.reservations() == before
    assert pair.run(other, "CHECK", "pod")[0] == 1
    assert pair.run(one, "CHECK", "pod")[0] == 1
    pair.succeed(one, "DEL", "pod")


@stacks
def test_each_plugin_releases_the_others_reservations_in_a_mixed_folder(pair: Pair, ranges: Any) -> None:
    pair.ranges = ranges
    for pod in range(6):
        pair.succeed("ours" if pod % 2 else "theirs", "ADD", f"pod{pod}")
    for pod in range(6):
        pair.succeed("theirs" if pod % 2 else "ours", "DEL", f"pod{pod}")

    assert pair.reservations() == {}


def test_index_is_rebuilt_after_a_del_of_the_reference(pair: Pair) -> None:
    pair.succeed("ours", "ADD", "pod")
    pair.succeed("theirs", "DEL", "pod")
    index = pair.folder / ".owners"

    assert index.read_text().rstrip() == "pod@eth0 192.0.2.2,2001:db8::2"
    assert pair.run("ours", "CHECK", "pod")[0] == 1
    assert index.read_text().rstrip() == ""
    assert sorted(path.name for path in pair.folder.iterdir()) == [
        ".owners",
        "last_reserved_ip.0",
        "last_reserved_ip.1",
        "lock",
    ]


def test_either_plugin_refuses_a_second_add_after_the_other(pair: Pair, one: str, other: str) -> None:
    pair.succeed(one, "ADD", "pod")
    before = pair.reservations()

    code, printed = pair.run(other, "ADD", "pod")

    assert code == 1
    assert "192.0.2.2" in printed["msg"]
    assert pair.reservations() == before


def test_round_robin_continues_across_both_plugins(pair: Pair) -> None:
    given = []
    for pod in range(6):
        result = pair.succeed("ours" if pod % 2 else "theirs", "ADD", f"pod{pod}")
        given.append([ip["address"] for ip in result["ips"]])
        pair.succeed("theirs" if pod % 3 else "ours", "DEL", f"pod{pod}")

    assert given == [[f"192.0.2.{host}/24", f"2001:db8::{host}/64"] for host in range(2, 8)]


def test_address_given_by_either_plugin_is_unavailable_to_the_other(pair: Pair, one: str, other: str) -> None:
    pair.succeed(one, "ADD", "pod", runtimeConfig={"ips": ["192.0.2.77"]})

    code, printed = pair.run(other, "ADD", "other", runtimeConfig={"ips": ["192.0.2.77"]})

    assert code == 1
    assert "192.0.2.77 is not available" in printed["msg"]


def test_entries_without_an_interface_are_released_by_both(pair: Pair, one: str) -> None:
    pair.folder.mkdir(parents=True)
    (pair.folder / "192.0.2.9").write_text("pod")
    pair.succeed(one, "CHECK", "pod")

    pair.succeed(one, "DEL", "pod")

    assert pair.reservations() == {}


@pytest.mark.slow("many processes; one after the other is in make test")
def test_both_at_once_get_different_addresses(pair: Pair) -> None:
    pods = [f"pod{number}" for number in range(40)]
    suite = ["ours", "theirs"] * 20

    adding = [pair.start(plugin, "ADD", pod) for plugin, pod in zip(suite, pods, strict=True)]
    results = [json.loads(process.communicate()[0]) for process in adding]

    addresses = [ip["address"] for result in results for ip in result["ips"]]
    assert len(addresses) == len(set(addresses)) == 80

    deleting = [pair.start(plugin, "DEL", pod) for plugin, pod in zip(reversed(suite), pods, strict=True)]
    for process in deleting:
        process.communicate()

    assert [process.returncode for process in deleting] == [0] * 40
    assert pair.reservations() == {}


def test_either_plugin_waits_for_the_shared_lock(pair: Pair, one: str) -> None:
    import fcntl

    pair.succeed(one, "ADD", "pod")
    with (pair.folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = pair.start(one, "ADD", "waiting")
        until(lambda: is_waited_for(pair.folder / "lock"))
        assert process.poll() is None
        assert len(pair.reservations()) == 2

    process.communicate()

    assert process.returncode == 0
    assert len(pair.reservations()) == 4


# Whatever the machine has, in a mount namespace


@pytest.fixture
def elsewhere(bin_dir: Path, tmp_path: Path) -> Callable[..., Any]:
    """Runs a verb of ours after a shell command in a mount namespace of its own."""

    def run(prepare: str, verb: str, *, check: str = "true") -> Any:
        config = {
            "cniVersion": "1.1.0",
            "name": "net",
            "ipam": {"type": "host-local", "dataDir": str(tmp_path), "subnet": "192.0.2.0/24"},
        }
        environ = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "pod",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": "/run/netns/none",
            "CNI_PATH": "/none",
            "PATH": os.environ["PATH"],
        }
        script = f"{prepare} && {bin_dir}/host-local; {check}"
        ran = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script],
            env=environ,
            input=json.dumps(config).encode(),
            capture_output=True,
            check=False,
        )
        assert ran.stderr == b""
        return json.loads(ran.stdout) if ran.stdout else None

    return run


@pytest.mark.sudo
def test_without_proc_nothing_vouches_for_the_index_and_all_works(
    elsewhere: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "net"
    added = elsewhere("mount -t tmpfs none /proc", "ADD")

    assert added["ips"][0]["address"] == "192.0.2.2/24"
    assert (folder / "192.0.2.2").read_bytes() == b"pod\r\neth0"
    assert sorted(path.name for path in folder.iterdir()) == [".owners", "192.0.2.2", "last_reserved_ip.0", "lock"]

    (folder / ".owners").unlink()
    os.utime(folder, (0, 0))
    elsewhere("mount -t tmpfs none /proc", "DEL")

    assert not (folder / "192.0.2.2").exists()


@pytest.mark.sudo
@pytest.mark.parametrize(("verb", "code"), [("ADD", 5), ("STATUS", 50)])
def test_a_read_only_file_system(elsewhere: Callable[..., Any], tmp_path: Path, verb: str, code: int) -> None:
    refused = elsewhere(f"mount -t tmpfs -o ro none {tmp_path}", verb)

    assert refused["code"] == code
    assert str(tmp_path) in refused["msg"]


@pytest.mark.sudo
def test_a_full_file_system_keeps_no_part_of_a_reservation(elsewhere: Callable[..., Any], tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=4k none {tmp_path} && mkdir {tmp_path}/net && yes >{tmp_path}/net/big 2>/dev/null"

    left = f"ls -A -I .owners {tmp_path}/net | xargs"  # an index is of what is reserved: here it is empty
    refused = elsewhere(f"{{ {mount}; true; }}", "ADD", check=f'test "$({left})" = "big lock" || echo more >&2')

    assert refused["code"] == 5
    assert "No space left on device" in refused["msg"]


@pytest.mark.sudo
@pytest.mark.parametrize("bin_dir", ["direct"], indirect=True)  # no server lives through a reboot
def test_after_a_reboot_a_container_gets_its_address_again(elsewhere: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("0123abcd-0000-4000-8000-000000000000\n")
    rebooted = f"mount --bind {tmp_path}/boot_id /proc/sys/kernel/random/boot_id"
    given = elsewhere("true", "ADD")

    assert elsewhere("true", "ADD")["code"] == 100
    assert elsewhere(rebooted, "ADD") == given
    assert elsewhere(rebooted, "ADD")["code"] == 100
    assert elsewhere(rebooted, "CHECK") is None


def test_after_a_reboot_our_add_takes_over_the_references_reservation(pair: Pair) -> None:
    given = pair.succeed("theirs", "ADD", "pod")["ips"]

    assert pair.run("ours", "ADD", "pod")[0] == 1

    for address in pair.reservations():
        os.utime(pair.folder / address, (1_500_000_000, 1_500_000_000))
    assert pair.succeed("ours", "ADD", "pod")["ips"] == given
    assert pair.run("theirs", "ADD", "pod")[0] == 1
