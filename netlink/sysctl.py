"""Kernel parameters of the calling thread's network namespace."""

import os

# net/ below is /proc/thread-self's view: the namespace of the *opening thread*, also within `entered`.
_ROOT = "/proc/sys"


def read_sysctl(key: str) -> str:
    """Return the value of `key`, such as "net/ipv4/ip_forward", without white space around it. Raises OSError."""
    fd = os.open(f"{_ROOT}/{key}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).decode().strip()
    finally:
        os.close(fd)


def list_sysctls(folder: str) -> list[str]:
    """Return the names in `folder`, such as "net/ipv4/conf", whose names are those of links. Raises OSError."""
    return os.listdir(f"{_ROOT}/{folder}")


def write_sysctl(key: str, value: str) -> None:
    """Set `key` to `value`, unless that is its value already (which works on a read-only /proc/sys too).

    Raises OSError.
    """
    if read_sysctl(key) != value:
        set_sysctl(key, value)


def set_sysctl(key: str, value: str) -> None:
    """Set `key` to `value`, whatever it is: for a parameter that has another value as a rule. Raises OSError."""
    fd = os.open(f"{_ROOT}/{key}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
