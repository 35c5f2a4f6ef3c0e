"""The CNI_* variables: which verb needs which, and how each is checked (SPEC.md section 2, "Parameters")."""

import os

from lean.typing import Callable, Mapping, NamedTuple, Sequence

from .errors import CniError, Code
from .names import check_container_id, check_ifname
from .plugin import Kept

_OWN_DESCRIPTORS = ("/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", "/dev/stdin")

TRACE = "CNI_HARNESS_TRACE"
"""The variable that names the file for reports (skel.trace)."""

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "REPAIR")
"""Those of the specification, and REPAIR, which is this project's own (docs/repair.md)."""

_ATTACHMENT = frozenset({"ADD", "CHECK", "DEL", "REPAIR"})


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
    _Variable("CNI_ARGS", frozenset()),
    _Variable("CNI_PATH", frozenset({"GC"})),
    _Variable("CNI_NETNS_OVERRIDE", frozenset()),
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


def is_own_namespace(environ: Mapping[str, str], kept: Kept, opened: int | None = None) -> bool:
    """Tell whether CNI_NETNS is the network namespace of this thread, and CNI_NETNS_OVERRIDE does not allow it.

    `kept` is the call's. `opened` is the open namespace: its path may name another file by now.
    """
    netns = environ.get("CNI_NETNS", "")
    if not netns or environ.get("CNI_NETNS_OVERRIDE", "").lower() in {"1", "true"}:
        return False
    try:
        theirs = os.stat(netns if opened is None else opened)
        ours = os.fstat(kept.get("own namespace", OwnNamespace).fileno())
    except OSError:
        return False  # gone, or no namespace: for DEL that is fine, and ADD says so when it opens it
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def own_namespace_error(environ: Mapping[str, str]) -> CniError:
    """Return the error (8) of a CNI_NETNS that is the plugin's own network namespace."""
    message = f'CNI_NETNS: "{environ.get("CNI_NETNS", "")}" is the network namespace of the plugin itself'
    return CniError(Code.INVALID_NETNS, message)
