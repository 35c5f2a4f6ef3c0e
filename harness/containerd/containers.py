"""The calls of RuntimeService for containers. A shim runs each container; the calls look at the files that it writes.

Nothing is kept in memory: any number of programs may use one node's containers, and each of them may be killed.
"""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.containerd import control_groups
from harness.containerd.container_exec import execute, execute_with_own_streams
from harness.containerd.container_launch import ContainerPlace, prepare, signal_number
from harness.containerd.container_states import (
    CONTAINER_LIFE,
    ContainerEvent,
    container_message,
    state_of,
    status_message,
)
from harness.containerd.container_store import ContainerFolder, ContainerRecord, ContainerStore, Exit, discard
from harness.containerd.images import ImageConfig, Images
from harness.containerd.process_settings import arguments_of
from harness.containerd.processes import SHIM, kill_group, program, send_signal, wait_for_end
from harness.containerd.sandbox_record import SandboxView
from harness.cri.messages import (
    Container,
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    ExecSyncResult,
    PodSandboxConfig,
)
from harness.cri.service import ImageNotFoundError, NotFoundError, RuntimeServiceError

_START_ERROR: Final = 128  # containerd's errorStartExitCode
_UNKNOWN: Final = 255  # its unknownExitCode
_KILL_S: Final = 120.0
"""How long a killed process may take to end, in seconds."""
_PAUSE_S: Final = 0.01


class Containers:
    """The containers of a node; all methods may be called from several threads and processes."""

    def __init__(self, folder: Path, images: Images, sandbox: Callable[[str], SandboxView]) -> None:
        """Take the node's folder; `sandbox` returns a sandbox by ID, or raises NotFoundError."""
        self._folder = folder.resolve()
        self._store = ContainerStore(self._folder)
        self._images = images
        self._sandbox = sandbox
        self._runtime_state = self._folder / "runc"

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig, sandbox: PodSandboxConfig) -> str:
        """Store a container and return its ID; no process is made.

        Raises NotFoundError, ImageNotFoundError, RuntimeServiceError.
        """
        _running(self._sandbox(pod_sandbox_id))
        image_id, image = self._image(config.image)
        for mount in config.mounts:
            if mount.propagation == "rshared":
                raise RuntimeServiceError(f"{mount.container_path}: mount propagation to the node is not supported")
        pod, own = sandbox.metadata, config.metadata
        has_log = sandbox.log_directory and config.log_path
        record = ContainerRecord(
            id=secrets.token_hex(32),
            name=f"{own.name}_{pod.name}_{pod.namespace}_{pod.uid}_{own.attempt}",
            pod_sandbox_id=pod_sandbox_id,
            created_at=time.time_ns(),
            config=config,
            image_id=image_id,
            log_path=str(Path(sandbox.log_directory).absolute() / config.log_path) if has_log else "",
            stop_signal=signal_number(image.stop_signal),
            arguments=arguments_of(config, image),
        )
        self._store.add(record)
        return record.id

    def start_container(self, container_id: str) -> None:
        """Start a container's shim, and wait until the process runs.

        Raises NotFoundError, RuntimeServiceError. If it cannot run, the container has exited with 128, StartError.
        """
        folder = self._store.folder_of(container_id)
        record = folder.record()
        lock = folder.take_lock()
        if lock is None or not CONTAINER_LIFE.allows(_observed(folder, alive=False), ContainerEvent.START):
            if lock is not None:
                os.close(lock)
            raise RuntimeServiceError(f"container is in {self._state(folder)} state")
        try:
            try:
                sandbox = _running(self._sandbox(record.pod_sandbox_id))
                prepare(ContainerPlace(folder, record, sandbox, self._images, self._runtime_state))
                self._run_shim(folder, lock)
            except (RuntimeServiceError, OSError) as error:
                folder.write_exit(_exit(_START_ERROR, "StartError", str(error)))
                raise RuntimeServiceError(str(error)) from None
        finally:
            os.close(lock)
        end = folder.exit()
        if end is not None and end.reason == "StartError":
            raise RuntimeServiceError(end.message)

    def stop_container(self, container_id: str, timeout_s: int) -> None:
        """Send the stop signal, and SIGKILL `timeout_s` seconds later; return when the container has ended.

        As with containerd, a repetition sends no second stop signal, and its time limit counts for itself.
        """
        folder = self._store.folder_of(container_id)
        try:
            record = folder.record()
        except NotFoundError:
            return
        if self._state(folder) is not ContainerState.RUNNING:
            return
        if timeout_s > 0:
            folder.stop_once(lambda: self._signal(folder, record.stop_signal))
            if self._has_ended(folder, timeout_s):
                return
        self._signal(folder, signal.SIGKILL)
        if not self._has_ended(folder, _KILL_S):
            raise RuntimeServiceError(f'container "{container_id}" has not ended {_KILL_S:.0f} s after SIGKILL')

    def remove_container(self, container_id: str) -> None:
        """Remove a container, by force if it runs. A missing one is fine. Raises RuntimeServiceError."""
        folder = self._store.folder_of(container_id)
        while True:
            try:
                state = self._state(folder)
            except NotFoundError:
                return
            if state is ContainerState.RUNNING:
                self.stop_container(container_id, 0)
            try:
                lock = folder.take_lock()
            except NotFoundError:
                return
            if lock is not None:
                break
            time.sleep(_PAUSE_S)  # the shim is starting, or writes its last file
        try:
            self._end_leftovers(folder)
            self._store.remove(folder)
        finally:
            os.close(lock)

    def list_containers(self, pod_sandbox_id: str = "", labels: Mapping[str, str] | None = None) -> list[Container]:
        """Return all containers of a sandbox, or of all sandboxes, that have these labels, without order."""
        wanted = (labels or {}).items()
        found = []
        for folder in self._store.all():
            record = folder.record()
            if pod_sandbox_id in {"", record.pod_sandbox_id} and wanted <= record.config.labels.items():
                found.append(container_message(record, self._state(folder)))
        return found

    def container_status(self, container_id: str) -> ContainerStatus:
        """Return one container, with the name of its image as in containerd. Raises NotFoundError."""
        folder = self._store.folder_of(container_id)
        state = self._state(folder)
        record = folder.record()
        status = status_message(record, state, folder.process(), folder.exit())
        launch = folder.launched()
        status.user = launch.user if launch is not None else None
        image = self._images.find(record.image_id) if record.image_id else None
        status.image = image.tags[0] if image is not None and image.tags else status.image
        return status

    def exec_sync(self, container_id: str, command: Sequence[str], timeout_s: float) -> ExecSyncResult:
        """Run a command in a container; 0 is no time limit. Raises TimeoutError when the limit passes."""
        return execute(self._running_folder(container_id), command, timeout_s, self._runtime_state)

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> int:
        """Run a command in a container with this process's streams, and return its exit code."""
        folder = self._running_folder(container_id)
        return execute_with_own_streams(folder, command, self._runtime_state, terminal=tty, stdin=stdin)

    def images_in_use(self) -> set[str]:
        """Return the IDs of the images of all containers."""
        return {folder.record().image_id for folder in self._store.all()} - {""}

    def recover(self) -> None:
        """Remove leftovers of crashed calls and of killed shims; no other call may be running."""
        for folder in self._store.leftovers():
            self._end_leftovers(folder)
            discard(folder.path)
        for folder in self._store.all():
            self._state(folder)

    def _image(self, name: str) -> tuple[str, ImageConfig]:
        if not name:
            return "", ImageConfig()
        image = self._images.find(name)
        if image is None:
            raise ImageNotFoundError(f'failed to resolve image "{name}": not found')
        return image.id, image.config

    def _run_shim(self, folder: ContainerFolder, lock: int) -> None:
        """Start the shim, and wait until it closes its output: the process runs, or could not be made."""
        with (folder.path / "shim.log").open("ab") as log:
            subprocess.run(
                program(SHIM, str(folder.path), str(lock)),
                pass_fds=[lock],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
            )

    def _state(self, folder: ContainerFolder) -> ContainerState:
        """Return the state; a container whose shim was killed ends now. Raises NotFoundError."""
        folder.record()
        alive = folder.shim_is_alive()  # first: the shim writes the exit file before it ends
        if not alive and folder.exit() is None and folder.launch.exists():
            self._end_lost(folder)
            alive = folder.shim_is_alive()
        return _observed(folder, alive=alive)

    def _end_lost(self, folder: ContainerFolder) -> None:
        """End a container whose shim was killed: code 255, reason Unknown, as containerd after its restart."""
        lock = folder.take_lock()
        if lock is None:  # another program does it
            return
        try:
            if folder.exit() is None and folder.launch.exists():
                self._end_leftovers(folder)
                folder.write_exit(_exit(_UNKNOWN, "Unknown", "the container's shim was killed"))
        finally:
            os.close(lock)

    def _end_leftovers(self, folder: ContainerFolder) -> None:
        """End all processes of a container without a shim, and remove its control groups and runc's state."""
        launch = folder.launched()
        if launch is None:
            return
        process = folder.process()
        if process is not None:
            kill_group(process, _KILL_S)
        if launch.delete:
            with suppress(FileNotFoundError):  # the OCI runtime is gone, or half of this folder
                subprocess.run(launch.delete, cwd=folder.bundle, capture_output=True, check=False)
        control_groups.remove(launch.control_groups)

    def _running_folder(self, container_id: str) -> ContainerFolder:
        folder = self._store.folder_of(container_id)
        state = self._state(folder)
        if state is not ContainerState.RUNNING:
            raise RuntimeServiceError(f"container is in {state} state")
        return folder

    def _signal(self, folder: ContainerFolder, number: int) -> None:
        process = folder.process()
        if process is not None:
            send_signal(process, number)

    def _has_ended(self, folder: ContainerFolder, timeout_s: float) -> bool:
        """Wait until the shim has ended, which it does last; tell whether it has."""
        shim = folder.shim()
        ended = shim is None or wait_for_end(shim, timeout_s)
        return ended and self._state(folder) not in {ContainerState.RUNNING, ContainerState.CREATED}


def _running(sandbox: SandboxView) -> SandboxView:
    if not sandbox.pause_pid:
        raise RuntimeServiceError(f'sandbox container "{sandbox.id}" is not running')
    return sandbox


def _observed(folder: ContainerFolder, *, alive: bool) -> ContainerState:
    return state_of(
        shim_started=folder.launch.exists(),
        shim_alive=alive,
        process=folder.process() is not None,
        exited=folder.exit() is not None,
    )


def _exit(code: int, reason: str, message: str) -> Exit:
    return Exit(code=code, finished_at=time.time_ns(), reason=reason, message=message)
