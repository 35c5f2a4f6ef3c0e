"""`cni-harness` as a user runs it: a process, with files and a node of its own."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netlink.namespace import remove_namespace
from tests.nodes import HANG
from tools.release.checkout import own_version

ROOT = Path(__file__).parent.parent
VERSION = own_version(ROOT)
"""The version of this project."""
REFERENCE_BIN_DIR = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins are."""
SYSTEM_PYTHON = os.path.realpath(sys.executable)
"""The interpreter behind the environment's: everybody may run it, and a script's first line can name it."""
AS_UNPRIVILEGED_USER = [
    *("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
]
"""Runs a command as a user who is not root, but may search folders: the checkout may be where only root can."""


def bridge_network(
    name: str, *, subnet: str = "10.77.0.0/16", version: str = "1.0.0", **keys: object
) -> dict[str, Any]:
    """A network list with a bridge and host-local, of keys that every release of the reference plugins knows."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]]}
    plugin = {"type": "bridge", "bridge": f"{name}0", "isDefaultGateway": True, "ipam": ipam, **keys}
    return {"cniVersion": version, "name": name, "plugins": [plugin]}


def interrupting(opened: int) -> list[str]:
    """Return a command that runs another one, and sends SIGINT to it as soon as it has opened so many files."""
    return ["strace", "-qq", "-o", "/dev/null", "-e", f"inject=openat:signal=INT:when={opened}"]


class Cli:
    """Runs the command line; `close` takes back its pods, whatever else went wrong."""

    def __init__(self, folder: Path, bin_dir: Path) -> None:
        self.folder = folder
        self.bin_dir = bin_dir
        self.conf_dir = folder / "conf"
        self.state_dir = folder / "state"
        self.conf_dir.mkdir(parents=True)
        self.node = f"t-{uuid.uuid4().hex[:8]}"
        self.prefix: list[str] = []
        """What runs the command, to change who does."""
        """Who runs it, if not whoever runs the tests."""
        self.node_dir = self.state_dir / "nodes" / self.node
        self.var_lib_cni = self.node_dir / "var-lib-cni"
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(ROOT),
            "NETCONFPATH": str(self.conf_dir),
            "CNI_PATH": str(bin_dir),
            "CNI_HARNESS_STATE_DIR": str(self.state_dir),
            "CNI_HARNESS_NODE": self.node,
        }

    def close(self) -> None:
        """Remove every network namespace that the records name, and the node's."""
        for record in self.node_dir.glob("pods/*/pod.json"):
            remove_namespace(json.loads(record.read_text()).get("netns", "/run/netns/none"))
        remove_namespace(f"/run/netns/{self.node}")

    def configure(self, *networks: dict[str, Any]) -> None:
        """Write network lists, in this order."""
        for number, network in enumerate(networks):
            (self.conf_dir / f"{number}0-{network['name']}.conflist").write_text(json.dumps(network))

    def plugin(self, name: str, script: str) -> None:
        """Put an executable of our own into a folder that is searched first: a plugin in the language of the shell."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        self.environment["CNI_PATH"] = f"{folder}:{self.bin_dir}"

    def run(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        stdin: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end. Raises AssertionError with all output when `check` and the exit code is not 0."""
        run = subprocess.run(
            [*self.prefix, *self.command(args)],
            env={**self.environment, **(env or {})},
            cwd="/",
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        if check and run.returncode != 0:
            message = f"{' '.join(args)} ended with {run.returncode}\n{run.stdout}{run.stderr}"
            raise AssertionError(message)
        return run

    def json(self, *args: str) -> dict[str, Any]:
        """The JSON document that a verb prints."""
        document: dict[str, Any] = json.loads(self.run(*args, "-o", "json").stdout)
        return document

    def add(self, *args: str) -> list[dict[str, Any]]:
        """Add pods and return the harness's words on each."""
        pods: list[dict[str, Any]] = self.json("add", *args)["pods"]
        return pods

    def pods(self) -> list[dict[str, Any]]:
        """The pods that there are."""
        pods: list[dict[str, Any]] = self.json("list")["pods"]
        return pods

    @contextmanager
    def background(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """Run a verb for as long as the block lasts; then it is killed, if it still runs."""
        with subprocess.Popen(
            [*self.prefix, *self.command(args)],
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)

    def command(self, args: Sequence[str]) -> list[str]:
        """The command line, whole."""
        return [sys.executable, "-m", "harness.cli.main", *args]

    def ip(self, *args: str, netns: str = "") -> list[dict[str, Any]]:
        """What `ip -j ARGS` prints on the node, or in the network namespace at the path `netns`."""
        name = Path(netns).name or self.node
        run = subprocess.run(["ip", "-n", name, "-j", *args], capture_output=True, text=True, timeout=HANG, check=True)
        answer: list[dict[str, Any]] = json.loads(run.stdout or "[]")
        return answer

    def addresses(self, netns: str, ifname: str) -> set[str]:
        """The global addresses that the kernel has on an interface, with prefix lengths."""
        (link,) = self.ip("address", "show", "dev", ifname, netns=netns)
        return {f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"] if each["scope"] == "global"}

    def reservations(self, network: str) -> set[str]:
        """The addresses that host-local has reserved on the node."""
        folder = self.var_lib_cni / "networks" / network
        names = {path.name for path in folder.glob("*")} if folder.exists() else set()
        return {name for name in names if name != "lock" and not name.startswith((".", "last_reserved_ip"))}

    def cached_results(self) -> set[str]:
        """The names of the result cache's files on the node."""
        return {path.name for path in (self.var_lib_cni / "results").glob("*")}


def on_a_terminal(
    cli: Cli, *args: str, env: Mapping[str, str] | None = None, columns: int = 80, ends_well: bool = True
) -> str:
    """Run a verb with a terminal for its stdout and stderr, and return the text on it."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen:
        environment = {**cli.environment, "TERM": "xterm", **(env or {})}
        with subprocess.Popen(
            cli.command(args), env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=its, stderr=its
        ) as process:
            os.close(its)
            shown = b""
            try:
                while chunk := screen.read(4096):
                    shown += chunk
            except OSError:  # EIO: nobody has the other side open any more
                pass
            code = process.wait(HANG)
            assert code == 0 or not ends_well, shown
    return shown.decode(errors="backslashreplace")


def waits_for_a_lock(pid: int) -> bool:
    """Whether a process waits for somebody else's flock(2)."""
    return any(waiting == str(pid) for waiting, _ in _waiting_for_locks())


def is_waited_for(lock: Path) -> bool:
    """Whether any process waits for a flock(2) of a file."""
    return any(file.endswith(f":{lock.stat().st_ino}") for _, file in _waiting_for_locks())


def _waiting_for_locks() -> Iterator[tuple[str, str]]:
    """Yield the process ID of each that waits, and MAJOR:MINOR:INODE of the file."""
    # "1: -> FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF" is one that waits, proc(5).
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "->":
            yield fields[5], fields[6]
