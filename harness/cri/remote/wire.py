"""The messages of the interface on the wire and back: one table for both directions. Also JSON that containerd adds.

A field has the same name on the wire, and so has a value of an enumeration; `_DIFFERENCES` lists the others.
"""

import json
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from harness.cri.remote import api_pb2
from harness.cri.service import RuntimeServiceError
from harness.runtime.pod_record import PodNetwork
from skel.decoders import list_of, record, string
from skel.errors import CniError
from skel.record import Record, field

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Record)
_Descriptor: TypeAlias = Any
"""Of a message or a field: each implementation of protobuf has classes of its own."""


class _Pair(NamedTuple):
    """A field that other fields of the wire stand for: its value as these fields, and its value from the message."""

    fields: Callable[[Any], dict[str, object]]
    value: Callable[[Any], object]


_PROPAGATIONS: Final = {
    "private": api_pb2.PROPAGATION_PRIVATE,
    "rslave": api_pb2.PROPAGATION_HOST_TO_CONTAINER,
    "rshared": api_pb2.PROPAGATION_BIDIRECTIONAL,
}
_OPTIONS: Final = "linux.security_context.namespace_options"
_DIFFERENCES: Final[Mapping[str, Mapping[str, str | _Pair | None]]] = {
    "PodSandboxConfig": {
        "cgroup_parent": "linux.cgroup_parent",
        "sysctls": "linux.sysctls",
        "network": f"{_OPTIONS}.network",
        "pid": f"{_OPTIONS}.pid",
        "ipc": f"{_OPTIONS}.ipc",
        "privileged": "linux.security_context.privileged",
    },
    "PodSandboxStatus": {
        "ips": _Pair(
            lambda ips: {"network": {"ip": "".join(ips[:1]), "additional_ips": [{"ip": ip} for ip in ips[1:]]}},
            lambda status: [each.ip for each in (status.network, *status.network.additional_ips) if each.ip],
        ),
        "network": "linux.namespaces.options.network",
        "info": None,
    },
    "PodSandbox": {"ips": None, "network": None, "info": None},  # of a list
    "ContainerConfig": {"image": "image.image", "resources": "linux.resources", "security": "linux.security_context"},
    "LinuxContainerSecurityContext": {
        "add_capabilities": "capabilities.add_capabilities",
        "drop_capabilities": "capabilities.drop_capabilities",
    },
    "Mount": {
        "propagation": _Pair(
            lambda name: {"propagation": _PROPAGATIONS[name]},
            lambda mount: next(
                (name for name, n in _PROPAGATIONS.items() if n == mount.propagation), mount.propagation
            ),
        )
    },
    "Container": {"image": "image.image"},
    "ContainerStatus": {"pod_sandbox_id": None, "image": "image.image", "user": "user.linux"},
    "Image": {
        "user": _Pair(
            lambda user: {"uid": {"value": int(user)}} if user.isdecimal() else {"username": user},
            lambda image: str(image.uid.value) if image.HasField("uid") else image.username,
        )
    },
}
"""By message of the wire and field of ours: a path on the wire, or a pair, or None for a field that the wire lacks."""


def to_wire(record: Record, kind: type[M]) -> M:
    """Return a record as a message of the wire. Raises ValueError, KeyError for an unknown name of an enumeration."""
    return kind(**_fields(record, kind.DESCRIPTOR))


def from_wire(message: Message, kind: type[R], **lacking: object) -> R:
    """Return a message of the wire as a record; `lacking` are fields that the wire lacks. Raises RuntimeServiceError.

    A message that is absent in it is its field's default; metadata are empty then.
    """
    document = _document(message)
    document.update((_key(name), value) for name, value in lacking.items())
    try:
        return kind.decode(document)
    except CniError as error:
        raise RuntimeServiceError(f"{message.DESCRIPTOR.name}: {error}") from None


def _fields(record: Record, descriptor: _Descriptor) -> dict[str, Any]:
    """Return the fields of a message, with nested messages as dictionaries."""
    differences = _DIFFERENCES.get(descriptor.name, {})
    fields: dict[str, Any] = {}
    for name, value in vars(record).items():
        place = differences.get(name, name)
        if isinstance(place, _Pair):
            fields |= place.fields(value)
        elif place is not None and value is not None:
            *around, own = place.split(".")
            inside, kind = fields, descriptor
            for each in around:
                inside, kind = inside.setdefault(each, {}), kind.fields_by_name[each].message_type
            inside[own] = _wired(value, kind.fields_by_name[own])
    return fields


def _wired(value: object, field: _Descriptor) -> object:
    if isinstance(value, Record):
        return _fields(value, field.message_type)
    if isinstance(value, list):
        return [_wired(each, field) for each in value]
    if isinstance(value, int) and field.message_type is not None:
        return {"value": value}  # an Int64Value, whose absence is not 0
    return value.encode() if isinstance(value, str) and field.type == FieldDescriptor.TYPE_BYTES else value


def _document(message: Message) -> dict[str, object]:
    """Return the fields of a message for `Record.decode`, None for absent messages; it ignores those that it lacks."""
    places: dict[str, str | _Pair | None] = {name: name for name in message.DESCRIPTOR.fields_by_name}
    document = {}
    for name, place in (places | dict(_DIFFERENCES.get(message.DESCRIPTOR.name, {}))).items():
        if isinstance(place, _Pair):
            document[_key(name)] = place.value(message)
        elif place is not None:
            *around, own = place.split(".")
            inside = message
            for each in around:
                inside = getattr(inside, each)
            value = getattr(inside, own)
            # Nothing is required on the wire, and metadata are in our messages.
            absent = isinstance(value, Message) and own != "metadata" and not inside.HasField(own)
            document[_key(name)] = None if absent else _plain(value, inside.DESCRIPTOR.fields_by_name[own])
    return document


def _plain(value: object, field: _Descriptor) -> object:
    if isinstance(value, Message):
        return value.value if isinstance(value, api_pb2.Int64Value) else _document(value)
    if isinstance(value, MutableMapping):
        return dict(value)
    if isinstance(value, MutableSequence):
        return [_plain(each, field) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    return value


def _key(name: str) -> str:
    """Return a field's key in a record's JSON, which is read in any case."""
    return name.replace("_", "")


class _List(Record):
    name: str = field(string, default="")
    source: str = field(string, default="")


class _Network(Record):
    config: _List = field(record(_List), default=_List)
    ifname: str = field(string, "ifName", default="")


class _Lists(Record):
    networks: list[_Network] = field(list_of(record(_Network)), default=list)


def networks(info: Mapping[str, str], capability_args: Mapping[str, object]) -> list[PodNetwork]:
    """Return the networks of a pod with these arguments; none if the runtime's status does not tell them.

    `cniconfig` is go-cni's ConfigResult as JSON, which containerd adds to its verbose status. `Source` is the list's
    own text.
    """
    try:
        listed = _Lists.decode(json.loads(info.get("cniconfig", "{}")))
    except (ValueError, CniError):
        return []
    arguments = dict(capability_args)
    return [
        PodNetwork(name=each.config.name, ifname=each.ifname, config=each.config.source, capability_args=arguments)
        for each in listed.networks
    ]
