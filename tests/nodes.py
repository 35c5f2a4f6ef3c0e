"""Nodes for tests: a network namespace and a mount namespace that together stand for a host.

A test changes nodes only: the machine's own network namespace and its `/var/lib/cni` are never
touched, so tests run in parallel, two nodes are neighbours, and a leak is a difference between two states of one node.
Kernel parameters are the same on every machine, in a node and in its pods (harness.runtime.sandbox).
The tools that look at the kernel here (ip, nft, iptables-save) are not the code under test.
"""

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from harness.runtime.sandbox import create_sandbox
from harness.snapshot import Snapshot, differences, take
from netlink.namespace import remove_namespace

T = TypeVar("T")

# What runtimes give a plugin when they give it little (see the notes on real runtimes).
BARE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

HANG = 900.0
"""The time limit of every wait, in seconds. Only a hang reaches it, on an overloaded or emulated processor too."""

_numbers = itertools.count()


class PluginRun(NamedTuple):
    """The outcome of one execution of a plugin."""

    code: int
    stdout: Any
    """The JSON document on stdout, None when there was none."""
    stderr: str


class Neighbours(NamedTuple):
    """Two ends of a wire: the interface on both nodes, and their addresses without prefix."""

    ifname: str
    ipv4: tuple[str, str]
    ipv6: tuple[str, str]


def until(condition: Callable[[], T], *, within: float = HANG) -> T:
    """Return the first true value of `condition`, asked again for at most `within` seconds; AssertionError after."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            message = f"not so within {within} s: {condition}"
            raise AssertionError(message)
        time.sleep(0.01)
    return value


def with_enough_time(attempt: Callable[[float], T | None], *, first: float = 0.2) -> T:
    """Return the first true result of `attempt`, called with a time limit in seconds that doubles at every call.

    For a limit that has to run out in the test, but not before an overloaded machine has come that far.
    """
    seconds = first
    while not (result := attempt(seconds)):
        assert seconds < HANG, attempt
        seconds *= 2
    return result


class Node:
    """One node. `close` takes back every network namespace that it made, whatever else went wrong."""

    def __init__(self, folder: Path) -> None:
        """Make the node, its files below `folder`."""
        self.name = f"t-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}-{next(_numbers)}"
        self.path = f"/run/netns/{self.name}"
        self.folder = folder / self.name
        self.bin_dir = self.folder / "bin"
        self.conf_dir = self.folder / "conf"
        self.state_dir = self.folder / "state"
        self.var_lib_cni = self.folder / "var-lib-cni"
        for private in (self.bin_dir, self.conf_dir, self.state_dir, self.var_lib_cni):
            private.mkdir(parents=True)
        self.environment = {"PATH": BARE_PATH, "CNI_HARNESS_STATE_DIR": str(self.state_dir)}
        self._undo = ExitStack()
        self._hostname: int | None = None
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._hold_namespace(self.path)
            self._mounts = _mounts_of_a_node(self.var_lib_cni)
            self._undo.callback(os.close, self._mounts)
            on_failure.pop_all()

    def close(self) -> None:
        """Remove the node and its pods' namespaces; errors come last and together."""
        self._undo.close()

    def command(self, args: Sequence[str | os.PathLike[str]], netns: str | None = None) -> list[str]:
        """The command that runs `args` with this node's files, in its network namespace or in `netns`."""
        # Opened through /proc, so that the executed program does not inherit the descriptor.
        mounts = f"/proc/{os.getpid()}/fd/{self._mounts}"
        spaces = [f"--net={netns or self.path}", f"--mount={mounts}"]
        if self._hostname is not None:
            spaces.append(f"--uts=/proc/{os.getpid()}/fd/{self._hostname}")
        return ["nsenter", *spaces, "--", *[str(arg) for arg in args]]

    def take_hostname(self) -> None:
        """Give the node a host name of its own: UIDs of static pods, and so their control groups, depend on it."""
        script = 'echo "$0" >/proc/sys/kernel/hostname; echo ready; read -r _ || :'
        self._hostname = _namespace_of(self.command(["unshare", "--uts", "sh", "-c", script, self.name]), "uts")
        self._undo.callback(os.close, self._hostname)

    def run(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        netns: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        check: bool = True,
        timeout: float = HANG,
    ) -> subprocess.CompletedProcess[str]:
        """Run `args` on this node, or in the pod `netns`, in the folder `/` with a bare environment and `env`.

        Raises AssertionError with all output when `check` and the exit code is not 0.
        """
        run = subprocess.run(
            self.command(args, netns),
            env={**self.environment, **(env or {})},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=timeout,
            check=False,
        )
        if check and run.returncode != 0:
            message = f"{[str(arg) for arg in args]} ended with {run.returncode}\n{run.stdout}{run.stderr}"
            raise AssertionError(message)
        return run

    @contextmanager
    def background(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        netns: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Iterator[subprocess.Popen[str]]:
        """Run `args` for as long as the block lasts, stdout and stderr in one pipe; then end it."""
        with subprocess.Popen(
            self.command(args, netns),
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(HANG)
                except subprocess.TimeoutExpired:
                    process.kill()

    def ip(self, *args: str, netns: str | None = None) -> list[Any]:
        """What `ip -j ARGS` prints, on this node or in `netns`; the empty list when it prints nothing."""
        answer: list[Any] = json.loads(self.run(["ip", "-j", *args], netns=netns).stdout or "[]")
        return answer

    def nft(self) -> list[dict[str, Any]]:
        """The objects of this node's nftables ruleset, as `nft -j list ruleset` describes them."""
        ruleset = json.loads(self.run(["nft", "-j", "list", "ruleset"]).stdout)
        return [entry for entry in ruleset["nftables"] if "metainfo" not in entry]

    def pod_namespace(self, name: str) -> str:
        """Make the network namespace of a pod, and return its path; it goes when the node goes."""
        path = f"{self.path}-{name}"
        self._hold_namespace(path)
        return path

    def plugin(
        self,
        bin_dir: str | os.PathLike[str],
        type: str,
        verb: str,
        config: Mapping[str, object] | str,
        *,
        container_id: str | None = None,
        ifname: str | None = None,
        netns: str | None = None,
        args: str | None = None,
        extra_env: Mapping[str, str] | None = None,
        timeout: float = HANG,
    ) -> PluginRun:
        """Execute one plugin as cnitool and runtimes do; a variable of None is absent from its environment.

        `config` is passed as one line of JSON, or as it is when it is text. Raises AssertionError when stdout is
        neither empty nor one JSON document.
        """
        variables = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": container_id,
            "CNI_IFNAME": ifname,
            "CNI_NETNS": netns,
            "CNI_ARGS": args,
            "CNI_PATH": os.fspath(bin_dir),
        }
        present = {name: value for name, value in variables.items() if value is not None}
        stdin = config if isinstance(config, str) else json.dumps(config, separators=(",", ":"))
        run = self.run(
            [Path(bin_dir, type)], env={**present, **(extra_env or {})}, stdin=stdin, check=False, timeout=timeout
        )
        try:
            answer = json.loads(run.stdout) if run.stdout else None
        except ValueError:
            message = f"{type} {verb} printed what is not JSON: {run.stdout!r}\n{run.stderr}"
            raise AssertionError(message) from None
        return PluginRun(run.returncode, answer, run.stderr)

    def state(self) -> Snapshot:
        """A snapshot of the network and of the files, without what changes by itself."""
        return take({"node": self.path}, [self.folder])

    def filtering(self) -> dict[str, Mapping[str, object]]:
        """A snapshot's part of nftables, by section."""
        sections = {name.partition("/")[2]: things for name, things in self.state().sections.items()}
        return {name: things for name, things in sections.items() if name.startswith("nft ")}

    def assert_same_state(self, before: Snapshot, *, ignore: Sequence[str] = (), within: float = 0.0) -> None:
        """Raise AssertionError that lists what differs from `before`, but for what matches a pattern in `ignore`.

        A pattern is for `place/thing/name`: `node/link/cni0`, `files/*/networks`. What the kernel does after the fact
        (the end of a namespace takes its links away) may be waited for, `within` seconds.
        """
        deadline = time.monotonic() + within
        while found := differences(before, self.state(), ignore=ignore):
            if time.monotonic() >= deadline:
                raise AssertionError(
                    "\n".join([f"node {self.name} is not as it was:", *(each.in_words() for each in found)])
                )
            time.sleep(0.02)

    def _hold_namespace(self, path: str) -> None:
        create_sandbox(path, fixed=True)
        self._undo.callback(remove_namespace, path)


def veth_between(one: Node, other: Node, number: int = 0) -> Neighbours:
    """Connect two nodes by a wire, with addresses of the documentation ranges on both ends; `number` 0 to 2."""
    ifname = f"uplink{number}"
    ipv4 = ("192.0.2", "198.51.100", "203.0.113")[number]
    neighbours = Neighbours(ifname, (f"{ipv4}.1", f"{ipv4}.2"), (f"2001:db8:{number}::1", f"2001:db8:{number}::2"))
    one.run(["ip", "link", "add", ifname, "type", "veth", "peer", "name", ifname, "netns", other.name])
    for end, node in enumerate((one, other)):
        # The addresses are known to be free. Duplicate address detection of the link-local one takes up to two seconds.
        node.run(["sysctl", "-qw", f"net.ipv6.conf.{ifname}.accept_dad=0"])
        node.run(["ip", "address", "add", f"{neighbours.ipv4[end]}/24", "dev", ifname])
        node.run(["ip", "address", "add", f"{neighbours.ipv6[end]}/64", "dev", ifname, "nodad"])
        node.run(["ip", "link", "set", ifname, "up"])
    for node in (one, other):
        until_usable(node, ifname)
        node.run(["sysctl", "-qw", f"net.ipv6.conf.{ifname}.accept_dad=1"])
    return neighbours


def until_usable(node: Node, ifname: str, netns: str | None = None) -> None:
    """Wait until packets can be sent and received on a link that is up, of the node or of the pod `netns`.

    A worker of the kernel activates a link's queue, joins the IPv6 groups of an address and makes its local route, some
    time after `ip` has returned: seconds later while many network namespaces end. Until then packets are dropped.
    """

    def is_usable() -> bool:
        (link,) = node.ip("address", "show", "dev", ifname, netns=netns)
        addresses = {each["local"] for each in link["addr_info"] if each["family"] == "inet6"}
        routes = {route["dst"] for route in node.ip("-6", "route", "show", "table", "local", netns=netns)}
        has_link_local = any(address.startswith("fe80:") for address in addresses)
        return link["operstate"] == "UP" and has_link_local and addresses <= routes

    until(is_usable)


_MOUNTS_SCRIPT = """
set -e
mkdir -p /var/lib/cni
# Only this one mount: what is mounted below /run/netns must be seen by all, as on a real host.
mount --make-private "$(stat -c %m /var/lib/cni)"
mount --bind "$1" /var/lib/cni
echo ready
read -r _ || :
"""


def _mounts_of_a_node(var_lib_cni: Path) -> int:
    """Open a new mount namespace with `var_lib_cni` at /var/lib/cni; it lives as long as the descriptor is open."""
    script = ["sh", "-c", _MOUNTS_SCRIPT, "sh", str(var_lib_cni)]
    return _namespace_of(["unshare", "--mount", "--propagation", "unchanged", *script], "mnt")


def _namespace_of(command: Sequence[str], kind: str) -> int:
    """Open a namespace of a program, which prints "ready" when it has made it, and then waits on stdin."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        return os.open(f"/proc/{holder.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
