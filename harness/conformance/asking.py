"""Requests to a plugin: a runtime's request, as harness.libcni.request derives it, with the changes of a check."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypedDict

from harness.conformance.subject import Subject
from harness.libcni.attachment import Attachment
from harness.libcni.execute import inherited
from harness.libcni.request import request_config
from harness.runtime.kubernetes import pod_cni_args

ABSENT: Final = object()
"""In place of a value: the key, or the variable, is absent."""


class Container(NamedTuple):
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


def environment_of(verb: str, container: Container | None, cni_path: str, changes: Changes) -> dict[str, str]:
    """Return all of the environment, with the changes laid over it."""
    variables: dict[str, object] = {**inherited(), "CNI_COMMAND": verb, "CNI_PATH": cni_path}
    variables |= attachment_of(container).environment()
    variables |= changes.get("environ", {})
    return {name: str(value) for name, value in variables.items() if value is not ABSENT}


def config_of(
    subject: Subject,
    verb: str,
    container: Container | None,
    valid: Sequence[Container] | None,
    changes: Changes,
) -> bytes:
    """Return the configuration of a request, with the changes laid over it; these name a version and a prevResult."""
    version = changes["version"]
    ordinary = request_config(
        replace(subject.network, cni_version=version),
        subject.plugin,
        attachment=attachment_of(container) if container else None,
        valid_attachments=None if valid is None else [(each.container_id, each.ifname) for each in valid],
    )
    request: dict[str, object] = {"cniVersion": version} if verb == "VERSION" else json.loads(ordinary)
    request["prevResult"] = changes["prev_result"]
    request |= changes.get("config", {})
    present = {key: value for key, value in request.items() if value is not ABSENT}
    return json.dumps(present, separators=(",", ":")).encode()


def attachment_of(container: Container | None) -> Attachment:
    """Return the attachment of a container, as containerd asks for one; an empty attachment for None."""
    if container is None:
        return Attachment(container_id="", netns="", ifname="")
    container_id = container.container_id
    pod = pod_cni_args("default", f"pod-{container_id[:8]}", container_id, container_id[:32])
    return Attachment(container_id, container.netns, container.ifname, cni_args=tuple(pod.items()))
