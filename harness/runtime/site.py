"""Nodes and pods' network namespaces for one purpose, all removed at its end, with the processes in them."""

import os
import select
import signal
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from harness.files import write_atomically
from harness.process_stat import process_stat
from harness.runtime.node import VAR_LIB_CNI, Node
from harness.runtime.sandbox import NETNS_DIR, create_sandbox
from netlink.namespace import remove_namespace

_MARK: Final = "kept"
"""A file in the folder of each node of a site that was kept."""

_ROUNDS: Final = 10
"""Rounds of killing. A round may fail if the processes start others meanwhile."""
_MILLISECONDS: Final = 1000
"""How long to wait for a killed process to end."""


class NodeProcess(NamedTuple):
    """A process on a node or in a pod. `started`, in clock ticks since boot, tells it from one that had its PID."""

    pid: int
    started: int
    command: str

    def in_words(self) -> str:
        """Describe the process as ps(1) does."""
        return f"process {self.pid}: {self.command}"


class ProcessScope:
    """Network namespaces, and folders mounted at /var/lib/cni; a process belongs to it if it is in one of either.

    A plugin's process may be in a network namespace of its own and still see the node's folder. A process with
    other mounts may still be in the network namespace of the node or of a pod.
    """

    def __init__(self, netns: Iterable[str], var_lib_cni: Iterable[Path]) -> None:
        """Take the namespaces and folders now at these paths. Missing ones are left out."""
        self._netns = {_identity(path) for path in netns} - {None}
        self._folders = {_identity(path) for path in var_lib_cni} - {None}

    def processes(self) -> list[NodeProcess]:
        """Return the processes of the scope without the calling one, sorted by PID."""
        return [process for pid in self._pids() if (process := _described(pid)) is not None]

    def end_processes(self) -> None:
        """Kill the processes, and wait until they are gone."""
        for _ in range(_ROUNDS):
            pids = self._pids()
            if not pids:
                return
            for pid in pids:
                self._end(pid)

    def _pids(self) -> list[int]:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 -- names only
        return sorted(pid for pid in numbers if pid != os.getpid() and self._has(pid))

    def _has(self, pid: int) -> bool:
        # The path through a process's root follows its own mounts. A zombie has neither namespace nor root.
        return (
            _identity(f"/proc/{pid}/ns/net") in self._netns
            or _identity(f"/proc/{pid}/root{VAR_LIB_CNI}") in self._folders
        )

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            opened = os.pidfd_open(pid)
            try:
                if self._has(pid):  # the PID may be reused by now; the pidfd never is
                    signal.pidfd_send_signal(opened, signal.SIGKILL)
                    gone = select.poll()
                    gone.register(opened, select.POLLIN)
                    gone.poll(_MILLISECONDS)
            finally:
                os.close(opened)


class Site:
    """Makes nodes and pods' namespaces below `state_dir` and in /run/netns; the end of the with block removes them.

    Processes on the nodes or in the namespaces are killed then. Nothing is removed earlier: the kernel destroys a
    namespace in the background, and that would disturb later measurements.
    """

    def __init__(self, state_dir: Path, purpose: str) -> None:
        """Store the folder of the nodes' files, and the `purpose` as a prefix of their names; nothing is made yet."""
        self.name = f"{purpose}-{uuid.uuid4().hex[:8]}"
        self.state_dir = state_dir
        self._removal = ExitStack()
        self._uses = ExitStack()
        self.is_kept = False
        self._made = 0
        self._nodes: list[Node] = []
        self.namespaces: list[str] = []
        """The paths of the pods' namespaces."""
        self._pods: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = ExitStack()  # everything is removed, even if one removal fails
        if not self.is_kept:
            end.push(self._removal)
            end.callback(_remove_symbolic_links, self.name)
        end.push(self._uses)
        if not self.is_kept:
            end.callback(self._scope().end_processes)  # first, because the processes may use the rest
        end.__exit__(kind, error, trace)

    def keep(self) -> None:
        """Have everything stay after the end of the block, processes too; `remove_kept` removes it. Raises OSError."""
        for node in self._nodes:
            write_atomically(node.folder / _MARK, b"")
        self.is_kept = True

    def node(
        self,
        *,
        threads: int = 1,
        until: ExitStack | None = None,
        has_own_folders: bool = False,
        layered: Sequence[Path] = (),
    ) -> Node:
        """Make a node with `threads` threads, which is in use until the site ends, or `until`. Raises OSError.

        `has_own_folders` and `layered` are for plugins that keep files outside of /var/lib/cni: see Node.
        """
        node = Node(
            self._next_name(), self.state_dir, threads=threads, has_own_folders=has_own_folders, layered=layered
        )
        self._nodes.append(node)
        self._removal.callback(node.remove)
        (until or self._uses).enter_context(node.in_use())
        node.run(int)  # the first call makes the thread and its mounts
        return node

    def namespace(self) -> str:
        """Make a pod's network namespace, and return its path. Raises OSError."""
        path = str(NETNS_DIR / self._next_name())
        self.namespaces.append(path)
        self._removal.callback(remove_namespace, path)
        create_sandbox(path, fixed=True)
        return path

    def pods(self, count: int) -> list[str]:
        """Return the namespaces of `count` pods, without interfaces; later calls return the same ones."""
        while len(self._pods) < count:
            self._pods.append(self.namespace())
        return self._pods[:count]

    def processes(self) -> list[NodeProcess]:
        """Return the processes on the nodes and in the pods' namespaces."""
        return self._scope().processes()

    def _scope(self) -> ProcessScope:
        nodes = [node.netns for node in self._nodes if node.netns]
        return ProcessScope([*nodes, *self.namespaces], [node.var_lib_cni for node in self._nodes])

    def _next_name(self) -> str:
        self._made += 1
        return f"{self.name}-{self._made}"


def kept_sites(state_dir: Path) -> list[str]:
    """Return the names of the sites that were kept below this folder, sorted."""
    return sorted({path.parent.name.rpartition("-")[0] for path in state_dir.glob(f"nodes/*/{_MARK}")})


def remove_kept(name: str, state_dir: Path) -> None:
    """Remove a site that was kept: its processes, pods' namespaces and nodes. Raises OSError."""
    nodes = [Node(path.name, state_dir) for path in state_dir.glob(f"nodes/{name}-*/")]
    namespaces = [str(path) for path in NETNS_DIR.glob(f"{name}-*")]
    ProcessScope(namespaces, [node.var_lib_cni for node in nodes]).end_processes()
    of_nodes = {node.netns for node in nodes}
    with ExitStack() as removal:  # each, even if one fails
        removal.callback(_remove_symbolic_links, name)
        for node in nodes:
            removal.callback(node.remove)
        for path in namespaces:
            if path not in of_nodes:
                removal.callback(remove_namespace, path)


def symbolic_links(site: str) -> list[Path]:
    """Return the links in /run/netns to namespaces of a site: plugins in sh make some, for ip-netns(8)."""
    found = []
    for path in NETNS_DIR.glob("*"):
        with suppress(OSError):  # no link, or another site's, which has removed it meanwhile
            if path.readlink().name.startswith(f"{site}-"):
                found.append(path)
    return found


def _remove_symbolic_links(site: str) -> None:
    for path in symbolic_links(site):
        path.unlink(missing_ok=True)


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 -- for each process of the machine: a Path takes as long as the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _described(pid: int) -> NodeProcess | None:
    """Return a process, None if it has ended meanwhile."""
    stat = process_stat(pid)
    try:
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return None
    if stat is None:
        return None
    return NodeProcess(pid, stat.started, command.replace(b"\0", b" ").decode(errors="replace").strip())
