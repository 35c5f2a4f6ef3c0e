"""A plugin is a declaration: its name, its configuration, a function for each verb. A call has arguments and a context.

The context says how signals end the call, which plugins run in its process, and which sockets are open already.
"""

from fast_stdlib.typing import Any, Callable, Generic, Mapping, NamedTuple, Protocol, Sequence, TypeVar, cast

from .config import Config
from .interruption import Interruption
from .result import Result
from .versions import SUPPORTED

C = TypeVar("C", bound=Config)

ReadStdin = Callable[[], bytes]


class Closable(Protocol):
    """An open socket or file, or an object that owns some."""

    def fileno(self) -> int:
        """Return its file descriptor."""

    def close(self) -> None:
        """Close it."""


K = TypeVar("K", bound=Closable)

FindPlugin = Callable[[str], "Plugin[Any] | None"]
"""Return the plugin that the executable at a path runs, if it can run in this process too; None to execute the file."""


class OpenSockets:
    """Sockets and the own network namespace, open from one call to the next, by name. Their owner closes them.

    A worker of the server keeps them for calls from its own network namespace. All other calls get empty ones, which
    are closed after the call.
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
        return {each.fileno() for each in self._open.values()}

    def close(self) -> None:
        """Close everything."""
        while self._open:
            self._open.popitem()[1].close()


class Context:
    """How signals end a call, which delegates run in this process, and which sockets are open already."""

    __slots__ = ("_later", "find_plugin", "interruption", "is_sound", "open_sockets")

    def __init__(
        self,
        interruption: Interruption | None = None,
        find_plugin: FindPlugin = lambda _: None,
        open_sockets: OpenSockets | None = None,
    ) -> None:
        """By default no signal ends the call, all delegates are executed, and nothing is open."""
        self.interruption = interruption or Interruption()
        self.find_plugin = find_plugin
        self.open_sockets = open_sockets or OpenSockets()
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


class RawAnswer(NamedTuple):
    """An answer printed exactly as it is, with its exit code: for test doubles such as noop."""

    stdout: str = ""
    exit_code: int = 0
    stderr: str = ""
    """Follows the log."""


class Args(Generic[C]):
    """The parameters of one invocation (SPEC.md section 2, "Parameters"), read and checked."""

    def __init__(  # noqa: PLR0913 -- the parameters of a call, each by its name
        self,
        *,
        verb: str,
        config: C,
        environ: Mapping[str, str],
        stdin: bytes,
        log: Callable[[str], None],
        cni_args: Mapping[str, str] | None = None,
        prev_result: Result | None = None,
        context: Context | None = None,
        parsed: dict[str, object] | None = None,
    ) -> None:
        self.verb = verb
        self.config = config
        self.environ = environ
        self.stdin = stdin
        self.parsed = parsed
        """The JSON object on stdin, if a dispatcher made these arguments. Delegates get it, too: do not change it."""
        self.log = log
        """Write one line to stderr; the dispatcher adds the container ID and the trace ID."""
        self.cni_args = dict(cni_args or {})
        self.prev_result = prev_result
        self.context = context or Context()
        self.container_id = environ.get("CNI_CONTAINERID", "")
        self.netns = environ.get("CNI_NETNS", "")
        self.ifname = environ.get("CNI_IFNAME", "")
        self.path = [folder for folder in environ.get("CNI_PATH", "").split(":") if folder]

    @property
    def interruption(self) -> Interruption:
        """How a signal ends the call: wait for others in `with args.interruption.waiting():`."""
        return self.context.interruption

    @property
    def open_sockets(self) -> OpenSockets:
        """Sockets in the process's own network namespace that stay open for the next call."""
        return self.context.open_sockets


Add = Callable[[Args[C]], Result | RawAnswer]
Act = Callable[[Args[C]], RawAnswer | None]
Versions = Callable[[Mapping[str, str], ReadStdin], Sequence[str]]


class Plugin(Generic[C]):
    """A plugin: `add` returns a result, the others return when all is well; each raises when it is not.

    A verb without a function succeeds and does nothing, as with the Go skeleton. REPAIR is not in the specification:
    without `repair` it is an unknown verb.
    """

    def __init__(  # noqa: PLR0913 -- a declaration, read top to bottom
        self,
        name: str,
        *,
        config: type[C],
        add: Add[C],
        delete: Act[C],
        check: Act[C] | None = None,
        gc: Act[C] | None = None,
        status: Act[C] | None = None,
        repair: Act[C] | None = None,
        env_args: Sequence[str] | None = (),
        versions: Sequence[str] | Versions = SUPPORTED,
        version: str = "0.1.0",
    ) -> None:
        """Declare a plugin.

        `repair` puts back what other programs have removed of an attachment: firewall rules, the host's links and
        routes. `args` are as of CHECK, with prevResult. It changes nothing that is in order, and leaves the pod alone.
        `env_args` are the keys of CNI_ARGS that it knows; others need IgnoreUnknown=1.
        Without any, CNI_ARGS is not read. None lets all pairs through. `versions` are those of the
        specification that it supports, `version` is its own.
        """
        self.name = name
        self.config = config
        self.add = add
        self.acts: dict[str, Act[C] | None] = {
            "DEL": delete,
            "CHECK": check,
            "GC": gc,
            "STATUS": status,
            "REPAIR": repair,
        }
        self.env_args = env_args
        self.versions = versions
        self.version = version

    @property
    def about(self) -> str:
        """The line that runtimes parse for a plugin's release (nerdctl: `CNI firewall plugin v1.x.y`)."""
        return f"CNI {self.name} plugin v{self.version}"
