"""The CNI_* variables: which verb needs which, and how each is checked (SPEC.md section 2, "Parameters").

The characters of container IDs and network names are those of SPEC.md sections 1 and 2; the rules for interface names
are the kernel's (dev_valid_name and dev_get_valid_name in net/core/dev.c): it puts a number in the place of a `%d`, and
takes no other `%`. libcni checks all but that on the runtime's side.
"""

import os

from fast_stdlib.typing import TYPE_CHECKING, Callable, Collection, Mapping, NamedTuple, Sequence

from .errors import CniError, Code

if TYPE_CHECKING:
    from .plugin import OpenSockets

IFNAME_MAX = 15
"""Bytes in an interface name, without the NUL (IFNAMSIZ - 1)."""

# No regular expressions: loading `re` takes 3 ms.
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_OTHERS = _FIRST | frozenset("_.-")
_REFUSED = frozenset("/:%\0")
_RULE = "it must start with a letter or digit, then letters, digits, '_', '.' or '-'"

_OWN_DESCRIPTORS = ("/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", "/dev/stdin")

TRACE = "CNI_HARNESS_TRACE"
"""The variable that names the file for reports (skel.trace)."""

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "REPAIR")
"""Those of the specification, and REPAIR, which is this project's own (docs/repair.md)."""

_ATTACHMENT = frozenset({"ADD", "CHECK", "DEL", "REPAIR"})


def check_container_id(container_id: str) -> None:
    """Raise CniError (4) for a container ID that SPEC.md section 2 does not allow."""
    if not _is_name(container_id):
        message = f'CNI_CONTAINERID: invalid characters in container ID "{container_id}"'
        raise CniError(Code.INVALID_ENVIRONMENT, message, _RULE)


def check_network_name(name: str) -> None:
    """Raise CniError (7) for a network name that SPEC.md section 1 does not allow."""
    if not name:
        raise CniError(Code.INVALID_CONFIG, "name: missing network name")
    if not _is_name(name):
        raise CniError(Code.INVALID_CONFIG, f'name: invalid characters in network name "{name}"', _RULE)


def check_ifname(ifname: str) -> None:
    """Raise CniError (4) for an interface name that the kernel would refuse or change."""
    if flaw := ifname_flaw(ifname):
        raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_IFNAME: invalid interface name "{ifname}"', flaw)


def _is_name(text: str) -> bool:
    return text[:1] in _FIRST and _OTHERS.issuperset(text)


def ifname_flaw(ifname: str) -> str:
    """Return why the kernel would refuse or change an interface name, or nothing."""
    try:
        length = len(ifname.encode())
    except UnicodeEncodeError:  # bytes of the environment that are no UTF-8, and half a surrogate pair in JSON
        return "it is not UTF-8"
    if length > IFNAME_MAX:
        return f"it is longer than {IFNAME_MAX} bytes"
    if ifname in {"", ".", ".."}:
        return "it is empty, . or .."
    if not _REFUSED.isdisjoint(ifname) or ifname.split() != [ifname]:
        return "it contains / or : or % or NUL or white space"
    return ""


def parse_cni_args(text: str) -> dict[str, str]:
    """Return the pairs of CNI_ARGS (`K=V;K=V`, SPEC.md section 2); the last of a repeated key counts.

    Raises CniError (4) that names the pair that is none.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(";") if text else ():
        key, equals, value = pair.partition("=")
        if not key or not equals or "=" in value:
            raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: expected K=V;K=V, got the pair "{pair}"')
        pairs[key] = value
    return pairs


def select_cni_args(pairs: dict[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the pairs that a plugin knows; the others need IgnoreUnknown=1 (CONVENTIONS.md, CNI_ARGS).

    Raises CniError (4) that names every unknown key.
    """
    ignore = pairs.get("IgnoreUnknown", "0").lower()
    if ignore not in {"0", "1", "true", "false"}:
        raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: IgnoreUnknown: expected a boolean, got "{ignore}"')
    unknown = [key for key in pairs if key not in known and key != "IgnoreUnknown"]
    if unknown and ignore in {"0", "false"}:
        raise CniError(Code.INVALID_ENVIRONMENT, f"CNI_ARGS: unknown arguments: {', '.join(unknown)}")
    return {key: value for key, value in pairs.items() if key in known}


class _Variable(NamedTuple):
    name: str
    required: frozenset[str]
    check: Callable[[str], None] | None = None


# The Go skeleton asks for CNI_PATH with every verb. The specification does so for
# GC alone, and some runtimes' clean-up processes call DEL with almost no environment.
_TABLE = (
    _Variable("CNI_CONTAINERID", _ATTACHMENT, check_container_id),
    _Variable("CNI_NETNS", frozenset({"ADD", "CHECK", "REPAIR"})),
    _Variable("CNI_IFNAME", _ATTACHMENT, check_ifname),
    _Variable("CNI_PATH", frozenset({"GC"})),
)


def read_verb(environ: Mapping[str, str]) -> str:
    """Return the verb of an invocation whose variables are fit for it; empty counts as missing.

    Raises CniError (4): one error names all that are missing, or the one that is invalid.
    """
    verb = environ.get("CNI_COMMAND", "")
    if verb and verb not in VERBS:
        raise CniError(Code.INVALID_ENVIRONMENT, f'unknown CNI_COMMAND: "{verb}"', f"it is one of {', '.join(VERBS)}")
    missing = [] if verb else ["CNI_COMMAND"]
    missing += [known.name for known in _TABLE if verb in known.required and not environ.get(known.name)]
    if missing:
        raise missing_variables(missing)
    for known in _TABLE:
        if known.check and verb in known.required:
            known.check(environ[known.name])
    return verb


def missing_variables(names: Sequence[str]) -> CniError:
    """Return the error for variables that are not set, or empty (SPEC.md section 5, code 4)."""
    return CniError(Code.INVALID_ENVIRONMENT, f"required environment variables are missing: {', '.join(names)}")


def is_own_descriptor(environ: Mapping[str, str]) -> bool:
    """Tell whether CNI_NETNS is a path of the plugin's own file descriptors, as `/proc/self/fd/3`.

    Such a path names another file in each process: the server's worker does not have the launcher's descriptors.
    """
    path = os.path.normpath(environ.get("CNI_NETNS", ""))
    return f"/{path.lstrip('/')}".startswith(_OWN_DESCRIPTORS)  # normpath keeps two slashes at the start


class OwnNamespace:
    """The network namespace of the thread that opens it. Raises OSError."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return its file descriptor."""
        return self._fd

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


def is_own_namespace(environ: Mapping[str, str], open_sockets: "OpenSockets", opened: int | None = None) -> bool:
    """Tell whether CNI_NETNS is the network namespace of this thread, and CNI_NETNS_OVERRIDE does not allow it.

    `open_sockets` is the call's. `opened` is the open namespace: its path may name another file by now.
    """
    netns = environ.get("CNI_NETNS", "")
    if not netns or environ.get("CNI_NETNS_OVERRIDE", "").lower() in {"1", "true"}:
        return False
    try:
        theirs = os.stat(netns if opened is None else opened)
        ours = os.fstat(open_sockets.get("own namespace", OwnNamespace).fileno())
    except OSError:
        return False  # gone, or no namespace: for DEL that is fine, and ADD says so when it opens it
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def own_namespace_error(environ: Mapping[str, str]) -> CniError:
    """Return the error (8) of a CNI_NETNS that is the plugin's own network namespace."""
    message = f'CNI_NETNS: "{environ.get("CNI_NETNS", "")}" is the network namespace of the plugin itself'
    return CniError(Code.INVALID_NETNS, message)
