"""Start-up is part of the product: what host-local loads, seen in an interpreter of its own."""

import subprocess
import sys
from pathlib import Path

HEAVY = {"dataclasses", "hashlib", "inspect", "logging", "netaddr", "pathlib", "pyroute2", "subprocess", "tempfile"}

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from skel.dispatch import dispatch
from ipam.host_local import PLUGIN
config = {"cniVersion": "1.1.0", "name": "net", "ipam": {"dataDir": sys.argv[2], "subnet": "192.0.2.0/24"}}
environ = {"CNI_CONTAINERID": "pod", "CNI_IFNAME": "eth0", "CNI_NETNS": "/none", "CNI_PATH": "/none"}
for verb in ("STATUS", "ADD", "CHECK", "DEL"):
    outcome = dispatch(PLUGIN, {**environ, "CNI_COMMAND": verb}, lambda: json.dumps(config).encode())
    assert outcome.code == 0, outcome
print(*sys.modules)
"""


def test_no_verb_loads_slow_modules(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SCRIPT, str(Path(__file__).parents[2]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert HEAVY & set(ran.stdout.split()) == set()


DHCP = """
import json, sys
sys.path.insert(0, sys.argv[1])
from skel.dispatch import dispatch
from ipam.dhcp import PLUGIN
ipam = {"type": "dhcp", "daemonSocketPath": sys.argv[2] + "/dhcp.sock", "dataDir": sys.argv[2] + "/leases"}
environ = {"CNI_CONTAINERID": "pod", "CNI_IFNAME": "eth0", "CNI_NETNS": "/none", "CNI_PATH": "/none"}
for verb, code in (("STATUS", 0), ("ADD", 1), ("DEL", 0)):
    config = {"cniVersion": "1.1.0", "name": "net", "ipam": ipam}
    outcome = dispatch(PLUGIN, {**environ, "CNI_COMMAND": verb}, lambda: json.dumps(config).encode())
    assert outcome.code == code, outcome
print(*sys.modules)
"""


def test_dhcp_loads_only_the_daemons_protocol(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", DHCP, str(Path(__file__).parents[2]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stdout.split())

    assert "ipam.dhcp_daemon.protocol" in loaded
    assert (HEAVY | {"argparse", "ctypes", "random", "selectors", "socket"}) & loaded == set()
    assert not any(name.startswith("netlink") for name in loaded)
