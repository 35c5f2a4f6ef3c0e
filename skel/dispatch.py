"""From an environment and a configuration to a plugin's answer.

`dispatch` is a pure function of its arguments. The process (skel.process), in-process delegation, the tests and the
server all call it.
"""

from fast_stdlib import json, span
from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Generic, Mapping, NamedTuple, Sequence, TypeVar

from .config import Config, check_name, parse_config, version_of
from .environment import (
    TRACE,
    is_own_descriptor,
    is_own_namespace,
    own_namespace_error,
    parse_cni_args,
    read_verb,
    select_cni_args,
)
from .errors import CniError, Code, text_of, whereabouts
from .interruption import InterruptionError
from .plugin import Args, Context, Plugin, RawAnswer, ReadStdin
from .record import rendered
from .result import Result
from .versions import CURRENT, VERB_SINCE, at_least, parse

C = TypeVar("C", bound=Config)
T = TypeVar("T")

_FUNCTIONS = {
    "ADD": "cmdAdd",
    "DEL": "cmdDel",
    "CHECK": "cmdCheck",
    "GC": "cmdGC",
    "STATUS": "cmdStatus",
    "REPAIR": "cmdRepair",
}
"""The names of the verbs' functions in plugins in Go, for spans."""


class Outcome(NamedTuple):
    """The outcome of a plugin's process: at most one JSON document, log lines, an exit code."""

    stdout: bytes
    stderr: bytes
    code: int


def dispatch(
    plugin: Plugin[C], environ: Mapping[str, str], read_stdin: ReadStdin, context: Context | None = None
) -> Outcome:
    """Carry out the verb that `environ` asks for. Never raises: failures are in the outcome.

    `context` stays the caller's, who calls `finish` when the answer is out. Without it the call gets one of its own,
    which is finished and closed at its end.
    """
    if context is None:
        context = Context()
        try:
            return dispatch(plugin, environ, read_stdin, context)
        finally:
            context.finish()
            context.open_sockets.close()
    if environ.get(TRACE):
        from .trace import recorded

        return recorded(plugin.name, environ, lambda: _dispatch(plugin, environ, read_stdin, context))
    return _dispatch(plugin, environ, read_stdin, context)


def _dispatch(plugin: Plugin[C], environ: Mapping[str, str], read_stdin: ReadStdin, context: Context) -> Outcome:
    lines: list[str] = []
    call = Call(plugin, environ, read_stdin, lines.append, context)
    answer = call.run(_rendered)
    if isinstance(answer, CniError):
        answer = RawAnswer(_document(answer.encode(call.version)), 1)
    return outcome_of(answer, lines)


def outcome_of(answer: RawAnswer, lines: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a process with that answer and these log lines."""
    stderr = "\n".join([*lines, answer.stderr])
    return Outcome(_bytes(answer.stdout), _bytes(stderr), answer.exit_code)


class Call(Generic[C]):
    """One invocation, and the version that its errors are rendered in as soon as it is known."""

    def __init__(
        self,
        plugin: Plugin[C],
        environ: Mapping[str, str],
        read_stdin: ReadStdin,
        write: Callable[[str], None],
        context: Context,
        parsed: dict[str, object] | None = None,
    ) -> None:
        """Begin a call; `write` gets each line of its log. `parsed` is the JSON object on stdin, if it is known."""
        self.plugin = plugin
        self.environ = environ
        self.log = _logger(plugin.name, environ, write)
        self.context = context
        self._stdin = read_stdin
        self._parsed = parsed
        self.version = CURRENT
        self.flaw: CniError | None = None
        """The error in the network's name, raised at the end of a DEL."""

    def run(self, finish: Callable[[Result, str], T]) -> T | RawAnswer | CniError:
        """Carry the verb out. Never raises: failures are returned.

        Of an ADD it returns what `finish` makes of the result and the configuration's version.
        """
        try:
            answer = self._answer()
            return finish(answer, self.version) if isinstance(answer, Result) else answer
        except CniError as error:
            # Their frames have the caller's, which has the error: a cycle, and a worker collects those when it rests.
            error.__context__ = error.__traceback__ = None
            return error
        except InterruptionError as error:
            self.context.is_sound = False
            return CniError(Code.INTERNAL, str(error))
        # SystemExit too: a plugin that exits by itself must not look like one that succeeded. And KeyboardInterrupt:
        # the runtime needs the one document of an ADD that was cut off, too.
        except BaseException as error:  # noqa: BLE001 -- the last line of defence, and it reports
            if not isinstance(error, OSError):  # the kernel or a file refused: the message names the attempt
                self.context.is_sound = False
                self.log(f"unforeseen {type(error).__name__} {whereabouts(error)}")
            return CniError(Code.INTERNAL, text_of(error))

    def _read_stdin(self) -> bytes:
        with self.context.interruption.waiting():
            return self._stdin()

    def _answer(self) -> Result | RawAnswer:
        asked = self.environ.get("CNI_COMMAND")
        if not asked:  # a call by hand
            versions = ", ".join(_versions(self.plugin, self.environ, self._stdin))
            return RawAnswer(stderr=f"{self.plugin.about}\nCNI protocol versions supported: {versions}\n")
        if asked == "REPAIR":
            if self.plugin.acts["REPAIR"] is None:
                message = 'unknown CNI_COMMAND: "REPAIR"'
                raise CniError(Code.INVALID_ENVIRONMENT, message, f"{self.plugin.name} has no repair")
            if not self.environ.get("CNI_CONTAINERID"):
                from .repairs import repair_listed

                if (repaired := repair_listed(self.plugin, self.environ, self._read_stdin(), self.context)) is not None:
                    return repaired
        verb = read_verb(self.environ)
        if verb == "VERSION":
            stdin = b""
            with suppress(OSError):
                stdin = self._read_stdin()
            supported = _versions(self.plugin, self.environ, lambda: stdin)
            return RawAnswer(_document({"cniVersion": _version_asked(stdin), "supportedVersions": list(supported)}))
        if is_own_descriptor(self.environ):
            netns = self.environ["CNI_NETNS"]
            message = f'CNI_NETNS: "{netns}" is a file descriptor of the plugin itself'
            details = "/proc/PID/fd/N names the same file in every process"
            return self._refuse_namespace(verb, CniError(Code.INVALID_ENVIRONMENT, message, details))
        if verb in {"ADD", "DEL", "REPAIR"} and is_own_namespace(self.environ, self.context.open_sockets):
            return self._refuse_namespace(verb, own_namespace_error(self.environ))
        args = self._args(verb, self.environ)
        with span(_FUNCTIONS[verb], network=_readable_name(args.config)):
            return self._carried_out(args)

    def _refuse_namespace(self, verb: str, refusal: CniError) -> RawAnswer:
        """Raise `refusal`; a DEL first releases everything outside of the pod. Return only the DEL's own failure."""
        args = self._args(verb, {**self.environ, "CNI_NETNS": ""})  # that namespace is left as it is
        if verb == "DEL":
            answer = self._carried_out(args)
            if isinstance(answer, RawAnswer) and answer.exit_code != 0:
                return answer
        raise refusal

    def _carried_out(self, args: Args[C]) -> Result | RawAnswer:
        if args.verb == "ADD":
            made = self.plugin.add(args)
            return made if isinstance(made, Result) else _verbatim(made, "a Result", args.verb)
        act = self.plugin.acts[args.verb]
        done = act(args) if act else None
        if self.flaw is not None:
            raise self.flaw
        return RawAnswer() if done is None else _verbatim(done, "None", args.verb)

    def _args(self, verb: str, environ: Mapping[str, str]) -> Args[C]:
        try:
            stdin = self._read_stdin()
        except OSError as error:
            raise CniError(Code.IO_FAILURE, f"reading the network configuration from stdin: {error}") from None
        parsed = self._parsed
        if parsed is None:
            parsed = parse_config(stdin, self._tolerate if verb == "DEL" else None)
        # Before anything else of the configuration: the version says how to answer, even to an error.
        self._check_version(verb, version_of(parsed), stdin)
        try:
            check_name(parsed)
        except CniError as error:
            if verb != "DEL":
                raise
            self.flaw = error
        # A bad key that DEL and GC do not need must not keep them from removing state.
        tolerate = self._tolerate if verb in {"DEL", "GC"} else None
        config = self.plugin.config.decode(parsed, tolerate=tolerate)
        if self.flaw is not None:
            config.mark_unreadable("name", self.flaw)
        return Args(
            verb=verb,
            config=config,
            environ=environ,
            stdin=stdin,
            log=self.log,
            cni_args=self._cni_args(verb),
            prev_result=self._prev_result(verb, config),
            context=self.context,
            parsed=parsed,
        )

    def _tolerate(self, error: CniError) -> None:
        self.log(f"ignoring a key that cannot be read: {error.msg}")

    def _cni_args(self, verb: str) -> dict[str, str]:
        known, text = self.plugin.env_args, self.environ.get("CNI_ARGS")
        if not text or (known is not None and not known):
            return {}
        try:
            pairs = parse_cni_args(text)
            return pairs if known is None else select_cni_args(pairs, known)
        except CniError as error:
            if verb not in {"DEL", "GC"}:
                raise
            self._tolerate(error)
            return {}

    def _check_version(self, verb: str, version: str, stdin: bytes) -> None:
        parse(version)
        supported = _versions(self.plugin, self.environ, lambda: stdin)
        if (version or "0.1.0") not in supported:
            details = f"config is {rendered(version)}, plugin supports {rendered(list(supported))}"
            raise CniError(Code.INCOMPATIBLE_VERSION, "incompatible CNI versions", details)
        self.version = version or "0.1.0"
        since = VERB_SINCE.get(verb, "")
        if since and not at_least(version, since):
            details = f"config is {rendered(version)}, {verb} came with {since}"
            raise CniError(Code.INCOMPATIBLE_VERSION, f"config version does not allow {verb}", details)

    def _prev_result(self, verb: str, config: Config) -> Result | None:
        if config.raw_prev_result is None:
            return None
        try:
            result = Result.decode_any(config.raw_prev_result)
            result.check_indices()
        except CniError as error:
            if verb in {"ADD", "CHECK", "REPAIR"}:
                raise
            # DEL is best effort (SPEC.md section 2): a broken record must not keep a pod from going.
            self.log(f"ignoring an unreadable prevResult: {error}")
            return None
        return result


def _rendered(result: Result, version: str) -> RawAnswer:
    return RawAnswer(_document(result.encode_as(version)))


def _version_asked(stdin: bytes) -> str:
    """Return the cniVersion on stdin, which VERSION repeats (SPEC.md section 5); ours if it has none."""
    with suppress(CniError):
        version = version_of(parse_config(stdin))
        parse(version)
        return version or CURRENT
    return CURRENT


def _versions(plugin: Plugin[C], environ: Mapping[str, str], read_stdin: ReadStdin) -> Sequence[str]:
    return plugin.versions(environ, read_stdin) if callable(plugin.versions) else plugin.versions


def _verbatim(returned: object, due: str, verb: str) -> RawAnswer:
    """Return a RawAnswer as it is. Raises TypeError for any other value: it had to be `due`."""
    if not isinstance(returned, RawAnswer):
        message = f"{verb} returned {type(returned).__name__} where {due} was due"
        raise TypeError(message)
    return returned


def _readable_name(config: Config) -> str:
    """Return the network's name; empty if a DEL or GC does without it."""
    try:
        return config.name
    except CniError:
        return ""


def _logger(name: str, environ: Mapping[str, str], write: Callable[[str], None]) -> Callable[[str], None]:
    """Return the function that writes a log line, labelled for a search in a node's journal."""
    labels = []
    if container_id := environ.get("CNI_CONTAINERID"):
        labels.append(f"containerID={container_id}")
    trace = environ.get("TRACEPARENT", "").split("-")
    if len(trace) > 1:
        labels.append(f"traceID={trace[1]}")

    def log(message: str) -> None:
        # One event, one line; and a delegate that ran in this process has put its labels on already.
        new = [label for label in labels if label not in message]
        write(" | ".join(" ".join([f"{name}:", message, *new]).splitlines()))

    return log


def _document(value: dict[str, object]) -> str:
    return json.dumps(value, default=str) + "\n"


def _bytes(text: str) -> bytes:
    """Return `text` as bytes: those of the environment as they were, half a surrogate pair (JSON has them) escaped."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
