"""Kernel parameters of a pod, by their names in a configuration.

All functions that read or write one are to be called in the pod's network namespace (`netlink.namespace.entered`).
"""

import errno

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Final, Iterator, Mapping, NamedTuple
from netlink.sysctl import read_sysctl, set_sysctl
from skel import CniError, Code

ALLOW_LIST: Final = "/etc/cni/tuning/allowlist.conf"
"""Regular expressions, one a line. If the file is missing, all parameters below net. are allowed."""
_IFNAME: Final = "IFNAME"
"""Stands for the name of the pod's interface."""
_PER_INTERFACE: Final = ("conf", "neigh")
_LEAST_PARTS = 5
"""net, ipv4, conf, an interface, a name."""
_SWAPPED: Final = str.maketrans("./", "/.")


class Parameter(NamedTuple):
    """A kernel parameter and its value in the configuration."""

    key: str
    """Its name in the configuration."""
    path: str
    """Below /proc/sys."""
    value: str
    previous: str | None
    """Its value now; None if it cannot be read."""

    @property
    def is_as_wanted(self) -> bool:
        """Whether it has the value; white space between numbers does not count."""
        return self.previous is None or self.previous.split() == self.value.split()

    def write(self) -> None:
        """Set the value. Raises CniError: 7 if the kernel refuses the value."""
        try:
            set_sysctl(self.path, self.value)
        except OSError as error:
            code = Code.INVALID_CONFIG if error.errno in {errno.EINVAL, errno.ERANGE} else Code.INTERNAL
            raise CniError(code, f'sysctl.{self.key}: cannot set "{self.value}": {error.strerror}') from None


def check_allowed(wanted: Mapping[str, str], allow_list: str = ALLOW_LIST) -> None:
    """Raise CniError (7) for a parameter that no line of the allow-list matches, as it is written."""
    if not wanted:
        return
    try:
        with open(allow_list, "rb", buffering=0) as file:
            lines = file.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return
    import re

    patterns = [line.strip() for line in lines if line.strip()]
    for key, value in wanted.items():
        try:
            if any(re.search(pattern, key) for pattern in patterns):
                continue
        except re.error as error:
            message = f'{allow_list}: "{error.pattern!s}" is no regular expression: {error}'
            raise CniError(Code.INVALID_CONFIG, message) from None
        raise CniError(Code.INVALID_CONFIG, f'sysctl.{key}: {allow_list} does not allow it, got "{value}"')


def parameters(wanted: Mapping[str, str], ifname: str) -> list[Parameter]:
    """Return the parameters and their present values. Raises CniError (7) for one that is missing or not below net."""
    return [_found(key, value, ifname) for key, value in wanted.items()]


def restore(previous: Mapping[str, str], log: Callable[[str], None]) -> None:
    """Set parameters, by their paths, to values that they had. One that the kernel refuses is logged."""
    for path, value in previous.items():
        try:
            with suppress(FileNotFoundError):  # its interface is gone
                if read_sysctl(path) != value:
                    set_sysctl(path, value)
        except OSError as error:
            log(f'cannot restore {path} to "{value}": {error.strerror}')


def _found(key: str, value: str, ifname: str) -> Parameter:
    for path in dict.fromkeys(_spellings(key)):
        parts = path.split("/")
        if parts[0] != "net" or len(parts) == 1 or not {"", ".", ".."}.isdisjoint(parts):
            raise CniError(Code.INVALID_CONFIG, f'sysctl.{key}: expected a parameter below "net.", got "{value}"')
        own = path.replace(_IFNAME, ifname, 1)
        try:
            return Parameter(key, own, value, read_sysctl(own))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return Parameter(key, own, value, None)  # some can only be written, or are folders: then writing fails
    raise CniError(Code.INVALID_CONFIG, f'sysctl.{key}: this kernel has no such parameter, got "{value}"')


def _spellings(key: str) -> Iterator[str]:
    """Yield the paths that a name may stand for.

    First as sysctl(8) reads it: the first separator counts, and the other one is a dot in a name. Then as the reference
    does: every dot and slash separates. Last with an interface whose name has dots.
    """
    separators = [letter for letter in key if letter in "./"]
    yield key.translate(_SWAPPED) if separators[:1] == ["."] else key
    yield key.replace(".", "/")
    parts = key.replace("/", ".").split(".")
    if len(parts) > _LEAST_PARTS and parts[2] in _PER_INTERFACE:
        yield "/".join([*parts[:3], ".".join(parts[3:-1]), parts[-1]])
