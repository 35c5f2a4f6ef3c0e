"""noop: does nothing, for nodes whose pods use the host's network alone; with a debug file, a test double.

As the only plugin of a list it answers ADD with an empty result, in a chain with the previous result. All other verbs
succeed. (The reference then prints `{}` for every verb. That lacks the version that SPEC.md section 5 requires in a
result, and loses the previous result. With CNI_ARGS but no DEBUG in it, the reference stops with a panic.)

`DEBUG=PATH` in CNI_ARGS or `debugFile` in the configuration names a debug file. The file sets noop's report, and noop
writes its call into the file. The keys are the same as for the reference's noop, so that tests run with either:

- `ReportResult` is printed as it is. PASSTHROUGH prints the previous result, INJECT-DNS does so with a name server.
- `ReportError` and `ReportErrorCode` are reported as an error, `ReportStderr` on stderr.
- `ReportVersionSupport` replaces the versions that VERSION lists and other verbs accept. `ExitWithCode` replaces the
  exit code.
- `Command` and `CmdArgs` are written: the verb, the variables, and stdin in base64.

`commandLog` in the configuration names a file to which each such call is appended, as an element of a JSON list.

Without a debug file noop lists all CNI versions. The reference also lists "0.-42.0", for a test of its own. On a real
node the runtime would get a version in which no result can be printed.
"""

import fcntl
import json
import os
from binascii import b2a_base64

from fast_stdlib.contextlib import contextmanager, suppress
from fast_stdlib.typing import Callable, Iterator, Mapping, Sequence
from skel import (
    SUPPORTED,
    Args,
    CniError,
    Code,
    Config,
    Plugin,
    RawAnswer,
    Record,
    Result,
    field,
    integer,
    integer_between,
    list_of,
    raw,
    string,
)
from skel.config import parse_config
from skel.environment import parse_cni_args
from skel.state_file import write_whole
from skel.strict_json import decode_json

_CALLS = list_of(raw)

_NAME_SERVER = "1.2.3.4"  # the reference's value, which its tests expect


class NoopConfig(Config):
    """The keys of noop: paths, both optional."""

    debug_file: str = field(string, default="")
    command_log: str = field(string, default="")


class Debug(Record):
    """The keys of a debug file."""

    report_result: str = field(string, "ReportResult", default="")
    report_error: str = field(string, "ReportError", default="")
    report_error_code: int = field(integer_between(0, 2**64 - 1), "ReportErrorCode", default=0)
    report_stderr: str = field(string, "ReportStderr", default="")
    report_version_support: list[str] | None = field(list_of(string), "ReportVersionSupport", default=None)
    exit_with_code: int = field(integer, "ExitWithCode", default=0)


# All keys, as Go writes them, so that a person who edits the file finds them there.
_ALL_KEYS: dict[str, object] = {
    "ReportResult": "",
    "ReportError": "",
    "ReportErrorCode": 0,
    "ReportStderr": "",
    "ReportVersionSupport": None,
    "ExitWithCode": 0,
}


def add(args: Args[NoopConfig]) -> Result | RawAnswer:
    """Return the debug file's report, or else the previous result. Raises CniError."""
    path = _debug_path(args.cni_args, args.config)
    if path:
        return _report(args, path)
    args.log("no debug file is named by CNI_ARGS or the configuration: doing nothing")
    return args.prev_result or Result()


def act(args: Args[NoopConfig]) -> RawAnswer | None:
    """Return the debug file's report, or do nothing. Raises CniError."""
    path = _debug_path(args.cni_args, args.config)
    return _report(args, path) if path else None


def versions(environ: Mapping[str, str], read_stdin: Callable[[], bytes]) -> Sequence[str]:
    """Return the versions that the debug file lists, or else all versions. Raises CniError.

    VERSION has no configuration, so only DEBUG counts for it.
    """
    verb = environ.get("CNI_COMMAND", "")
    if not verb:
        return SUPPORTED
    # A verb that needs the unreadable key reports it later.
    cni_args: Mapping[str, str] = {}
    with suppress(CniError):
        cni_args = parse_cni_args(environ.get("CNI_ARGS", ""))
    config = NoopConfig()
    if verb != "VERSION":
        tolerate = str if verb == "DEL" else None
        config = NoopConfig.decode(parse_config(read_stdin(), tolerate), tolerate=str)
    path = _debug_path(cni_args, config)
    if not path:
        return SUPPORTED
    with _naming_file("debug file", path):
        listed = Debug.decode(_read_json(path), "Debug").report_version_support
    return SUPPORTED if listed is None else listed


def _debug_path(cni_args: Mapping[str, str], config: NoopConfig) -> str:
    return cni_args.get("DEBUG", config.debug_file)


def _report(args: Args[NoopConfig], path: str) -> RawAnswer:
    """Record the call, then follow the debug file."""
    call: dict[str, object] = {"Command": args.verb, "CmdArgs": _cmd_args(args)}
    with _naming_file("debug file", path), _locked(path):
        debug = Debug.decode(_read_json(path), "Debug")
        _replace(path, _ALL_KEYS | debug.encode() | call, 0o600)
    if args.config.command_log:
        _append(args.config.command_log, call)
    if debug.report_error:
        error = CniError(debug.report_error_code or Code.INTERNAL, debug.report_error)
        return RawAnswer(json.dumps(error.encode(args.config.cni_version)), 1, debug.report_stderr)
    return RawAnswer(_stdout(args, debug.report_result), max(debug.exit_with_code, 0), debug.report_stderr)


def _cmd_args(args: Args[NoopConfig]) -> dict[str, str]:
    """Return the call with the keys of the Go skeleton's CmdArgs."""
    return {
        "ContainerID": args.container_id,
        "Netns": args.netns,
        "IfName": args.ifname,
        "Args": args.environ.get("CNI_ARGS", ""),
        "Path": args.environ.get("CNI_PATH", ""),
        "NetnsOverride": args.environ.get("CNI_NETNS_OVERRIDE", ""),
        "StdinData": b2a_base64(args.stdin, newline=False).decode(),
    }


def _stdout(args: Args[NoopConfig], report: str) -> str:
    if report not in {"PASSTHROUGH", "INJECT-DNS"}:
        return report
    result = args.prev_result
    if result is None:
        if args.verb in {"ADD", "CHECK"}:
            raise CniError(Code.INVALID_CONFIG, f"prevResult: required key is missing, ReportResult is {report}")
        return ""  # the runtime may omit it
    if report == "INJECT-DNS":
        result.dns.nameservers = [_NAME_SERVER]
    return json.dumps(result.encode_as(args.config.cni_version))


def _append(path: str, call: dict[str, object]) -> None:
    """Add `call` to the JSON list in the file at `path`, which may be missing or empty."""
    with _naming_file("command log", path), _locked(path):
        exists = os.path.exists(path) and os.path.getsize(path) > 0
        calls = _CALLS(_read_json(path), "CmdLog") if exists else []
        _replace(path, [*calls, call], 0o644)


@contextmanager
def _naming_file(what: str, path: str) -> Iterator[None]:
    """Turn an error of a file into a CniError that names the file; an OSError becomes code 5."""
    try:
        yield
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f"{what} {path}: {error.strerror}") from None
    except CniError as error:
        raise CniError(error.code, f"{what} {path}: {error.msg}") from None


def _read_json(path: str) -> object:
    """Return the file's content. Raises OSError, and CniError (6) if it is not JSON."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return decode_json(content)
    except ValueError as error:
        raise CniError(Code.DECODING_FAILURE, f"not JSON: {error}") from None


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lock the folder of the file at `path` against other noop processes, which may run at the same time."""
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace(path: str, content: object, mode: int) -> None:
    """Replace the file atomically; an existing file keeps its owner and mode. Raises OSError."""
    path = os.path.realpath(path)
    before = None
    with suppress(FileNotFoundError):
        before = os.stat(path)
    write_whole(path, json.dumps(content).encode(), mode=mode, like=before, durable=True)


PLUGIN = Plugin(
    "noop",
    config=NoopConfig,
    add=add,
    check=act,
    delete=act,
    gc=act,
    status=act,
    repair=act,
    env_args=None,
    versions=versions,
    version="0.7.0",
)
