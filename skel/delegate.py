"""Delegation: an interface plugin calls its IPAM plugin (SPEC.md section 4).

The delegate is found on CNI_PATH and gets the same environment and the same
configuration. One that the call's context can find in this process is called here,
through the same dispatcher that its process would run: same behaviour, no start-up.
"""

import os
from time import monotonic, sleep

import fast_stdlib
from fast_stdlib.typing import Any, Mapping, TypeVar

from .config import Config
from .decoders import integer, string
from .dispatch import Call, Outcome, dispatch, outcome_of
from .environment import TRACE, missing_variables
from .errors import CniError, Code
from .interruption import Interruption
from .plugin import Args, Plugin
from .record import Record, field
from .result import IPConfig, Result
from .strict_json import decode_output
from .versions import at_least

C = TypeVar("C", bound=Config)


_IPAM_CALLS = {"ADD": "Add", "DEL": "Del", "CHECK": "Check", "STATUS": "Status"}
"""The ends of the names that the functions of libcni's package `ipam` have, for spans."""


class _Reported(Record):
    """The error that a delegate printed (SPEC.md section 5)."""

    code: int = field(integer)
    msg: str = field(string, default="")
    details: str = field(string, default="")


def ipam_add(args: Args[C]) -> Result:
    """Have the delegate reserve addresses; when it fails, its DEL is called before its error is raised.

    Raises CniError: the delegate's own, or 6 and 7 where its result is unusable.
    """
    path = _find(args)
    try:
        return _addresses(args.config.ipam.type, _call(path, args, "ADD"))
    except BaseException:
        with args.interruption.shielded():
            try:
                _call(path, args, "DEL")
            except Exception as error:  # noqa: BLE001 -- the ADD's error is the one to report
                args.log(f"DEL of {args.config.ipam.type} after its failed ADD: {error}")
        raise


def ipam_delete(args: Args[C]) -> None:
    """Have the delegate release its reservations. Raises its CniError."""
    _call(_find(args), args, "DEL")


def ipam_check(args: Args[C]) -> None:
    """Ask the delegate whether its reservation stands. Raises its CniError."""
    _call(_find(args), args, "CHECK")


def ipam_gc(args: Args[C]) -> None:
    """Forward GC to the delegate, as SPEC.md section 2 demands. Raises its CniError."""
    _call(_find(args), args, "GC")


def ipam_status(args: Args[C]) -> None:
    """Ask the delegate whether it can serve an ADD. Raises its CniError, or 50 if the delegate is missing."""
    try:
        path = _find(args)
    except CniError as error:
        raise CniError(Code.NOT_AVAILABLE, error.msg, error.details) from None
    _call(path, args, "STATUS")


def find_in_path(name: str, folders: list[str]) -> str:
    """Return the executable called `name` in the first of `folders` that has it.

    Raises CniError (7) for a name that is none (SPEC.md section 1, `type`) or that is not there.
    """
    if not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise CniError(Code.INVALID_CONFIG, f'invalid plugin name "{name}"')
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise CniError(Code.INVALID_CONFIG, f'failed to find plugin "{name}" in CNI_PATH "{":".join(folders)}"')


def _find(args: Args[C]) -> str:
    """Return the delegate's executable. Raises CniError: 4 without CNI_PATH, 7 if no folder of it has the delegate."""
    if not args.path:
        raise missing_variables(["CNI_PATH"])
    return find_in_path(args.config.ipam.type, args.path)


def _call(path: str, args: Args[C], verb: str) -> Outcome | Result:
    """Run the delegate and pass its log on; return its result if it made one in this process.

    Raises CniError if the delegate fails.
    """
    name = args.config.ipam.type
    environ = {**args.environ, "CNI_COMMAND": verb}
    plugin = args.context.find_plugin(path)
    if traced := environ.get(TRACE):
        outcome = _reported(traced, path, environ, args, plugin)
    elif plugin is not None:
        # A DEL reads it again: its log names the keys that it does without.
        parsed = args.parsed if verb == "ADD" else None
        answer = Call(plugin, environ, lambda: args.stdin, args.log, args.context, parsed).run(_as_printed)
        if isinstance(answer, CniError):
            try:
                raise answer
            finally:
                del answer  # its traceback has this frame
        if isinstance(answer, Result):
            return answer
        outcome = outcome_of(answer)
    else:
        outcome = _execute(path, environ, args.stdin, args.interruption)
    for line in outcome.stderr.decode(errors="replace").splitlines():
        args.log(line)
    if outcome.code != 0:
        raise _failure(name, outcome)
    return outcome


def _as_printed(result: Result, version: str) -> Result:
    """Return the addresses, routes and DNS settings as after printing and reading: the plugin keeps its own objects.

    Before 0.3.0 a result has one address a family.
    """
    if not at_least(version, "0.3.0"):
        return Result.decode_any(result.encode_as(version))
    return Result(ips=[IPConfig(**vars(ip)) for ip in result.ips], routes=list(result.routes), dns=result.dns)


def _reported(file: str, path: str, environ: dict[str, str], args: Args[C], plugin: Plugin[Any] | None) -> Outcome:
    """Run the delegate, in this process if it is `plugin`, and report it to `file`."""
    from .trace import report

    begin = monotonic()
    verb = environ["CNI_COMMAND"]
    stdin = args.stdin.decode(errors="replace")
    with fast_stdlib.span(f"ipam.Exec{_IPAM_CALLS.get(verb, verb)}", waits=plugin is None, path=path, stdin=stdin):
        if (recorder := fast_stdlib.recorder()) is not None:
            environ["TRACEPARENT"] = recorder.traceparent()
        if plugin is not None:
            outcome = dispatch(plugin, environ, lambda: args.stdin, args.context)
        else:
            outcome = _execute(path, environ, args.stdin, args.interruption)
        fast_stdlib.span_note(stdout=outcome.stdout.decode(errors="replace"), exit_code=outcome.code)
        if outcome.code != 0:
            fast_stdlib.span_note(error=str(_failure(args.config.ipam.type, outcome)))
    report(file, path=path, environ=environ, stdin=args.stdin, outcome=outcome, seconds=monotonic() - begin)
    return outcome


def _execute(path: str, environ: Mapping[str, str], stdin: bytes, interruption: Interruption) -> Outcome:
    import subprocess  # 7 ms that only a foreign delegate costs

    from .program import start_program

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(environ)
        )

    def pause(seconds: float) -> None:
        with interruption.waiting():
            sleep(seconds)

    try:
        process = start_program(start, pause)
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f"executing {path}: {error.strerror}") from None
    with process:
        try:
            with interruption.waiting():
                stdout, stderr = process.communicate(stdin)
        except BaseException:
            process.kill()  # whoever called it calls its DEL
            raise
    return Outcome(stdout, stderr, process.returncode)


def _failure(name: str, outcome: Outcome) -> CniError:
    """Return the delegate's own error, or one made from its exit if it printed none."""
    try:
        reported = _Reported.decode(decode_output(outcome.stdout))
    except (ValueError, CniError):
        how = f"signal {-outcome.code}" if outcome.code < 0 else f"exit code {outcome.code}"
        return CniError(Code.INTERNAL, f"IPAM plugin {name} failed with {how}", outcome.stdout.decode(errors="replace"))
    return CniError(reported.code, reported.msg, reported.details)


def _addresses(name: str, answer: Outcome | Result) -> Result:
    result = answer if isinstance(answer, Result) else _read(name, answer.stdout)
    for ip in result.ips:
        ip.interface = None  # an IPAM plugin knows of no interfaces (SPEC.md section 4), whatever it says
    if not result.ips:
        raise CniError(Code.INVALID_CONFIG, f"IPAM plugin {name} returned no addresses")
    return result


def _read(name: str, stdout: bytes) -> Result:
    try:
        printed = decode_output(stdout)
    except ValueError as error:
        raise CniError(Code.DECODING_FAILURE, f"IPAM plugin {name} printed no result: {error}") from None
    return Result.decode_any(printed, f"result of {name}")
