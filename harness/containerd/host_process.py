"""The image-less mode: a command on the node's files, in the namespaces of a pod. A program, as `runc` is one.

`create FILE` makes the process and writes its PID into the file `../pid`; it ends when the process runs. `exec`
runs another one beside it and ends with its exit code. Errors go to a log in the form of `runc --log-format json`.
"""

import errno
import fcntl
import json
import os
import signal
import socket
import sys
import termios
from collections.abc import Callable
from typing import Any, Final, NoReturn

from fast_stdlib import syscalls
from harness.containerd.host_root import enter_host_root
from skel.state_file import write_whole

_FAILED: Final = 255
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38  # include/uapi/linux/prctl.h
_NAMESPACES: Final = ("net", "ipc", "uts", "mnt", "pid")


def main(verb: str, file: str, log: str) -> NoReturn:
    """Run `create` or `exec`; `file` is a document (harness.containerd.container_launch), whose `process` is OCI's."""
    with open(file, "rb") as opened:
        spec = json.load(opened)
    with open(log, "w") as errors:  # now: `exec` moves to other files
        try:
            code = _create(spec) if verb == "create" else _execute(spec)
        except (OSError, _ProcessError) as error:
            json.dump({"level": "error", "msg": str(error)}, errors)
            code = _FAILED
    sys.exit(code)


class _ProcessError(Exception):
    """The process could not be made or executed."""


def _create(spec: dict[str, Any]) -> int:
    for path in spec["join"].values():
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise OSError(errno.ENOENT, "the sandbox's namespace is gone", path) from None
        syscalls.setns(descriptor, 0)
        os.close(descriptor)
    if spec["new_pid_namespace"]:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    pid, failed = _forked(lambda: _become(spec))
    write_whole("../pid", str(pid).encode(), mode=0o600)
    if failed:
        raise _ProcessError(failed)
    return 0


def _become(spec: dict[str, Any]) -> NoReturn:
    _join_control_groups(spec)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(spec["process"]["oomScoreAdj"]))
    if spec["process"]["terminal"]:
        _open_terminal()
    else:
        os.setsid()
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", syscalls.MS_SLAVE | syscalls.MS_REC)
    enter_host_root(os.path.dirname(os.getcwd()), spec["mounts"], readonly=spec["readonly_root"])
    _run(spec)


def _open_terminal() -> None:
    """Take a new terminal, and give its other end to the shim, as runc does (docs/terminals.md)."""
    master, slave = os.openpty()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("../console.sock")
        socket.send_fds(connection, [b"pty"], [master])
    os.close(master)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for stream in range(3):
        os.dup2(slave, stream)


def _execute(spec: dict[str, Any]) -> int:
    """Run a command in the namespaces and with the root of a container's first process; return its exit code."""
    folder = f"/proc/{spec['pid']}"
    root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    opened = [os.open(f"{folder}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _NAMESPACES]
    _join_control_groups(spec)
    for descriptor in opened:
        syscalls.setns(descriptor, 0)
        os.close(descriptor)
    os.fchdir(root)
    os.chroot(".")

    for number in (signal.SIGINT, signal.SIGQUIT):  # of a terminal: they are for the command
        signal.signal(number, lambda *_: None)
    pid, failed = _forked(lambda: _run(spec, ends_with_parent=True))
    if failed:
        os.waitpid(pid, 0)
        raise _ProcessError(failed)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 128 - code if code < 0 else code


def _forked(become: Callable[[], NoReturn]) -> tuple[int, str]:
    """Call `become` in a new process; return its PID, and the error's text, empty once it executes a program."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        try:
            become()
        except (OSError, _ProcessError) as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(_FAILED)
    os.close(writing)
    with open(reading, "rb") as pipe:
        return pid, pipe.read().decode()


def _run(spec: dict[str, Any], *, ends_with_parent: bool = False) -> NoReturn:
    """Take the rights and the folder of the process, and execute its program."""
    process = spec["process"]
    user, arguments = process["user"], process["args"]
    for capability in spec["dropped_capabilities"]:
        syscalls.prctl(_PR_CAPBSET_DROP, capability)
    os.umask(0o022)
    os.makedirs(process["cwd"], exist_ok=True)
    os.chdir(process["cwd"])
    os.setgroups(user["additionalGids"])
    os.setgid(user["gid"])
    os.setuid(user["uid"])
    if process["noNewPrivileges"]:
        syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if ends_with_parent:
        syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # now: a change of the user undoes it
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        environment = dict(pair.split("=", 1) for pair in process["env"])
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606 -- a command without a shell
    except FileNotFoundError:
        place = "no such file or directory" if "/" in arguments[0] else "executable file not found in $PATH"
        raise _ProcessError(f'exec: "{arguments[0]}": {place}') from None
    except OSError as error:
        raise _ProcessError(f'exec: "{arguments[0]}": {(error.strerror or "").lower()}') from None


def _join_control_groups(spec: dict[str, Any]) -> None:
    for folder in spec["control_groups"]:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write("0")
