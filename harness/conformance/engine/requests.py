"""Requests to a plugin as a runtime makes them, with the changes of a check, and their execution."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from harness.libcni.execute import Execution, execution_of, inherited
from harness.libcni.outcome import printed_json
from harness.libcni.request import ContainerAttachment
from harness.runtime.kubernetes import pod_cni_args
from skel.strict_json import decode_json

ABSENT: Final = object()
"""In place of a value: the key, or the variable, is absent."""
_LINGER: Final = 2.0
"""Seconds for output that is held open after the end."""
_KEPT: Final = 1 << 16
"""Bytes of the output of a plugin that floods: a transcript needs no more."""

CLOSED_STDIN: Final = ("/bin/sh", "-c", 'exec "$0" <&-')
"""A wrapper that executes the next argument without a standard input."""
CLOSED_STDERR: Final = ("/bin/sh", "-c", 'exec "$0" 2>&-')
"""A wrapper that executes the next argument without a standard error."""
FULL_STDOUT: Final = ("/bin/sh", "-c", 'exec "$0" >/dev/full')
"""A wrapper that executes the next argument with a standard output that accepts no bytes."""
LOST_FOLDER: Final = ("/bin/sh", "-c", 'there=$(mktemp -d) && cd "$there" && rmdir "$there" && exec "$0"')
"""A wrapper that executes the next argument in a folder that has been removed."""


class TrialContainer(NamedTuple):
    """A container as plugins know it. `netns` is the path of its network namespace."""

    container_id: str
    ifname: str
    netns: str


class Changes(TypedDict, total=False):
    """The differences between a request and the one that a runtime would send."""

    config: Mapping[str, object]
    """Laid over the keys of the configuration; ABSENT takes one out."""
    environ: Mapping[str, object]
    """Laid over the environment; ABSENT takes a variable out."""
    prev_result: object
    """Instead of the runtime's, ABSENT for none."""
    version: str
    """The cniVersion of the request."""
    stdin: bytes
    """Instead of any configuration."""
    cwd: str
    wrapper: tuple[str, ...]
    """The command that is executed, with the plugin's path as its last argument."""
    stdout: int
    """A descriptor for the plugin's standard output, which is then not read."""
    timeout: float
    """In seconds."""


def environment_of(verb: str, container: TrialContainer | None, cni_path: str, changes: Changes) -> dict[str, str]:
    """Return all of the environment, with the changes laid over it."""
    variables: dict[str, object] = {**inherited(), "CNI_COMMAND": verb, "CNI_PATH": cni_path}
    variables |= attachment_of(container).environment()
    variables |= changes.get("environ", {})
    return {name: str(value) for name, value in variables.items() if value is not ABSENT}


def attachment_of(container: TrialContainer | None) -> ContainerAttachment:
    """Return the attachment of a container, as containerd asks for one; an empty attachment for None."""
    if container is None:
        return ContainerAttachment(container_id="", netns="", ifname="")
    container_id = container.container_id
    pod = pod_cni_args("default", f"pod-{container_id[:8]}", container_id, container_id[:32])
    return ContainerAttachment(container_id, container.netns, container.ifname, cni_args=tuple(pod.items()))


def execute(  # noqa: PLR0913 -- a run, its surroundings and its observer
    path: Path,
    *,
    environ: dict[str, str],
    stdin: bytes,
    timeout: float,
    cwd: str = "/",
    wrapper: tuple[str, ...] = (),
    stdout: int | None = None,
    tick: Callable[[], object] | None = None,
) -> Execution:
    """Execute a plugin and wait, for at most `timeout` seconds. Raises OSError if the execution fails.

    `environ` is its whole environment; `wrapper` is put before the path. `stdout` is a descriptor for the plugin's
    output, which is then not read. `tick` is called about every 25 ms; if it raises, the plugin is killed.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*wrapper, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=environ,
            cwd=cwd,
            umask=0o022,
            bufsize=0,
            process_group=0,
        )

    execution = execution_of(
        start,
        plugin=path.name,
        path=path,
        environ=environ,
        stdin=stdin,
        timeout=timeout,
        linger=_LINGER,
        tick=tick,
    )
    if execution.flooded:
        return replace(execution, stdout=execution.stdout[:_KEPT], stderr=execution.stderr[:_KEPT])
    return execution


@dataclass(frozen=True)
class CorrectedExecution(Execution):
    """An ADD whose result has another cniVersion than the one that the plugin printed."""

    printed: bytes = b""
    """The plugin's output, for findings."""


def corrected(execution: Execution, version: str) -> Execution:
    """Return an ADD with this cniVersion in its result; one without a JSON object as it is."""
    try:
        printed = decode_json(execution.stdout)
    except ValueError:
        return execution
    if not isinstance(printed, dict) or printed.get("cniVersion") == version:
        return execution
    result = json.dumps({**printed, "cniVersion": version}).encode()
    return CorrectedExecution(**{**vars(execution), "stdout": result}, printed=execution.stdout)


def json_object(output: bytes) -> dict[str, object] | None:
    """Return the one JSON object that a plugin printed or got; None for anything else."""
    document = printed_json(output)
    return document if isinstance(document, dict) else None
