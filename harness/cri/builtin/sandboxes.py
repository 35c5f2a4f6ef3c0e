"""Sandboxes, in the order of containerd 2: namespace, network, pause process; each failure takes all of it back.

The containers of a sandbox share its files: hostname, hosts, resolv.conf, and the folder of /dev/shm.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from fast_stdlib import syscalls
from harness.cri.builtin.sandbox_networks import SandboxNetworks
from harness.cri.builtin.sandbox_process import end_pause, end_unrecorded_pauses, is_running, start_pause
from harness.cri.builtin.sandbox_store import SandboxEvent, SandboxRecord, SandboxState, SandboxStore
from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig, PodSandboxState, PodSandboxStatus
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.files import write_atomically
from harness.mounts import detach
from harness.runtime.node import Node
from harness.runtime.resolv_conf import HOST_RESOLV_CONF, resolver_line
from harness.runtime.sandbox import create_sandbox, new_sandbox_path
from harness.runtime.unserved_requests import UnservedRequest, unserved_requests
from netlink.namespace import remove_namespace

_HOSTS: Final = Path("/etc/hosts")
_SHM_SIZE: Final = "mode=1777,size=67108864"  # 64 MiB, as containerd's


class Sandboxes:
    """The sandboxes of a node, and the RuntimeService's calls for them."""

    def __init__(
        self, folder: Path, open_node: Callable[[], Node], networks: SandboxNetworks, *, take_over: bool = True
    ) -> None:
        """Read the sandboxes of an earlier process: each is ready if its pause process runs.

        With `take_over`, sandboxes that were being made are now left ones. Without, another process may be
        making them, and this one writes no record.
        """
        self.store = SandboxStore(folder)
        self._open_node = open_node
        self._networks = networks
        self._take_over = take_over
        if take_over:
            self.store.discard_leftovers()
        for sandbox in self.store.all():
            if take_over and sandbox.state is SandboxState.MAKING:
                self.store.change(sandbox, SandboxEvent.LEFT)

    def run(self, config: PodSandboxConfig) -> str:
        """Make a sandbox and return its ID. Raises RuntimeServiceError; then nothing remains, or an UNKNOWN sandbox."""
        sandbox = SandboxRecord(id=secrets.token_hex(32), created_at=time.time_ns(), config=config)
        try:
            self.store.add(sandbox)
            self._make(sandbox)
            self.store.change(sandbox, SandboxEvent.MADE)
        except BaseException as error:
            with suppress(NotFoundError):
                if self.store.get(sandbox.id) is sandbox:
                    self._take_back(sandbox, error)
            if isinstance(error, OSError):
                raise RuntimeServiceError(f'failed to run sandbox "{sandbox.id}": {error}') from error
            raise
        return sandbox.id

    def stop(self, sandbox_id: str) -> None:
        """End the pause process, delete the networks, remove the namespace; may be repeated.

        The containers have been stopped before. Raises RuntimeServiceError; the namespace stays if a DEL failed.
        """
        try:
            sandbox = self.store.get(sandbox_id)
        except NotFoundError:
            return
        if sandbox.state is SandboxState.MAKING:
            raise RuntimeServiceError(f'failed to stop sandbox "{sandbox_id}": it is being made')
        self._unmake(sandbox)
        self.store.end(sandbox)

    def remove(self, sandbox_id: str) -> None:
        """Stop a sandbox and remove its record; its containers have been removed before. Raises RuntimeServiceError."""
        with suppress(NotFoundError):
            self.stop(sandbox_id)
            self.store.change(self.store.get(sandbox_id), SandboxEvent.REMOVED)

    def status(self, sandbox_id: str) -> PodSandboxStatus:
        """Return a sandbox. Raises NotFoundError."""
        return self._status(self.store.get(sandbox_id))

    def unserved_requests(self, sandbox_id: str) -> Sequence[UnservedRequest]:
        """Return the requests of a sandbox that no plugin of its networks gets. Raises NotFoundError."""
        return unserved_requests(self.store.get(sandbox_id).networks)

    def list(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        """Return the sandboxes with these labels, the oldest first."""
        wanted = (labels or {}).items()
        return [self._status(each) for each in self.store.all() if wanted <= each.config.labels.items()]

    def look(self, sandbox_id: str) -> tuple[SandboxRecord, bool]:
        """Return a sandbox, and whether its pause process runs. Raises NotFoundError."""
        sandbox = self.store.get(sandbox_id)
        self._look(sandbox)
        return sandbox, sandbox.state is SandboxState.READY

    def shm(self, sandbox_id: str) -> Path:
        """Return the folder that containers see as /dev/shm: the sandbox's own, or the node's."""
        own = self.store.path(sandbox_id) / "shm"
        return own if own.is_dir() else Path("/dev/shm")  # noqa: S108 - the mount that containers get

    def _make(self, sandbox: SandboxRecord) -> None:
        config = sandbox.config
        node = self._open_node()
        with ExitStack() as stack:
            stack.enter_context(node.in_use())
            own_network = config.network == NamespaceMode.POD
            if own_network:
                sandbox.netns = new_sandbox_path()
                sandbox.networks = self._networks.plan(sandbox)
                # Before the namespace exists: a process that is killed here leaves nothing that is not on record.
                self.store.write(sandbox)
                create_sandbox(sandbox.netns, fixed=node.netns is not None)
                self._networks.setup(sandbox)
                self.store.write(sandbox)
            sandbox.hostname = config.hostname or Path("/proc/sys/kernel/hostname").read_text().strip()
            netns = sandbox.netns or (node.netns or "")
            sandbox.pause = start_pause(config, netns, config.hostname, sandbox.id)
            self.store.write(sandbox)
            make_sandbox_files(self.store.path(sandbox.id), config, sandbox.hostname)

    def _take_back(self, sandbox: SandboxRecord, error: BaseException) -> None:
        try:
            self._unmake(sandbox, failed=True)
        except RuntimeServiceError as failure:
            error.add_note(f"and taking it back: {failure}")
            self.store.change(sandbox, SandboxEvent.LEFT)
        else:
            self.store.change(sandbox, SandboxEvent.TAKEN_BACK)

    def _unmake(self, sandbox: SandboxRecord, *, failed: bool = False) -> None:
        """Remove all of a sandbox but its record; `failed` says that its ADD has failed, and been undone, just now."""
        try:
            if sandbox.pause is not None:
                end_pause(sandbox.pause)
            else:
                end_unrecorded_pauses(sandbox.id)
            remove_sandbox_files(self.store.path(sandbox.id))
            if sandbox.networks:
                self._networks.teardown(sandbox, only_added=failed)
                sandbox.networks = []
                self.store.write(sandbox)
            if sandbox.netns:
                remove_namespace(sandbox.netns)
        except OSError as error:
            raise RuntimeServiceError(f'failed to stop sandbox "{sandbox.id}": {error}') from error

    def _look(self, sandbox: SandboxRecord) -> None:
        """Notice a pause process that has ended."""
        if sandbox.state is SandboxState.READY and (sandbox.pause is None or not is_running(sandbox.pause)):
            self.store.end(sandbox, on_record=self._take_over)

    def _status(self, sandbox: SandboxRecord) -> PodSandboxStatus:
        self._look(sandbox)
        config = sandbox.config
        info = {"netns": sandbox.netns} if sandbox.netns else {}
        if sandbox.pause is not None:
            info["pid"] = str(sandbox.pause.pid)
        return PodSandboxStatus(
            id=sandbox.id,
            metadata=config.metadata,
            state=PodSandboxState.READY if sandbox.state is SandboxState.READY else PodSandboxState.NOTREADY,
            created_at=sandbox.created_at,
            ips=list(sandbox.ips),
            network=config.network,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            info=info,
        )


def make_sandbox_files(folder: Path, config: PodSandboxConfig, hostname: str) -> None:
    """Write the files of a sandbox into `folder`, and mount its /dev/shm there. Raises OSError."""
    write_atomically(folder / "hostname", f"{hostname}\n".encode())
    write_atomically(folder / "hosts", _HOSTS.read_bytes() if _HOSTS.exists() else b"")
    write_atomically(folder / "resolv.conf", _resolv_conf(config.dns_config))
    if config.ipc == NamespaceMode.POD:
        shm = folder / "shm"
        shm.mkdir(mode=0o700, exist_ok=True)
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        syscalls.mount("shm", str(shm), flags, "tmpfs", _SHM_SIZE)
        syscalls.mount("", str(shm), syscalls.MS_PRIVATE)


def remove_sandbox_files(folder: Path) -> None:
    """Unmount /dev/shm; the files go with the folder. Raises OSError."""
    shm = folder / "shm"
    detach(shm)
    with suppress(FileNotFoundError):
        shm.rmdir()


def _resolv_conf(dns: DNSConfig | None) -> bytes:
    """Return the lines in containerd's order; without settings, the node's own file."""
    if dns is None:
        return HOST_RESOLV_CONF.read_bytes() if HOST_RESOLV_CONF.exists() else b""
    lines = [resolver_line("search", dns.searches)] if dns.searches else []
    lines += [resolver_line("nameserver", [server]) for server in dns.servers]
    lines += [resolver_line("options", dns.options)] if dns.options else []
    return "".join(lines).encode()
