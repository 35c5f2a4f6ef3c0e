"""The executable behind every plugin name (as busybox does): one file, told apart by its name.

It has the server run the plugin (launch/server), and runs it itself if no server does. There are two of it:
the compiled launch/launcher.c, into whose bytes the settings of this installation are written here, and the same in
Python, if that was not built or does not run.

Either names its interpreter by an absolute path, because `env python3` finds a different one under each runtime, and
skips `site` (-S) and the caller's environment (-I): the folders that it needs are written into it.
"""

# Without the names that `signal` gives its numbers, which take longer than all that is needed of it here.
import _signal  # type: ignore[import-not-found] # it has no stubs
import os
import sys

from fast_stdlib.typing import TYPE_CHECKING, Mapping

from .installation import DEFAULT_SOCKET, ROOT, build_id, set_path

if TYPE_CHECKING:
    from skel.config import Config
    from skel.plugin import Plugin

_COMPILED = os.path.join(ROOT, "launch", "_launcher")
"""Built from launcher.c by setup.py, if a compiler is installed."""
_ELF = b"\x7fELF"
_COMMON = "# cni-harness: every plugin is this file, told apart by its name. "
"""A line that the launchers of every installation have."""
_COMMON_WITHIN = 4096
"""Bytes from a launcher's start or end in which that line is."""
_SHEBANG_MAX = 255
"""Bytes of a first line that the kernel reads (BINPRM_BUF_SIZE since Linux 5.1)."""
_SOCKET_MAX = 107
"""Bytes of a socket's path (unix(7)), without the NUL."""
_TIMEOUT = 2.0
"""Seconds that a launcher waits in the server's queue; being refused takes no time."""

# struct settings of launcher.c.
_MARKER = b"cni-harness launcher 1\n\0"
_STRINGS_MAX = 4092
_NOT_INSTALLED = 121
"""Exit code of a compiled launcher without its settings."""


_NOT_STARTED = (
    "except (ImportError, MemoryError, OSError) as error:",  # of the imports: the dispatcher answers to all others
    "    text = f'the plugin cannot start: {type(error).__name__}: {error}'",
    "    text = ''.join(sign for sign in text if sign.isprintable() and sign not in '\"\\\\')",
    '    posix.write(1, f\'{{"cniVersion": "1.1.0", "code": 5, "msg": "{text}"}}\\n\'.encode(errors=\'replace\'))',
    "    posix._exit(1)",
)
"""The end of the program: modules cannot be loaded if no file can be opened (EMFILE), so it does without."""


def _head() -> bytes:
    """Return the lines that tell this installation's launchers from any other's: the compiled one ends with them."""
    return os.fsencode(f"#!{_interpreter()} -IS\n{_COMMON}{ROOT}\n")


def _interpreter() -> str:
    """Return the interpreter's path for a first line, of the file behind a link where the kernel could not read that.

    Which of them it is makes no difference: the folders that it needs are written into the launcher.
    """
    if _fits_first_line(sys.executable):
        return sys.executable
    behind = os.path.realpath(sys.executable)
    return behind if _fits_first_line(behind) else sys.executable


def _fits_first_line(path: str) -> bool:
    return len(os.fsencode(f"#!{path} -IS")) <= _SHEBANG_MAX and path.split() == [path]


def launcher_bytes(*, socket: str | None = None, timeout: float = _TIMEOUT) -> bytes:
    """Return the launcher's content for this installation: compiled if that runs, otherwise in Python.

    It asks the server at the path `socket`, by default at the server's default path; "" is never
    to ask any. It executes a call itself that is not accepted within `timeout` seconds. Raises
    ValueError for a value that a launcher cannot hold.
    """
    compiled = compiled_launcher(socket=socket, timeout=timeout)
    return launcher_text(socket=socket, timeout=timeout) if compiled is None else compiled


def compiled_launcher(*, socket: str | None = None, timeout: float = _TIMEOUT) -> bytes | None:
    """Return the content of the compiled launcher, as `launcher_bytes` does; None if it does not run here."""
    if not _runs(_COMPILED):
        return None
    with open(_COMPILED, "rb") as file:
        binary = file.read()
    path = _socket_path(socket)
    if '"' in sys.executable or "\\" in sys.executable or not sys.executable.isprintable():
        message = f"{sys.executable!r}: an interpreter's path must be fit for an error in JSON"
        raise ValueError(message)
    strings = b"".join(os.fsencode(string) + b"\0" for string in (path, sys.executable, _program("sys.argv[1]")))
    if len(strings) > _STRINGS_MAX:
        message = f"{len(strings)} bytes of paths; a launcher has room for {_STRINGS_MAX}"
        raise ValueError(message)
    before, marker, after = binary.partition(_MARKER)
    settings = build_id() + _milliseconds(timeout).to_bytes(4, sys.byteorder) + strings
    # The compiler leaves zeros in the place of the settings.
    if not marker or _MARKER in after or any(after[: len(settings)]):
        message = f"{_COMPILED} is not what launcher.c compiles to"
        raise ValueError(message)
    return before + marker + settings + after[len(settings) :] + _head()


def launcher_text(*, socket: str | None = None, timeout: float = _TIMEOUT) -> bytes:
    """Return the content of the launcher in Python, as `launcher_bytes` does.

    Raises ValueError also when the interpreter's path cannot stand in a first line.
    """
    if not _fits_first_line(_interpreter()):
        message = f'"{sys.executable}": an interpreter\'s path must be short and without white space'
        raise ValueError(message)
    path = _socket_path(socket)
    question = (path, build_id(), _milliseconds(timeout) / 1000) if path else None
    return _head() + os.fsencode(_program("sys.argv[0]", question))


def _program(name: str, question: tuple[str, bytes, float] | None = None) -> str:
    """Return the program of the interpreter; `name` is the expression for the plugin's.

    The plugins of other distributions are named in it, so that no plugin's process looks for them.
    """
    from .distributions import declared

    others = declared()
    # A process of milliseconds: collecting garbage on the way and taking the interpreter apart at the end are a fifth
    # of its time.
    lines = []
    if question is not None:
        lines += [
            "from launch.client import hand_over",
            f"code = None if sys.argv[1:2] == ['daemon'] else hand_over({name}, *{question!r})",
            "if code is not None:",
            "    posix._exit(code)",
        ]
    lines += [
        "read = b''",
        "if posix.environ.get(b'CNI_COMMAND') == b'VERSION':",
        "    from launch.version import answer",
        f"    read, code = answer({name})",
        "    if code is not None:",
        "        posix._exit(code)",
        "from launch.launcher import main",
        f"posix._exit(main({name}, {others.plugins!r}, read))",
    ]
    before = [
        "import _signal, gc, posix, sys",
        # Python's own handler would print a traceback, and nothing has been done yet.
        "if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:",
        "    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)",
        "gc.disable()",
        "try:",
        f"    {set_path(others)}",
    ]
    return "\n".join([*before, *(f"    {line}" for line in lines), *_NOT_STARTED, ""])


def _socket_path(socket: str | None) -> str:
    path = DEFAULT_SOCKET if socket is None else socket
    if "\0" in path or len(os.fsencode(path)) > _SOCKET_MAX or (path and not os.path.isabs(path)):
        message = f'"{path}": a socket\'s path must be absolute and of at most {_SOCKET_MAX} bytes'
        raise ValueError(message)
    return path


def _milliseconds(timeout: float) -> int:
    # Nothing would be no limit at all, to the kernel.
    return max(1, round(timeout * 1000))


def _runs(path: str) -> bool:
    """Tell whether this machine executes the compiled launcher."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        silence = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (1, 2)]
        child = os.posix_spawn(path, [path], {}, file_actions=silence)
    except OSError:
        return False
    finally:
        os.close(null)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == _NOT_INSTALLED


def is_ours(path: str) -> bool:
    """Tell whether the file at `path` would run this very installation."""
    head = _head()
    return _read_lines(path, len(head)) == head


def is_any_launcher(path: str) -> bool:
    """Tell whether the file at `path` is a launcher, of this installation or of another one."""
    return f"\n{_COMMON}".encode() in _read_lines(path, _COMMON_WITHIN)


def _read_lines(path: str, size: int) -> bytes:
    """Return `size` bytes of the part of a launcher that has its lines: the end, if it is compiled; b"" on an error."""
    try:
        with open(path, "rb", buffering=0) as file:
            part = file.read(size)
            if part.startswith(_ELF):
                file.seek(-size, os.SEEK_END)  # fails for a smaller file, which is no launcher
                part = file.read(size)
            return part
    except OSError:
        return b""


def find_plugin(path: str, others: Mapping[str, str] | None = None) -> "Plugin[Config] | None":
    """Return the plugin that the file at `path` would run with this very installation; None for any other file.

    `others` are the plugins of other distributions, as for `launch.plugin_list.load`.
    """
    from . import PLUGINS
    from .plugin_list import load

    name = os.path.basename(path)
    return load(name, others) if (name in PLUGINS or name in (others or {})) and is_ours(path) else None


def main(path: str, others: Mapping[str, str] | None = None, read: bytes = b"") -> int:
    """Run the plugin that the launcher's file name names, as this process; return its exit code.

    An unknown name is 1, and a line on stderr. `others` are the plugins of other distributions, as for
    `launch.plugin_list.load`. `read` is the beginning of stdin, which `launch.version` has read. Nothing is left in a
    buffer: the process may end at once.
    """
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # no traceback: nothing has been done yet
    _restore_locale()
    name = os.path.basename(path)
    _take_name(name)
    # Only now: a signal or a look at the process may come while these are loaded.
    from fast_stdlib.contextlib import suppress
    from fast_stdlib.functools import partial
    from skel.process import main as run_plugin

    from . import DAEMONS, PLUGINS
    from .plugin_list import load, load_daemon

    others = others or {}
    names = [*PLUGINS, *others]
    # After -c and the name that the compiled launcher gives, or after the script.
    arguments = sys.argv[2 if sys.argv[0] == "-c" else 1 :]
    if name in DAEMONS and arguments[:1] == ["daemon"]:
        code = load_daemon(name)(arguments[1:])
    elif name in names:
        code = run_plugin(load(name, others), partial(find_plugin, others=others), read)
    else:
        code = 1
        if sys.stderr is not None:
            sys.stderr.write(f"{name}: no plugin of cni-harness; there are {', '.join(names)}\n")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.flush()
    return code


def _take_name(name: str) -> None:
    """Set /proc/PID/comm, which is the interpreter's name after an execve; the kernel keeps 15 bytes."""
    try:
        descriptor = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # without /proc
    try:
        os.write(descriptor, os.fsencode(name))
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _restore_locale() -> None:
    """Set LC_CTYPE as it was at the start of this process, for the programs that it executes.

    Python sets it if the locale is C (PEP 538); -E and -I keep PYTHONCOERCECLOCALE from preventing that.
    """
    if b"LC_CTYPE" not in os.environb:
        return
    from fast_stdlib.contextlib import suppress

    with suppress(OSError), open("/proc/self/environ", "rb", buffering=0) as file:
        given = [entry for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
        if given:
            os.environb[b"LC_CTYPE"] = given[0].removeprefix(b"LC_CTYPE=")
        else:
            del os.environb[b"LC_CTYPE"]
