"""This installation of the suite: where its code is, and which code it is.

A launcher carries the build ID of the code that it would run by itself; the server only serves launchers of the
code that it has loaded. So an upgrade in place never has one half of it answer for the other.
"""

import os
import sys

from fast_stdlib.typing import TYPE_CHECKING, Iterator, NoReturn

if TYPE_CHECKING:
    from .distributions import OtherPlugins

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of our packages."""

PACKAGES = ("fast_stdlib", "skel", "netlink", "firewall", "ipam", "plugins", "launch")
"""Our packages that a plugin's process may import."""

DEFAULT_SOCKET = "/run/cni-harness/server.sock"
"""The path of the server's socket, which the launchers of a default installation ask."""

_REQUIRED = "pyroute2"


def search_path() -> list[str]:
    """Return the folders that `sys.path` needs for our packages and their dependencies.

    Raises ValueError when one is not installed.
    """
    from importlib.util import find_spec

    spec = find_spec(_REQUIRED)
    if spec is None or spec.origin is None:
        message = f"{_REQUIRED} is not installed for {sys.executable}"
        raise ValueError(message)
    return list(dict.fromkeys([ROOT, os.path.dirname(os.path.dirname(spec.origin))]))


def set_path(others: "OtherPlugins") -> str:
    """Return the statement, after `import sys`, by which an interpreter finds our modules and those of the others.

    Theirs come last, so that no module in the folder of an editable installation hides one of the standard library.
    Raises ValueError as `search_path` does.
    """
    ours = search_path()
    theirs = [folder for folder in others.folders() if folder not in ours]
    return f"sys.path[:0] = {ours!r}" + (f"; sys.path += {theirs!r}" if theirs else "")


def command(module: str) -> list[str]:
    """Return the command that runs `main` of one of our modules, whatever surrounds it; arguments may follow.

    Raises ValueError as `search_path` does.
    """
    from .distributions import declared

    program = f"import sys; {set_path(declared())}; from {module} import main; sys.exit(main())"
    return [sys.executable, "-IS", "-c", program]


def plugin_names() -> list[str]:
    """Return the names of all executables: our plugins', then those of other distributions.

    Raises ValueError for a name that two have.
    """
    from . import PLUGINS
    from .distributions import declared

    return [*PLUGINS, *sorted(declared().plugins)]


def modules() -> Iterator[str]:
    """Yield the names of all our modules but for packages, which these bring, and programs (`__main__`).

    Raises OSError.
    """
    for path in _sources():
        name, _ = os.path.splitext(os.path.relpath(path, ROOT))
        if not os.path.basename(name).startswith("__"):
            yield name.replace(os.sep, ".")


def build_id() -> bytes:
    """Return 16 bytes that change when the code, its interpreter or its place change. Raises OSError, ValueError.

    The content of the files counts, not their times, which some ways of copying an installation change. The code of
    other distributions' plugins counts, too.
    """
    from hashlib import blake2b

    from .distributions import declared

    others = declared()
    digest = blake2b(digest_size=16)
    for part in (os.path.realpath(sys.executable), sys.version, *search_path(), *_releases(), repr(others)):
        digest.update(os.fsencode(part) + b"\0")
    for path in (*_sources(), *others.sources()):
        with open(path, "rb") as file:
            source = file.read()
        digest.update(b"%b\0%d\0%b" % (os.fsencode(path), len(source), source))
    return digest.digest()


def stamp(others: "OtherPlugins | None" = None) -> tuple[object, ...]:
    """Return what differs as soon as a file of the installation has been touched: cheaper to compare than build IDs.

    The files of `others`, of those that are declared if it is None, count, and so does a distribution that comes or
    goes. Raises OSError, as when the installation is just being replaced or has gone.
    """
    from .distributions import announced, declared

    known = declared() if others is None else others
    statuses = [(path, os.stat(path)) for path in (*_sources(), *known.sources())]
    touched = [(path, status.st_mtime_ns, status.st_size, status.st_ino) for path, status in statuses]
    return (*touched, *_releases(), *announced())


def _sources() -> Iterator[str]:
    for package in PACKAGES:
        yield from python_files(os.path.join(ROOT, package))


def python_files(folder: str) -> Iterator[str]:
    """Yield the paths of all files of Python in a folder and below it. Raises OSError."""
    for place, folders, files in os.walk(folder, onerror=_fail):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(place, name) for name in sorted(files) if name.endswith(".py"))


def _fail(error: OSError) -> NoReturn:
    raise error


def _releases() -> Iterator[str]:
    """The metadata folders of our dependencies: their names have the versions in them."""
    for folder in search_path():
        for name in sorted(os.listdir(folder)):
            if name.startswith(f"{_REQUIRED}-") and name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(folder, name)
