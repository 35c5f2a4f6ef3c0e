"""Each message of the interface goes to the wire and comes back as it was."""

import inspect
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message

from harness.cri import messages
from harness.cri.messages import Container, ContainerMetadata, ContainerStatus, Image, PodSandboxStatus
from harness.cri.remote import api_pb2
from harness.cri.remote.wire import from_wire, to_wire
from harness.cri.service import RuntimeServiceError
from skel.record import Record

_NAMES = {
    "ContainerSecurity": "LinuxContainerSecurityContext",
    "ContainerUser": "LinuxContainerUser",
    "ExecSyncResult": "ExecSyncResponse",
    "Resources": "LinuxContainerResources",
    "RuntimeVersion": "VersionResponse",
}
"""Messages with another name on the wire."""
_KINDS: list[tuple[type[Record], type[Message]]] = [
    *(
        (kind, getattr(api_pb2, _NAMES.get(name, name)))
        for name, kind in inspect.getmembers(messages, inspect.isclass)
        if issubclass(kind, Record) and kind.__module__ == messages.__name__
    ),
    (PodSandboxStatus, api_pb2.PodSandbox),
]
_WORDS = {"protocol": "SCTP", "propagation": "rshared"}
"""Fields with an enumeration on the wire alone."""
_LACKING: dict[type[Message], dict[str, object]] = {
    api_pb2.PodSandboxStatus: {"info": {}},
    api_pb2.PodSandbox: {"info": {}, "ips": [], "network": messages.NamespaceMode.POD},
    api_pb2.ContainerStatus: {"pod_sandbox_id": ""},
}
"""The fields that a message of the wire lacks."""


@pytest.mark.parametrize(("kind", "wired"), _KINDS, ids=lambda each: each.__name__)
def test_each_message_comes_back_from_the_wire_with_all_fields(kind: type[Record], wired: type[Message]) -> None:
    lacking = _LACKING.get(wired, {})
    record = kind(**_values(kind) | lacking)

    sent = wired.FromString(to_wire(record, wired).SerializeToString())

    assert record == from_wire(sent, kind, **lacking)
    assert len(_KINDS) > 20


def _values(kind: type[Record]) -> dict[str, Any]:
    """Return a value for each field that is not its default."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_")}
    return {name: _WORDS.get(name) or _value(name, hint) for name, hint in hints.items()}


def _value(name: str, hint: Any) -> object:
    inner = [each for each in get_args(hint) if each is not NoneType]
    if get_origin(hint) is list:
        return [_value(name, inner[0]), _value(f"{name}2", inner[0])]
    if get_origin(hint) is dict:
        return {name: "ä"}
    if inner:
        return _value(name, inner[0])
    if issubclass(hint, Record):
        return hint(**_values(hint))
    if issubclass(hint, StrEnum):
        return list(hint)[-1]
    return {str: f"{name} ö", int: 2 + len(name), bool: True}[hint]


def test_messages_without_any_field_set_are_defaults() -> None:
    config = from_wire(api_pb2.ContainerConfig(), messages.ContainerConfig)
    status = from_wire(api_pb2.PodSandboxStatus(), PodSandboxStatus)

    assert messages.ContainerConfig(metadata=ContainerMetadata(name="")) == config
    assert (status.state, status.network, status.ips) == ("SANDBOX_READY", "POD", [])


@pytest.mark.parametrize(("user", "field"), [("0", "uid"), ("1000", "uid"), ("web", "username")])
def test_the_user_of_an_image_is_a_number_or_a_name(user: str, field: str) -> None:
    sent = to_wire(Image(id="sha256:1", user=user), api_pb2.Image)

    assert [each.name for each, _ in sent.ListFields()] == ["id", field]
    assert from_wire(sent, Image).user == user


def test_a_number_without_a_name_is_an_error_that_names_the_field() -> None:
    unknown = api_pb2.Container(state=9)  # type: ignore[arg-type]  # of a later version of the interface

    with pytest.raises(RuntimeServiceError, match=r"Container: state: .*9"):
        from_wire(unknown, Container)


def test_output_that_is_no_text_is_replaced() -> None:
    answer = api_pb2.ExecSyncResponse(stdout=b"one\xff", exit_code=3)

    found = from_wire(answer, messages.ExecSyncResult)

    assert (found.stdout, found.stderr, found.exit_code) == ("one\ufffd", "", 3)


@pytest.mark.parametrize("around", [api_pb2.ContainerUser(), None])
def test_no_user_is_told_by_older_runtimes(around: api_pb2.ContainerUser | None) -> None:
    status = from_wire(api_pb2.ContainerStatus(user=around), ContainerStatus, pod_sandbox_id="")

    assert status.user is None
