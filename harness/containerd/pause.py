"""The pause process of a sandbox: it holds the sandbox's namespaces and reaps zombies; it does nothing else.

A program: `pause NETNS HOSTNAME KINDS ID [NAME=VALUE...]` (harness.containerd.processes). NETNS is the path of a
network namespace, empty for the caller's. KINDS are those of `ipc`, `uts` and `pid`, joined by commas, that the sandbox
has for itself. ID is the sandbox's, by which its process can be found. NAME is a kernel parameter, set in the
namespaces. The program prints the process ID of the pause process, which is a child of init, and ends.
"""

import os
import signal
import socket

from fast_stdlib import syscalls

_CLONE_NEW = {"ipc": 0x08000000, "uts": 0x04000000, "pid": 0x20000000}  # include/uapi/linux/sched.h


def main(netns: str, hostname: str, kinds: str, _: str, *settings: str) -> None:
    """Make the namespaces, start the pause process in them, and print its process ID."""
    if netns:
        fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        syscalls.setns(fd, syscalls.CLONE_NEWNET)
        os.close(fd)
    own = [kind for kind in kinds.split(",") if kind]
    flags = 0
    for kind in own:
        flags |= _CLONE_NEW[kind]
    if flags:
        syscalls.unshare(flags)
    if hostname and "uts" in own:
        socket.sethostname(hostname)
    for setting in settings:  # /proc/sys shows those of the reader's network and IPC namespaces
        name, _, value = setting.partition("=")
        with open(f"/proc/sys/{name.replace('.', '/')}", "w") as file:
            file.write(value)
    pid = os.fork()
    if pid:
        print(pid, flush=True)  # noqa: T201 - the answer to the caller
        os._exit(0)
    _pause()


def _pause() -> None:
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    syscalls.set_process_name(b"pause")
    # As process 1 of a PID namespace it gets only the signals that it waits for.
    awaited = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while signal.sigwait(awaited) == signal.SIGCHLD:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue
    os._exit(0)
