"""DHCP servers on nodes, and the daemon of the dhcp plugin."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.nodes import HANG, Node, until

DNSMASQ, KEA = "dnsmasq", "kea-dhcp{}"
READY_KEA = "DHCP{}_STARTED"


class Daemon:
    """A running daemon of our dhcp plugin, and its log."""

    def __init__(self, node: Node, bin_dir: Path, *flags: str) -> None:
        """Start it on the node; `flags` are further ones."""
        self.node = node
        self.bin_dir = bin_dir
        # Short, since a socket's path has at most 107 bytes. And not the node's: its log is no change of the node.
        self.folder = TemporaryDirectory(prefix="dhcp-")
        folder = Path(self.folder.name)
        self.socket = folder / "dhcp.sock"
        self.data_dir = folder / "leases"
        self._log = folder / "dhcp.log"
        self._command: list[str | Path] = [
            bin_dir / "dhcp",
            "daemon",
            "-socketpath",
            self.socket,
            "-datadir",
            self.data_dir,
        ]
        self._command += flags
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        already = self.log().count("listening at")
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self.node.command(self._command), env=self.node.environment, stdin=subprocess.DEVNULL, stderr=log
            )
        until(lambda: self.log().count("listening at") > already or process.poll() is not None)
        assert process.poll() is None, self.log()
        return process

    def log(self) -> str:
        """Its output until now, of all its starts."""
        return self._log.read_text() if self._log.exists() else ""

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        self.process.kill()
        self.process.wait(HANG)

    def restart(self) -> None:
        """Start it again."""
        self.process = self._started()

    def stop(self) -> int:
        """End it by SIGTERM; return its exit code."""
        self.process.terminate()
        return self.process.wait(HANG)

    def sockets(self) -> int:
        """How many sockets it has open but for the one that it listens on: the plugin's, and those in pods."""
        links = []
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                links.append(str(path.readlink()))
        return sum(link.startswith("socket:") for link in links) - 1

    def files(self) -> list[str]:
        """The attachments with leases on disk, as paths below its folder."""
        return sorted(str(path.relative_to(self.data_dir)) for path in self.data_dir.glob("*/*"))

    def ipam(self, **keys: Any) -> dict[str, Any]:
        """The `ipam` section of a configuration that asks this daemon."""
        return {"type": "dhcp", "daemonSocketPath": str(self.socket), "dataDir": str(self.data_dir), **keys}


@contextmanager
def running_daemon(node: Node, bin_dir: Path, *flags: str) -> Iterator[Daemon]:
    """Run the daemon on a node for as long as the block lasts."""
    daemon = Daemon(node, bin_dir, *flags)
    try:
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.stop()
        daemon.folder.cleanup()


class DhcpServer:
    """A DHCP server on a node: its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(HANG)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def log(self) -> str:
        """Its output until now."""
        return self._log.read_text()

    def count(self, words: str) -> int:
        """How often its log has these words."""
        return self.log().count(words)


@contextmanager
def _running(node: Node, args: list[Any], ready: str, env: dict[str, str] | None = None) -> Iterator[DhcpServer]:
    log = node.folder / f"{Path(str(args[0])).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            node.command(args),
            env={**node.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = DhcpServer(process, log)
    try:
        until(lambda: ready in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        server.stop()


@contextmanager
def dnsmasq(node: Node, *options: str, last: str = "192.0.2.250") -> Iterator[DhcpServer]:
    """Run dnsmasq on a node's uplink0, with the addresses from 192.0.2.50 to `last`; leases last 2 minutes."""
    command = [
        DNSMASQ,
        "--keep-in-foreground",
        "--conf-file",
        "--port=0",
        "--interface=uplink0",
        "--except-interface=lo",
        f"--dhcp-range=192.0.2.50,{last},255.255.255.0,2m",
        "--dhcp-authoritative",
        "--dhcp-no-override",
        "--no-ping",
        f"--dhcp-leasefile={node.folder}/dnsmasq.leases",
        "--pid-file",
        "--log-dhcp",
        "--log-facility=-",
        "--user=root",
        *options,
    ]
    with _running(node, command, "DHCP, ") as server:
        yield server


@contextmanager
def kea(node: Node, version: int, seconds: int, **keys: Any) -> Iterator[DhcpServer]:
    """Run kea on a node's uplink0; leases last `seconds`, are renewed after a third and rebound after two thirds."""
    subnet: dict[str, Any] = {
        4: {"subnet": "192.0.2.0/24", "pools": [{"pool": "192.0.2.100 - 192.0.2.200"}]},
        6: {"subnet": "2001:db8::/64", "pools": [{"pool": "2001:db8::100 - 2001:db8::200"}], "interface": "uplink0"},
    }[version]
    if version == 4:
        subnet["option-data"] = [{"name": "routers", "data": "192.0.2.2"}]
    else:
        # Otherwise it writes its identity below /var/lib/kea.
        identity = {"type": "EN", "enterprise-id": 2495, "identifier": "0102030405060708", "persist": False}
        keys = {"preferred-lifetime": seconds, "server-id": identity, **keys}
    config = {
        f"Dhcp{version}": {
            "interfaces-config": {"interfaces": ["uplink0"]},
            "lease-database": {"type": "memfile", "name": f"{node.folder}/kea{version}.csv", "lfc-interval": 0},
            "valid-lifetime": seconds,
            "renew-timer": seconds // 3,
            "rebind-timer": seconds * 2 // 3,
            f"subnet{version}": [subnet],
            "loggers": [
                {"name": f"kea-dhcp{version}", "severity": "DEBUG", "output_options": [{"output": "stdout"}]},
            ],
            **keys,
        }
    }
    path = node.folder / f"kea{version}.json"
    path.write_text(json.dumps(config))
    env = {"KEA_PIDFILE_DIR": str(node.folder), "KEA_LOCKFILE_DIR": str(node.folder)}
    command = [KEA.format(version), "-c", path]
    with _running(node, command, READY_KEA.format(version), env) as server:
        yield server


def macvlan_config(daemon: Daemon, **ipam: Any) -> dict[str, Any]:
    """Return a network whose pods have leases by this daemon; the keys are those of its IPAM."""
    return {
        "cniVersion": "1.1.0",
        "name": "net",
        "type": "macvlan",
        "master": "uplink0",
        "ipam": daemon.ipam(**ipam),
    }
