"""Sandboxes, in the order of containerd 2: namespace, network, pause process; each failure takes all of it back.

The containers of a sandbox share its files: hostname, hosts, resolv.conf, and the folder of /dev/shm.
"""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fast_stdlib import syscalls
from harness.containerd.processes import PAUSE, program, send_signal, wait_for_end
from harness.containerd.sandbox_networks import SandboxNetworks
from harness.containerd.sandbox_record import SandboxPod, SandboxView, new_sandbox, sandbox_name
from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig, PodSandboxState, PodSandboxStatus
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.files import LockHeldError, write_atomically
from harness.mounts import detach
from harness.process_stat import process_stat
from harness.runtime.node import Node
from harness.runtime.pod_record import PauseProcess
from harness.runtime.pods import PodExistsError, PodRecordError, PodStore
from harness.runtime.resolv_conf import HOST_RESOLV_CONF, resolver_line
from harness.runtime.sandbox import create_sandbox, new_sandbox_path
from harness.runtime.sandbox_life import SandboxEvent, SandboxState
from harness.runtime.unserved_requests import UnservedRequest, unserved_requests
from netlink.namespace import remove_namespace

_HOSTS: Final = Path("/etc/hosts")
_SHM_SIZE: Final = "mode=1777,size=67108864"  # 64 MiB, as containerd's
_PAUSE_TIMEOUT_S: Final = 30.0


class Sandboxes:
    """The sandboxes of a node, and the RuntimeService's calls for them. Bare pods are not among them."""

    def __init__(self, open_node: Callable[[], Node], networks: SandboxNetworks, *, take_over: bool = True) -> None:
        """Use the node's store of pods. With `take_over`, remove what a killed process left without a record."""
        self.store = PodStore(open_node().pods.folder, SandboxPod)
        self._open_node = open_node
        self._networks = networks
        if take_over:
            self.store.remove_leftovers()

    def run(self, config: PodSandboxConfig) -> str:
        """Make a sandbox and return its ID. Raises RuntimeServiceError; then nothing remains, or an UNKNOWN sandbox."""
        sandbox = new_sandbox(config, list(map(str, self._networks.bin_dirs)))
        name = sandbox_name(sandbox)
        try:
            with self.store.reserved(sandbox, lambda known: sandbox_name(known) != name):
                self._make_or_take_back(sandbox)
        except PodExistsError as error:
            raise RuntimeServiceError(f'failed to reserve sandbox name "{name}": {error}') from None
        except OSError as error:
            raise RuntimeServiceError(f'failed to run sandbox "{sandbox.container_id}": {error}') from error
        return sandbox.container_id

    def stop(self, sandbox_id: str) -> None:
        """End the pause process, delete the networks, remove the namespace; may be repeated.

        The containers have been stopped before. Raises RuntimeServiceError; the namespace stays if a DEL failed.
        """
        with suppress(NotFoundError), self._claimed(sandbox_id) as sandbox:
            self._stop(sandbox)

    def remove(self, sandbox_id: str) -> None:
        """Stop a sandbox and remove its record; its containers have been removed before. Raises RuntimeServiceError."""
        with suppress(NotFoundError), self._claimed(sandbox_id) as sandbox:
            self._stop(sandbox)
            sandbox.apply(SandboxEvent.REMOVED)
            self.store.remove(sandbox)

    def status(self, sandbox_id: str) -> PodSandboxStatus:
        """Return a sandbox. Raises NotFoundError."""
        return _status(self.get(sandbox_id))

    def unserved_requests(self, sandbox_id: str) -> Sequence[UnservedRequest]:
        """Return the requests of a sandbox that no plugin of its networks gets. Raises NotFoundError."""
        return unserved_requests(self.get(sandbox_id).networks)

    def list(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        """Return the sandboxes with these labels, the oldest first."""
        wanted = (labels or {}).items()
        known = [each for each in self.store.all(on_error=lambda _: None) if not each.is_bare]
        found = [each for each in known if wanted <= each.part().config.labels.items()]
        return [_status(each) for each in sorted(found, key=lambda each: each.part().created_at)]

    def get(self, sandbox_id: str) -> SandboxPod:
        """Return a sandbox. Raises NotFoundError, RuntimeServiceError."""
        try:
            sandbox = self.store.by_id(sandbox_id)
        except PodRecordError as error:
            raise RuntimeServiceError(str(error)) from error
        if sandbox is None:
            raise NotFoundError(f'sandbox "{sandbox_id}": not found')
        return sandbox

    def view(self, sandbox_id: str) -> SandboxView:
        """Return a sandbox as its containers see it. Raises NotFoundError."""
        sandbox = self.get(sandbox_id)
        pause_pid = sandbox.pause.pid if sandbox.pause is not None and sandbox.is_ready() else 0
        return SandboxView(sandbox_id, sandbox.part().config, pause_pid, self.store.path(sandbox))

    @contextmanager
    def _claimed(self, sandbox_id: str) -> Iterator[SandboxPod]:
        """Lock a sandbox for one operation. Raises NotFoundError, RuntimeServiceError."""
        found = self.get(sandbox_id)
        try:
            # A sandbox that is being made is not waited for: that may take as long as its plugins.
            with self.store.claimed_again(found, wait=found.state is not SandboxState.MAKING) as sandbox:
                if sandbox is None:
                    raise NotFoundError(f'sandbox "{sandbox_id}": not found')
                yield sandbox
        except LockHeldError:
            raise RuntimeServiceError(f'failed to stop sandbox "{sandbox_id}": it is being made') from None
        except PodRecordError as error:
            raise RuntimeServiceError(str(error)) from error

    def _make_or_take_back(self, sandbox: SandboxPod) -> None:
        try:
            self._make(sandbox)
            sandbox.apply(SandboxEvent.MADE)
            self.store.write(sandbox)
        except BaseException as error:
            try:
                self._unmake(sandbox, failed=True)
            except RuntimeServiceError as failure:
                error.add_note(f"and taking it back: {failure}")
                sandbox.apply(SandboxEvent.LEFT)
                self.store.write(sandbox)
            else:
                sandbox.apply(SandboxEvent.TAKEN_BACK)
                self.store.remove(sandbox)
            raise

    def _make(self, sandbox: SandboxPod) -> None:
        part = sandbox.part()
        config = part.config
        node = self._open_node()
        with node.in_use():
            if config.network == NamespaceMode.POD:
                sandbox.netns = new_sandbox_path()
                lists = self._networks.plan(sandbox)
                # Before the namespace exists: a process that is killed here leaves nothing that is not on record.
                self.store.write(sandbox)
                create_sandbox(sandbox.netns, fixed=node.netns is not None)
                self._networks.setup(node, sandbox, lists)
                self.store.write(sandbox)
            part.hostname = config.hostname or Path("/proc/sys/kernel/hostname").read_text().strip()
            netns = sandbox.netns or (node.netns or "")
            sandbox.pause = _start_pause(config, netns, config.hostname, sandbox.container_id)
            self.store.write(sandbox)
            make_sandbox_files(self.store.path(sandbox), config, part.hostname)

    def _stop(self, sandbox: SandboxPod) -> None:
        if sandbox.state is SandboxState.MAKING:  # the process that made it was killed
            sandbox.apply(SandboxEvent.LEFT)
        self._unmake(sandbox)
        if sandbox.state is not SandboxState.NOTREADY:
            sandbox.apply(SandboxEvent.ENDED)
            self.store.write(sandbox)

    def _unmake(self, sandbox: SandboxPod, *, failed: bool = False) -> None:
        """Remove all of a sandbox but its record; `failed` says that its ADD has failed, and been undone, just now."""
        sandbox_id = sandbox.container_id
        try:
            if sandbox.pause is not None:
                _end_pause(sandbox.pause)
            else:
                _end_unrecorded_pauses(sandbox_id)
            remove_sandbox_files(self.store.path(sandbox))
            if sandbox.networks:
                try:
                    self._networks.teardown(self._open_node(), sandbox, only_added=failed)
                finally:
                    self.store.write(sandbox)
            if sandbox.netns:
                remove_namespace(sandbox.netns)
        except OSError as error:
            raise RuntimeServiceError(f'failed to stop sandbox "{sandbox_id}": {error}') from error


def _status(sandbox: SandboxPod) -> PodSandboxStatus:
    part = sandbox.part()
    info = {"netns": sandbox.netns} if sandbox.netns else {}
    if sandbox.pause is not None:
        info["pid"] = str(sandbox.pause.pid)
    return PodSandboxStatus(
        id=sandbox.container_id,
        metadata=part.config.metadata,
        state=PodSandboxState.READY if sandbox.is_ready() else PodSandboxState.NOTREADY,
        created_at=part.created_at,
        ips=list(part.ips),
        network=part.config.network,
        labels=dict(part.config.labels),
        annotations=dict(part.config.annotations),
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


def _start_pause(config: PodSandboxConfig, netns: str, hostname: str, sandbox_id: str) -> PauseProcess:
    """Start the pause process in the calling thread's network namespace, or in `netns`. Raises RuntimeServiceError."""
    kinds = ["ipc"] * (config.ipc == NamespaceMode.POD)
    kinds += ["uts"] * (config.network == NamespaceMode.POD)
    kinds += ["pid"] * (config.pid == NamespaceMode.POD)
    settings = [f"{name}={value}" for name, value in config.sysctls.items()]
    command = program(PAUSE, netns, hostname, ",".join(kinds), sandbox_id, *settings)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_PAUSE_TIMEOUT_S, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        raise RuntimeServiceError(f"the pause process did not start within {_PAUSE_TIMEOUT_S:g} s") from None
    if ended.returncode:
        raise RuntimeServiceError(f"failed to start the pause process: {ended.stderr.strip().splitlines()[-1:]}")
    pid = int(ended.stdout)
    stat = process_stat(pid)
    if stat is None or stat.has_ended:
        raise RuntimeServiceError("the pause process ended at once")
    return PauseProcess(pid=pid, started=stat.started)


def _end_pause(pause: PauseProcess) -> None:
    """Kill the process with SIGKILL, and wait for its end. An ended one is fine. Raises OSError."""
    send_signal(pause, signal.SIGKILL)
    wait_for_end(pause, _PAUSE_TIMEOUT_S)


def _end_unrecorded_pauses(sandbox_id: str) -> None:
    """Kill pause processes of a sandbox that are not on record: the runtime was killed while it started one.

    Raises OSError.
    """
    while pauses := list(_pauses_of(sandbox_id)):  # one that is found may be about to fork
        for pause in pauses:
            _end_pause(pause)


def _pauses_of(sandbox_id: str) -> Iterator[PauseProcess]:
    name, identifier = PAUSE.rpartition(".")[2].encode(), sandbox_id.encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            words = path.read_bytes().split(b"\0")
            if name in words and identifier in words:
                pid = int(path.parent.name)
                stat = process_stat(pid)
                if stat is not None and not stat.has_ended:
                    yield PauseProcess(pid=pid, started=stat.started)
