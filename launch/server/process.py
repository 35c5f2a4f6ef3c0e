"""A process of the server: its log on stderr, and its name in /proc/PID/comm and in the command line that ps shows."""

import os
from contextlib import suppress

from lean.syscalls import set_process_name

COMM_BYTES = 15
"""The kernel's limit for /proc/PID/comm (TASK_COMM_LEN without the NUL)."""

# /proc/PID/stat, counted from the first field after the name in parentheses (proc(5): arg_start is field 48).
_ARG_START, _ARG_END = 48 - 3, 49 - 3


def name_process(name: str, detail: str = "") -> None:
    """Name this process `name`, of at most 15 bytes; its command line becomes `name: detail`.

    A process without /proc keeps its command line. Raises nothing.
    """
    set_comm(name)
    with suppress(OSError):
        _set_command_line(f"{name}: {detail}" if detail else name)


def set_comm(name: str) -> None:
    """Name this process `name`, of at most 15 bytes, and leave its command line. Raises nothing."""
    with suppress(OSError):
        set_process_name(name.encode()[:COMM_BYTES])


def _set_command_line(text: str) -> None:
    """Overwrite the arguments in this process's memory, as setproctitle(3) of BSD does."""
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read().rpartition(b")")[2].split()
    start, size = int(fields[_ARG_START]), int(fields[_ARG_END]) - int(fields[_ARG_START])
    if size <= 0:
        return
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        # The last byte stays NUL: otherwise the kernel reads on into the environment.
        os.pwrite(memory, os.fsencode(text)[: size - 1].ljust(size, b"\0"), start)
    finally:
        os.close(memory)


def log(message: str) -> None:
    """Write one line. Raises nothing."""
    with suppress(OSError):
        os.write(2, f"cni-harness server: {message}\n".encode("utf-8", "backslashreplace"))
