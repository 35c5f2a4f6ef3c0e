"""A node for pods: this host, or a named network namespace in its place.

A named node has its network namespace at `/run/netns/NAME` and its files under `<state-dir>/nodes/NAME`. Plugins run in
that namespace and see the node's own `/var/lib/cni` and `/etc/cni/net.d`, so that two nodes share nothing and tests
need no host. Its kernel parameters, and those of its pods, are the same everywhere (harness.runtime.sandbox).
"""

import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from fast_stdlib import recorded_by, recorder
from harness.files import copy_files, locked, write_atomically
from harness.locations import DEFAULT_CONF_DIR, DEFAULT_STATE_DIR
from harness.runtime.left_links import LeftLinks
from harness.runtime.own_folders import OwnFolders, own_folders
from harness.runtime.pod_record import Pod
from harness.runtime.pods import PodStore
from harness.runtime.sandbox import NETNS_DIR, create_sandbox, sandbox_exists
from netlink.namespace import Namespace, entered, namespace_cookie, open_namespace, remove_namespace
from netlink.own_namespaces import (
    HeldMounts,
    bind_over,
    enter_own_mounts,
    make_read_only,
    mount_layers,
    mount_own_sysfs,
)
from skel.state_file import write_whole

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

VAR_LIB_CNI: Final = Path("/var/lib/cni")
"""The folder in which plugins and libcni keep reservations and cached results."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# In each round, one process that removes the node can win the race against this one.
_ROUNDS = 20

P = ParamSpec("P")
T = TypeVar("T")


class NodeError(Exception):
    """The node cannot be made or used."""


class Node:
    """A node, and the threads on it."""

    def __init__(
        self,
        name: str | None,
        state_dir: Path,
        *,
        threads: int = 8,
        has_own_folders: bool = False,
        layered: Sequence[Path] = (),
    ) -> None:
        """Store the name, None for this host, and make nothing. Raises NodeError for a bad name.

        With `has_own_folders`, a named node changes none of the machine's folders while it is in use: see OwnFolders.
        In the folders `layered`, too, its changes stay in memory.
        """
        if name is not None and not _NAME.fullmatch(name):
            raise NodeError(f"node name {name!r}: wanted letters, digits, '_', '.' and '-', at most 64 characters")
        self.name = name
        self.folder = state_dir if name is None else state_dir / "nodes" / name
        self.netns = None if name is None else str(NETNS_DIR / name)
        self.var_lib_cni = VAR_LIB_CNI if name is None else self.folder / "var-lib-cni"
        self.conf_dir = DEFAULT_CONF_DIR if name is None else self.folder / "etc-cni-net.d"
        """The folder of network lists: on a named node a copy of this host's, made with the node. It may be missing."""
        self.bin_dir = self.folder / "bin"
        """The folder of plugins of a named node's own. As a rule it is missing."""
        self.pods = PodStore(self.folder / "pods", Pod)
        self.left_links = LeftLinks(self.folder / "left-links")
        self.runs = self.folder / "runs"
        self._lock = self.folder / "lock"
        self._made_here = self.folder / "made-netns"
        self._threads = threads
        self._has_own_folders = has_own_folders
        self._layered = layered
        self.own = OwnFolders({})
        """The folders of its own that replace those of the machine, besides /var/lib/cni."""
        self._entered = threading.local()
        self._mounting = threading.Lock()
        self._mounts: HeldMounts | None = None
        self._held = ExitStack()
        self._pool: ThreadPoolExecutor | None = None
        self.namespace: Namespace | None = None
        """The node's network namespace inside `in_use` or `alone`; None for this host."""

    def exists(self) -> bool:
        """Tell whether the node's network namespace or its files exist; this host always exists."""
        return self.netns is None or self.folder.exists() or sandbox_exists(self.netns)

    def has_foreign_netns(self) -> bool:
        """Tell whether the node's network namespace exists, and is another program's."""
        if self.netns is None or not sandbox_exists(self.netns):
            return False
        if not self._made_here.exists():
            return True
        # A restart, or `ip netns delete`, may have ended the node's own, and another program may have made one since.
        boot, _, cookie = self._made_here.read_text().partition(" ")
        return bool(boot) and (boot != _boot() or (bool(cookie) and cookie != str(namespace_cookie(self.netns))))

    def must_exist(self) -> None:
        """Raise NodeError if the node does not exist; `in_use` and `alone` would make it."""
        if not self.exists():
            raise NodeError(f"there is no node {self.name}: its first `cni-harness add` makes it")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Block GC and the node's removal while pods are added or deleted; make a named node if it is missing.

        SPEC.md section 3, "Lifecycle & Ordering": no ADD or DEL during a GC. Raises NodeError, OSError.
        """
        for _ in range(_ROUNDS):
            with locked(self._lock, shared=True):
                if self._complete():
                    with self._open_namespace():
                        yield
                    return
            with locked(self._lock):
                self._make()
        raise NodeError(f"node {self.name} is removed as often as it is made")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for running ADDs and DELs, and block new ones, so that GC can run. Raises NodeError, OSError."""
        with locked(self._lock):
            if not self._complete():
                self._make()
            with self._open_namespace():
                yield

    def remove(self) -> bool:
        """Remove the namespace and files of a named node; if it has pods, do nothing and return False.

        Leftovers of sandboxes are removed, too. A network namespace that existed before the node stays. Raises OSError.
        """
        if self.netns is None:
            raise NodeError("this host is no node to remove")
        with locked(self._lock):
            if self.pods.has_records():
                return False
            if not self.has_foreign_netns():
                remove_namespace(self.netns)
            from shutil import rmtree

            rmtree(self.folder)
            with suppress(OSError):  # other nodes remain
                self.folder.parent.rmdir()
        return True

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in a thread on the node; return its result or raise its exception.

        Processes that it starts are on the node too. A signal that ends the calling thread's wait does not end the
        function: leaving `in_use` or `alone` waits for it. Call `run` inside these only.
        """
        if self._pool is None:
            raise NodeError(f"{self.name or 'this host'} is not in use")
        taking = recorder()

        def act() -> T:
            with recorded_by(taking):
                return function(*args, **kwargs)

        return self._pool.submit(self._on_node, act).result()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move the calling thread onto a named node, for a program that replaces this one.

        Its mounts stay the node's after the block. Raises OSError.
        """
        if self.netns is None:
            raise NodeError("this host is no node to enter")
        with open_namespace(self.netns) as namespace, entered(namespace):
            self._mount(namespace)
            yield

    def shell_words(self) -> tuple[str, ...]:
        """Return a command prefix that runs a command on the node; empty for this host."""
        if self.name is None:
            return ()
        own_files = " && ".join(
            f"mount --bind {shlex.quote(source)} {target}" for target, source in self._binds().items()
        )
        return ("ip", "netns", "exec", self.name, "sh", "-c", f'{own_files} && exec "$0" "$@"')

    def program(self) -> str:
        """Return the beginning of a command line of `cni-harness` that acts on this node, from any shell."""
        state_dir = self.folder if self.name is None else self.folder.parent.parent
        words = [] if state_dir == DEFAULT_STATE_DIR else ["--state-dir", str(state_dir)]
        return shlex.join(["cni-harness", *words, *(["--node", self.name] if self.name is not None else [])])

    def _on_node(self, action: Callable[[], T]) -> T:
        namespace = self.namespace
        if self.netns is None:
            return action()
        if namespace is None:
            raise NodeError(f"node {self.name} is in use no more")
        is_first = not getattr(self._entered, "done", False)
        if is_first:
            # The thread keeps the node's own files and /sys.
            with self._mounting:
                if self._mounts is None:
                    self._mount(namespace)
                    self._mounts = HeldMounts()
                    self._held.callback(self._mounts.close)
                else:
                    self._join(self._mounts, namespace)
            self._entered.done = True
        with entered(namespace):
            return action()

    def _join(self, mounts: HeldMounts, namespace: Namespace) -> None:
        try:
            mounts.join()
        except PermissionError:
            if self.own.layered:  # two sets of overlays would hold different changes
                raise
            self._mount(namespace)  # without CAP_SYS_CHROOT, each thread has mounts of its own

    def _mount(self, namespace: Namespace) -> None:
        """Give the calling thread the node's own files and /sys. Raises OSError."""
        VAR_LIB_CNI.mkdir(parents=True, exist_ok=True)
        enter_own_mounts()
        own = self.own
        if own.layered:
            layers = mount_layers(own.layered, own.memory, (*own.below_layers, own.state))
            # The descriptor shows it to threads that are not on the node, too.
            memory = os.open(own.memory, os.O_PATH | os.O_CLOEXEC)
            self._held.callback(os.close, memory)
            seen = {Path(folder): Path(f"/proc/self/fd/{memory}", Path(upper).name) for folder, upper in layers.items()}
            # A folder that was asked for stays the machine's if the kernel refuses its overlay.
            refused = {str(folder) for folder in self._layered} & (set(own.layered) - layers.keys())
            self.own = own = own._replace(layers=seen, kept=(*own.kept, *refused))
        folders = {str(target): str(source) for target, source in own.sources.items()}
        bind_over({**self._binds(), **folders}, own.kept)
        if own.layered:
            is_own = own.writable()
            make_read_only(lambda path: path == str(VAR_LIB_CNI) or is_own(path))
        with entered(namespace):
            mount_own_sysfs()

    def _binds(self) -> dict[str, str]:
        """Return the node's folders that take the place of this host's, by those. A mount needs a place."""
        binds = {str(VAR_LIB_CNI): str(self.var_lib_cni)}
        if self.conf_dir.is_dir() and DEFAULT_CONF_DIR.is_dir():
            binds[str(DEFAULT_CONF_DIR)] = str(self.conf_dir)
        return binds

    def _complete(self) -> bool:
        return self.netns is None or (sandbox_exists(self.netns) and self.var_lib_cni.is_dir())

    @contextmanager
    def _open_namespace(self) -> Iterator[None]:
        from concurrent.futures import ThreadPoolExecutor

        if self._has_own_folders and self.name is not None:
            self.own = own_folders(self.folder / "own", self.folder.parent.parent, self._layered)
        with (
            self._held,
            nullcontext() if self.netns is None else open_namespace(self.netns) as namespace,
            ThreadPoolExecutor(self._threads, thread_name_prefix=f"node-{self.name or 'host'}") as pool,
        ):
            self.namespace, self._pool = namespace, pool
            try:
                yield
            finally:
                self._pool = self.namespace = self._mounts = None

    def _make(self) -> None:
        if self.netns is None:
            return
        if DEFAULT_CONF_DIR.is_dir() and not self.conf_dir.exists() and not self._has_own_folders:
            copy_files(DEFAULT_CONF_DIR, self.conf_dir)
        self.var_lib_cni.mkdir(parents=True, exist_ok=True)
        if sandbox_exists(self.netns):
            return
        # The mark comes first: after a crash between the two steps, `remove` must know that the node made the netns.
        write_atomically(self._made_here, _boot().encode())
        remove_namespace(self.netns)  # a plain file remains after a crash or a reboot
        create_sandbox(self.netns, fixed=True)
        # Not flushed: a power cut ends the namespace, too, and the boot is known.
        write_whole(str(self._made_here), f"{_boot()} {namespace_cookie(self.netns)}".encode(), mode=0o644)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
