"""The shim: one small process for each container, which outlives the program that started it.

It makes the container's process by the command `create` (`runc create`, or `host_process`), becomes its parent, copies
its output into the log, waits for its end and writes `exit.json`. conmon and containerd's shims do the same. It holds
the lock `shim.lock` of the container's folder: a free lock without `exit.json` means that the shim was killed.

The shim has a mount namespace of its own, and mounts the container's overlay there: the mount ends with its users, and
none is left behind by any crash. If the node's folder cannot hold the overlay's upper layer, that is in memory, as for
containers without an image. `launch.json` says the rest (harness.containerd.container_launch).
"""

import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Any, Final

from fast_stdlib import syscalls
from harness.containerd import control_groups
from harness.containerd.container_log import ContainerLog, last_error
from harness.process_stat import process_stat
from skel.state_file import write_whole

_START_ERROR: Final = 128  # containerd's errorStartExitCode
_SIGKILL_CODE: Final = 128 + signal.SIGKILL
_CHUNK: Final = 65_536  # bytes of a pipe (pipe(7))
_MEMORY: Final = "memory"
_PR_SET_CHILD_SUBREAPER: Final = 36  # include/uapi/linux/prctl.h


class _StartError(Exception):
    """The process could not be made or started."""


def main(folder: str, lock: str) -> None:
    """Leave the caller's session, and serve the container in `folder`; `lock` is the inherited lock's descriptor.

    The caller's pipe, on stdout, is closed once the container runs or has failed.
    """
    os.set_inheritable(int(lock), False)  # noqa: FBT003 -- its only parameter
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir(folder)
    # Handlers, since children would inherit ignored signals.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _write("shim.json", _identity(os.getpid()))
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans among its descendants become its children
    with open("launch.json", "rb") as file:
        _Shim(json.load(file)).serve()


class _Shim:
    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._ready, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ready, selectors.EVENT_READ)
        self._log = ContainerLog(launch["log_path"])
        self._kept: list[object] = []

    def serve(self) -> None:
        try:
            self._mount_rootfs()
            control_groups.make(self._launch["control_groups"], self._launch["limits"])
            # Without an OCI runtime, the program runs as soon as it is created.
            kills = control_groups.oom_kills_in(self._launch["control_groups"])
            pid = self._create()
            _write("process.json", _identity(pid))
            kills = kills or control_groups.oom_kills_of(pid)
            self._run("start", "OCI runtime start failed")
        except (_StartError, OSError) as error:
            self._clean_up()
            _write_exit(_START_ERROR, time.time_ns(), "StartError", str(error))
            return
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, 1)  # closes the caller's pipe
        os.close(null)
        code, finished_at = self._pump_until_exit(pid)
        oom_killed = code == _SIGKILL_CODE and kills is not None and kills.now() > kills.before
        self._drain()
        self._clean_up()
        _write_exit(code, finished_at, "OOMKilled" if oom_killed else "", "")

    def _mount_rootfs(self) -> None:
        """Mount the overlay by relative paths: a comma or colon in mount's options would mean something else."""
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("", "/", syscalls.MS_SLAVE | syscalls.MS_REC)
        if not (lower := self._launch["lower"]):
            return
        try:
            _mount_overlay(lower, ".")
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: the folder is on a file system that cannot hold the upper layer
                raise
            _make_layers_in_memory()
            _mount_overlay(lower, _MEMORY)

    def _create(self) -> int:
        """Make the process, which does not run yet, and return its PID."""
        launch = self._launch
        if launch["terminal"]:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind("console.sock")
            listener.listen(1)
            self._run("create", "OCI runtime create failed")
            connection, _ = listener.accept()
            _, descriptors, _, _ = socket.recv_fds(connection, _CHUNK, 1)
            self._selector.register(descriptors[0], selectors.EVENT_READ, "stdout")
            os.unlink("console.sock")
        else:
            streams = {name: os.pipe2(os.O_CLOEXEC) for name in ("stdout", "stderr")}
            for name, (reading, _) in streams.items():
                os.set_blocking(reading, False)
                self._selector.register(reading, selectors.EVENT_READ, name)
            outputs = {name: writing for name, (_, writing) in streams.items()}
            try:
                self._run("create", "OCI runtime create failed", stdin=self._stdin(), **outputs)
            finally:
                for writing in outputs.values():
                    os.close(writing)
        with open("pid", "rb") as file:
            return int(file.read())

    def _stdin(self) -> int:
        if not self._launch["stdin"]:
            return subprocess.DEVNULL
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._kept.append(writing)  # open for ever: nobody attaches, and the container waits for input
        return reading

    def _run(self, step: str, failure: str, **streams: int) -> None:
        command = self._launch[step]
        if not command:
            return
        if "stdin" not in streams:
            streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = subprocess.Popen(command, cwd="bundle", **streams)  # type: ignore[call-overload]  # numbers of open files
        if process.wait():
            raise _StartError(f"{failure}: {last_error('create.log') or f'exit status {process.returncode}'}")

    def _pump_until_exit(self, pid: int) -> tuple[int, int]:
        """Copy output until the container's first process ends; return its exit code and the time."""
        while True:
            for key, _ in self._selector.select():
                if key.data:
                    self._copy(key.fd, key.data)
                    continue
                os.read(self._ready, _CHUNK)
                for ended, status in _reaped():
                    if ended == pid:
                        code = os.waitstatus_to_exitcode(status)
                        return (128 - code if code < 0 else code), time.time_ns()

    def _drain(self) -> None:
        """Copy the rest of the output. Processes in the background may hold them open: nobody waits for these."""
        for key in list(self._selector.get_map().values()):
            if key.data:
                os.set_blocking(key.fd, False)
                while self._copy(key.fd, key.data):
                    pass
        for stream in ("stdout", "stderr"):
            self._log.write(stream, b"", ended=True)

    def _copy(self, fd: int, stream: str) -> bool:
        """Copy one piece of output. False: there is none now, or no more will come."""
        try:
            text = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: nobody has the terminal open any more
            text = b""
        if not text:
            self._selector.unregister(fd)
            os.close(fd)
            return False
        self._log.write(stream, text)
        return True

    def _clean_up(self) -> None:
        """End the processes that the container left, and remove its control groups."""
        if self._launch["delete"]:
            null = subprocess.DEVNULL
            subprocess.run(self._launch["delete"], cwd="bundle", stdin=null, stdout=null, stderr=null, check=False)
        control_groups.remove(self._launch["control_groups"])
        while True:
            with open("/proc/thread-self/children", "rb") as file:
                children = file.read().split()
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def _mount_overlay(lower: str, layers: str) -> None:
    options = f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
    syscalls.mount("overlay", "bundle/rootfs", 0, "overlay", options)


def _make_layers_in_memory() -> None:
    """Make the overlay's own folders in a tmpfs: an overlay, the root of most containers, cannot hold them itself."""
    os.makedirs(_MEMORY, mode=0o700, exist_ok=True)
    syscalls.mount("tmpfs", _MEMORY, syscalls.MS_NOSUID | syscalls.MS_NODEV, "tmpfs", "mode=700")
    for name in ("upper", "work"):
        os.mkdir(f"{_MEMORY}/{name}")
    status = os.stat("upper")  # the root folder of an overlay has the attributes of its upper layer
    os.chown(f"{_MEMORY}/upper", status.st_uid, status.st_gid)
    os.chmod(f"{_MEMORY}/upper", status.st_mode & 0o7777)


def _nothing(number: int, frame: object) -> None:
    """Handle a signal without any effect."""


def _reaped() -> list[tuple[int, int]]:
    ended = []
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child)
    return ended


def _identity(pid: int) -> dict[str, int]:
    stat = process_stat(pid)
    if stat is None:
        raise _StartError("the process has ended")
    return {"pid": pid, "started": stat.started, "startedAt": time.time_ns()}


def _write_exit(code: int, finished_at: int, reason: str, message: str) -> None:
    _write("exit.json", {"code": code, "finishedAt": finished_at, "reason": reason, "message": message})


def _write(name: str, content: dict[str, Any]) -> None:
    write_whole(name, json.dumps(content).encode(), mode=0o600)
