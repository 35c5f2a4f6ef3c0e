"""A Debian with nothing of the project: its commands, its state, and a pod that another tool has made there."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.debian_package import files
from tests.nodes import BARE_PATH, HANG

RESERVATION = Path("/var/lib/cni/networks/foreign/192.0.2.2")
# Files and processes of systemd and of whoever logs in, which come and go.
_PASSING = ("/run/systemd", "/run/udev", "/run/log", "/run/lock", "/run/user", "/run/mount", "/run/dbus", "/run/utmp")
_SYSTEMS = ("/lib/systemd/", "/usr/lib/systemd/", "(", "[", "ps ", "/sbin/init", "/usr/bin/dbus-daemon", "bash /vm/")
_PLAIN = ("--no-legend", "--plain")
# A shell has run these commands for the other tool's pod.
_FOREIGN = """
set -e
ip netns add foreign
ip link add foreign0 type bridge
ip address add 192.0.2.1/24 dev foreign0
ip link set foreign0 up
ip link add foreign1 type veth peer name eth0 netns foreign
ip link set foreign1 master foreign0 up
ip -n foreign address add 192.0.2.2/24 dev eth0
ip -n foreign link set eth0 up
ip -n foreign link set lo up
nft add table inet foreign
nft add chain inet foreign nat '{ type nat hook postrouting priority srcnat; }'
nft add rule inet foreign nat ip saddr 192.0.2.2 oifname != foreign0 masquerade comment foreign
mkdir -p /var/lib/cni/networks/foreign /etc/cni/net.d
printf 'foreign\\r\\neth0' >/var/lib/cni/networks/foreign/192.0.2.2
"""
_LIST = {
    "cniVersion": "1.0.0",
    "name": "foreign",
    "plugins": [{"type": "bridge", "bridge": "foreign0", "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}}],
}


def run(*command: str | Path, code: int = 0, words: str = "") -> str:
    """Run a command; return its stdout, or all output if `code` is not 0. Raises AssertionError for another code.

    A failure has to say `words`.
    """
    environment = {"PATH": BARE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
    ran = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=HANG, check=False)
    both = ran.stdout + ran.stderr
    assert ran.returncode == code, f"{command} ended with {ran.returncode}\n{both}"
    assert words in both
    return both if code else ran.stdout


class ForeignPod:
    """A pod of another tool: a process in a network namespace on a bridge, with a rule, a reservation and a list."""

    def __init__(self) -> None:
        """Make it."""
        run("sh", "-c", _FOREIGN)
        Path("/etc/cni/net.d/90-foreign.conflist").write_text(json.dumps(_LIST))
        self._process = subprocess.Popen(["/usr/sbin/ip", "netns", "exec", "foreign", "/usr/bin/sleep", "infinity"])
        self._reservation = RESERVATION.stat()

    def end(self) -> None:
        """End its process; all else ends with the machine."""
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Raise AssertionError if it is not as it was made."""
        run("ping", "-c", "1", "-W", "5", "192.0.2.2")
        assert self._process.poll() is None
        assert RESERVATION.read_bytes() == b"foreign\r\neth0"
        assert RESERVATION.stat().st_mtime_ns == self._reservation.st_mtime_ns


def state() -> set[str]:
    """Return the machine's files, links, rules, mounts, processes and units, each as a line."""
    found = {f"file {line}" for line in files(lambda command: run(*command), "/root")}
    passing = [word for path in _PASSING for word in ("-path", path, "-prune", "-o")]
    found |= {f"file {line}" for line in run("find", "/run", "-xdev", *passing, "-printf", "%p %y\n").splitlines()}
    found |= {f"link {line.split()[0]}" for line in run("ip", "-brief", "link").splitlines()}
    found |= {f"nftables {line.strip()}" for line in run("nft", "--stateless", "list", "ruleset").splitlines()}
    found |= {f"mount {line}" for line in run("findmnt", "--raw", "--noheadings", "-o", "TARGET,FSTYPE").splitlines()}
    processes = run("ps", "--ppid", "2", "-p", "2", "--deselect", "-o", "args").splitlines()[1:]
    found |= {f"process {line}" for line in processes if not line.startswith(_SYSTEMS)}
    if os.path.exists("/run/systemd/system"):  # noqa: PTH110 -- a path of systemd's
        # The files of units are among the files.
        found |= {f"unit {line}" for line in run("systemctl", "list-units", "--all", *_PLAIN, "cni*").splitlines()}
        found |= {f"failed {line}" for line in run("systemctl", "--failed", *_PLAIN).splitlines()}
    return found


class Harness:
    """The command line as an artefact has installed it."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        """Store the words that begin each command line."""
        self.command = command

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        """Run it, as `run` does."""
        return run(*self.command, *arguments, code=code)

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return what `list` tells of each pod, by its name."""
        return {each["name"]: each for each in json.loads(self("list", "-o", "json"))["pods"]}

    def address(self, pod: str) -> str:
        """Return a pod's first IPv4 address, as its kernel has it."""
        shown = self("exec", pod, "--", "/usr/sbin/ip", "-4", "-o", "addr", "show", "dev", "eth0")
        return shown.split()[3].partition("/")[0]
