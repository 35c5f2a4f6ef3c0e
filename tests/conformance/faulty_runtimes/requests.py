"""Faults in single requests."""

import os
from typing import Any

from tests.conformance.faulty_runtimes.fault import Fault, Request, spoiled

_OF_CONTAINERS = "ADD DEL CHECK"
_EVERY = "ADD DEL CHECK GC STATUS"


def _sets(name: str, value: str) -> Any:
    def spoil(request: Request) -> None:
        request.environ[name] = value

    return spoil


def _writes(key: str, value: object) -> Any:
    def spoil(request: Request) -> None:
        request.document[key] = value

    return spoil


def _drops(key: str) -> Any:
    def spoil(request: Request) -> None:
        request.document.pop(key, None)

    return spoil


def _gives_first_a_result(request: Request) -> None:
    if request.is_first:
        request.document["prevResult"] = {"cniVersion": "1.1.0", "interfaces": []}


def _forgets_routes(request: Request) -> None:
    request.document.get("prevResult", {}).pop("routes", None)


def _adds_a_capability(request: Request) -> None:
    request.document.setdefault("runtimeConfig", {})["mac"] = "02:00:00:00:00:01"


def _forgets_a_capability(request: Request) -> None:
    if request.is_first:
        del request.document["runtimeConfig"]["dns"]


def _changes_a_nested_field(request: Request) -> None:
    del request.document["witnessEmpty"]["null"]


def _gives_a_relative_path(request: Request) -> None:
    request.environ["CNI_NETNS"] = os.path.relpath(request.environ["CNI_NETNS"])


def _gives_another_namespace(request: Request) -> None:
    request.environ["CNI_NETNS"] = "/proc/self/ns/net"


def _goes_inside(request: Request) -> None:
    request.inside = True


def _writes_garbage_behind(request: Request) -> None:
    request.suffix = b"{}"


def _lists_a_stranger(request: Request) -> None:
    request.document["cni.dev/valid-attachments"].append({"containerID": "stranger", "ifname": "eth0"})


_GC = "witness-no-check"

FAULTS: list[Fault] = [
    spoiled("add-no-prev-result", "ADD", _gives_first_a_result),
    spoiled("add-prev-result", "ADD", _forgets_routes),
    spoiled("capabilities-removed", _OF_CONTAINERS, _writes("capabilities", {"portMappings": True})),
    spoiled("check-parameters", "CHECK", _sets("CNI_ARGS", "IgnoreUnknown=1")),
    spoiled("check-prev-result", "CHECK", _drops("prevResult")),
    spoiled("cni-args", _OF_CONTAINERS, _sets("CNI_ARGS", "neither key nor value")),
    spoiled("cni-path", "STATUS", _sets("CNI_PATH", "/nonexistent")),
    spoiled("command", "STATUS", _sets("CNI_COMMAND", "READY")),
    spoiled("container-id", _OF_CONTAINERS, _sets("CNI_CONTAINERID", "-container")),
    spoiled("del-configuration", "DEL", _writes("WitnessCase", "lower"), also="fields-unchanged"),
    spoiled("del-parameters", "DEL", _sets("CNI_ARGS", "")),
    spoiled("del-prev-result", "DEL", _drops("prevResult")),
    spoiled("fields-only", _EVERY, _writes("extra", 1)),
    spoiled("fields-unchanged", _EVERY, _changes_a_nested_field),
    spoiled("gc-lists-existing", "GC", _lists_a_stranger, _GC),
    spoiled("gc-no-attachment", "GC", _sets("CNI_IFNAME", "eth0"), _GC),
    spoiled("gc-valid-attachments", "GC", _drops("cni.dev/valid-attachments"), _GC),
    spoiled("ifname", _OF_CONTAINERS, _sets("CNI_IFNAME", "an interface")),
    spoiled("name-inserted", _EVERY, _writes("name", "other")),
    spoiled("netns-constant", "DEL", _gives_another_namespace, also="del-parameters networking-domain"),
    spoiled("netns-path", _OF_CONTAINERS, _gives_a_relative_path),
    spoiled("networking-domain", "CHECK", _goes_inside),
    spoiled("runtime-config-filtered", _OF_CONTAINERS, _adds_a_capability),
    spoiled("runtime-config-inserted", _OF_CONTAINERS, _forgets_a_capability, "witness-errors"),
    spoiled("status-no-attachment", "STATUS", _sets("CNI_CONTAINERID", "container")),
    spoiled("stdin-one-object", "VERSION", _writes_garbage_behind, also="version-input"),
    spoiled("variables-set", "GC", _sets("CNI_PATH", ""), _GC, also="cni-path"),
    spoiled("verb-in-version", "STATUS", _writes("cniVersion", "1.0.0"), also="version-highest"),
    spoiled("version-input", "VERSION", _drops("cniVersion")),
    spoiled("version-inserted", "STATUS", _drops("cniVersion"), also="verb-in-version version-highest"),
]
"""A runtime for each, in the order of the checks."""
