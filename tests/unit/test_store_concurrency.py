"""Very many at once: processes as a runtime starts them, threads as a server has them."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import HostLocal

PODS = 100


def start(bin_dir: Path, net: HostLocal, verb: str, pod: int) -> subprocess.Popen[bytes]:
    """Start the executable, and leave it waiting for its configuration."""
    environ = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": f"pod{pod}",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": "/run/netns/none",
        "CNI_PATH": str(bin_dir),
    }
    return subprocess.Popen([bin_dir / "host-local"], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def finish(processes: list[subprocess.Popen[bytes]], net: HostLocal) -> list[Any]:
    """Give all of them their configuration, and return their output."""
    config = json.dumps(net.config).encode()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(config)
        process.stdin.close()
        process.stdin = None
    printed = [process.communicate()[0] for process in processes]

    assert [process.returncode for process in processes] == [0] * len(processes), printed
    return [json.loads(output) if output else None for output in printed]


@pytest.mark.slow("a hundred processes; adds and dels at once are in make test")
def test_a_hundred_processes_at_once_get_addresses_of_their_own(tmp_path: Path, bin_dir: Path) -> None:
    net = HostLocal(tmp_path / "networks")

    results = finish([start(bin_dir, net, "ADD", pod) for pod in range(PODS)], net)

    addresses = [ip["address"] for result in results for ip in result["ips"]]
    assert len(addresses) == len(set(addresses)) == 2 * PODS
    assert {net.reservations()[ip["address"].partition("/")[0]] for ip in results[7]["ips"]} == {"pod7\r\neth0"}

    finish([start(bin_dir, net, "DEL", pod) for pod in range(PODS)], net)

    assert net.reservations() == net.index() == {}


def test_threads_wait_for_each_other_too(tmp_path: Path) -> None:
    net = HostLocal(tmp_path / "networks")

    with ThreadPoolExecutor(32) as threads:
        given = list(threads.map(lambda pod: net.add(f"pod{pod}"), range(PODS)))
        assert len({address for addresses in given for address in addresses}) == 2 * PODS
        list(threads.map(lambda pod: net.succeed("DEL", f"pod{pod}"), range(PODS)))

    assert net.reservations() == net.index() == {}
    assert net.names() == [".owners", "last_reserved_ip.0", "last_reserved_ip.1", "lock"]


def test_adds_and_dels_at_once(tmp_path: Path, bin_dir: Path) -> None:
    net = HostLocal(tmp_path / "networks")
    for pod in range(20):
        net.add(f"pod{pod}")

    adding = [start(bin_dir, net, "ADD", pod) for pod in range(20, 40)]
    deleting = [start(bin_dir, net, "DEL", pod) for pod in range(20)]
    finish([process for pair in zip(adding, deleting, strict=True) for process in pair], net)

    assert set(net.reservations().values()) == {f"pod{pod}\r\neth0" for pod in range(20, 40)}
    assert len(net.index()) == 20
