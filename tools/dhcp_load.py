"""How many leases at once: ADDs of many pods, all begun together, by one daemon and one dnsmasq.

    python -m tools.dhcp_load --pods 200

Run it as root in a network namespace of its own (`unshare --net`). It prints the seconds until the last pod had its
address, and the daemon's memory and processor time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from launch.launcher import launcher_bytes
from tests.dhcp_servers import dnsmasq, running_daemon
from tests.nodes import Node, veth_between
from tests.servers import running_server, write_launchers


def main() -> int:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=200)
    pods = parser.parse_args().pods
    with tempfile.TemporaryDirectory() as folder, ExitStack() as exits:
        sys.stdout.write(json.dumps(measure(Path(folder), pods, exits)) + "\n")
    return 0


def measure(folder: Path, pods: int, exits: ExitStack) -> dict[str, float]:
    """Attach the pods; return the figures."""
    server = exits.enter_context(running_server(folder, "--workers", "8", "--most", "256"))
    bin_dir = write_launchers(folder / "bin", launcher_bytes(socket=str(server.socket), timeout=600))
    node, neighbour = Node(folder), Node(folder)
    exits.callback(node.close)
    exits.callback(neighbour.close)
    veth_between(node, neighbour)
    # The neighbour's 192.0.2.2 stays; a /16 has room for all.
    neighbour.run(["ip", "address", "add", "10.99.0.1/16", "dev", "uplink0"])
    exits.enter_context(
        dnsmasq(neighbour, "--dhcp-range=10.99.1.0,10.99.200.0,255.255.0.0,2m", f"--dhcp-lease-max={pods * 2}")
    )
    daemon = exits.enter_context(running_daemon(node, bin_dir))
    config = {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "uplink0", "ipam": daemon.ipam()}
    netns = [node.pod_namespace(f"pod{number}") for number in range(pods)]
    begin = time.monotonic()
    running = []
    for number, path in enumerate(netns):
        environ = {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": f"pod{number}",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": path,
            "CNI_PATH": str(bin_dir),
        }
        process = subprocess.Popen(
            node.command([bin_dir / "macvlan"]), env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None  # noqa: S101 -- for the type checker
        process.stdin.write(json.dumps(config).encode())
        process.stdin.close()
        running.append(process)
    failed = 0
    for process in running:
        assert process.stdout is not None  # noqa: S101 -- for the type checker
        answer = process.stdout.read()
        if process.wait() != 0:
            failed += 1
            sys.stderr.write(f"{answer.decode()}\n")
    seconds = time.monotonic() - begin
    return {"pods": pods, "failed": failed, "seconds": round(seconds, 2), **_of_process(daemon.process.pid)}


def _of_process(pid: int) -> dict[str, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    threads = next(line for line in status.splitlines() if line.startswith("Threads")).split()[1]
    return {
        "daemon_cpu_seconds": (int(fields[11]) + int(fields[12])) / ticks,
        "daemon_resident_mib": round(int(resident) / 1024, 1),
        "daemon_threads": int(threads),
    }


if __name__ == "__main__":
    raise SystemExit(main())
