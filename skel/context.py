"""The context of a call: how signals end it, which plugins run in its process, and which sockets are open already."""

from lean.typing import TYPE_CHECKING, Any, Callable, Protocol, TypeVar, cast

from .interruption import Interruption

if TYPE_CHECKING:
    from .plugin import Plugin


class Closable(Protocol):
    """An open socket or file, or an object that owns some."""

    def fileno(self) -> int:
        """Return its file descriptor."""

    def close(self) -> None:
        """Close it."""


K = TypeVar("K", bound=Closable)

FindPlugin = Callable[[str], "Plugin[Any] | None"]
"""Return the plugin that the executable at a path runs, if it can run in this process too; None to execute the file."""


class Kept:
    """Sockets and the own network namespace, open from one call to the next, by name. Their owner closes them.

    A worker of the server keeps them for calls from its own network namespace. All other calls get an empty `Kept`,
    which is closed after the call.
    """

    def __init__(self) -> None:
        """Begin with nothing open."""
        self._open: dict[str, Closable] = {}

    def get(self, name: str, open_: Callable[[], K]) -> K:
        """Return the socket `name`; `open_` opens it at its first use."""
        if name not in self._open:
            self._open[name] = open_()
        return cast("K", self._open[name])

    def drop(self, name: str) -> None:
        """Close the socket `name`, if it is open: after an error that leaves its state unknown."""
        if name in self._open:
            self._open.pop(name).close()

    def descriptors(self) -> set[int]:
        """Return the file descriptors of all that is open."""
        return {kept.fileno() for kept in self._open.values()}

    def close(self) -> None:
        """Close everything."""
        while self._open:
            self._open.popitem()[1].close()


class Context:
    """How signals end a call, which delegates run in this process, and which sockets are open already."""

    __slots__ = ("_later", "find_plugin", "interruption", "is_sound", "kept")

    def __init__(
        self,
        interruption: Interruption | None = None,
        find_plugin: FindPlugin = lambda _: None,
        kept: Kept | None = None,
    ) -> None:
        """By default no signal ends the call, all delegates are executed, and nothing is open."""
        self.interruption = interruption or Interruption()
        self.find_plugin = find_plugin
        self.kept = kept or Kept()
        self.is_sound = True
        """False after a signal, or an exception that no plugin should raise: the process may be in any state."""
        self._later: list[Callable[[], object]] = []

    def afterwards(self, wait: Callable[[], object]) -> None:
        """Have `wait` called when the answer is out: the kernel still works on the call's changes.

        `wait` raises nothing. It must not be needed by the answer, nor by the next call.
        """
        self._later.append(wait)

    @property
    def is_pending(self) -> bool:
        """Whether `finish` has something to wait for."""
        return bool(self._later)

    def finish(self) -> None:
        """Call the functions given to `afterwards`, in order. The owner of the context does so after the answer."""
        while self._later:
            self._later.pop(0)()
