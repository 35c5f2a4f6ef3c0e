"""REPAIR of many attachments in one execution: the configuration lists them, as it does for GC.

The key `cni-harness/attachments` is this project's own (docs/repair.md), and CNI_CONTAINERID is not set. The plugin
repairs one listed attachment after the other, each as in an execution of its own; sockets stay open from one to the
next.
"""

from fast_stdlib import json
from fast_stdlib.typing import Any, Mapping, NamedTuple

from .config import parse_config
from .decoders import list_of, raw, record, string
from .dispatch import Outcome, dispatch
from .plugin import Context, Plugin, RawAnswer
from .record import Record, field
from .strict_json import decode_json

LISTED = "cni-harness/attachments"


class _Listed(Record):
    """The parameters of one attachment: those that an execution for it alone has in its variables and on stdin."""

    container_id: str = field(string, "containerID")
    ifname: str = field(string, "ifname")
    netns: str = field(string)
    args: str = field(string, default="")
    runtime_config: object = field(raw, "runtimeConfig", default=None)
    prev_result: object = field(raw, "prevResult", default=None)


class _Request(NamedTuple):
    """The environment and the configuration of an execution for one attachment."""

    environ: Mapping[str, str]
    stdin: bytes


def repair_listed(plugin: Plugin[Any], environ: Mapping[str, str], stdin: bytes, context: Context) -> RawAnswer | None:
    """Repair one attachment after the other, past errors; None if the configuration on stdin lists no attachments.

    Raises CniError: 6 for input that is not JSON, 7 for a list that cannot be read. Raises InterruptionError.
    """
    config = parse_config(stdin)
    if LISTED not in config:
        return None
    listed = list_of(record(_Listed))(config.pop(LISTED), LISTED)
    answers, logged = [], b""
    for each in listed:
        context.interruption.check()
        request = _request(environ, config, each)
        outcome = _repair(plugin, request, context)
        answers.append(_answer_to(request, outcome.stdout if outcome.code else b""))
        logged += outcome.stderr
    return RawAnswer(json.dumps({"attachments": answers}, default=str) + "\n", stderr=logged.decode())


def _repair(plugin: Plugin[Any], request: _Request, context: Context) -> Outcome:
    return dispatch(plugin, request.environ, lambda: request.stdin, context)


def _answer_to(request: _Request, error: bytes) -> dict[str, object]:
    """Return a request's part of the answer: `error` is its error object (SPEC.md section 5), empty for a success."""
    part: dict[str, object] = {
        "containerID": request.environ["CNI_CONTAINERID"],
        "ifname": request.environ["CNI_IFNAME"],
    }
    return {**part, "error": decode_json(error)} if error else part


def _request(environ: Mapping[str, str], config: Mapping[str, object], listed: _Listed) -> _Request:
    own = {"runtimeConfig": listed.runtime_config, "prevResult": listed.prev_result}
    variables = {
        "CNI_CONTAINERID": listed.container_id,
        "CNI_IFNAME": listed.ifname,
        "CNI_NETNS": listed.netns,
        "CNI_ARGS": listed.args,
    }
    stdin = json.dumps({**config, **{key: value for key, value in own.items() if value is not None}})
    return _Request({**environ, **variables}, stdin.encode())
