"""One manifest in the built-in runtime and in containerd: the same calls, the same states, the same executions.

Legitimate differences, which `_executions` and `_told` remove:

- IDs, times, MAC addresses, names of veths, of network namespaces and of files for messages are new in each pod. The
  folder /var/run is /run.
- containerd runs its loopback list in parallel with the others at ADD, and before them at DEL.
- containerd repeats all DELs without a namespace when a stopped sandbox is removed.
- containerd's capability arguments have the names of Go's fields, which plugins read in any case. It sends zeros for a
  direction without a bandwidth.
- Go writes empty `dns`, and libcni 1.1 leaves `capabilities` in the request.
- Both stop the containers of a pod in parallel, and remove them in the order of the runtime's list.
- containerd before 2.0 does not tell the user of a container.
"""

import copy
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.runtime.containerd import Containerd
from tests.runtime.pods import ManifestPods, record_plugins, recorded_calls

_ID = re.compile(r"[0-9a-f]{64}")
_REPLACED = (
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "TIME"),
    (re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}"), "MAC"),
    (re.compile(r"veth[0-9a-f]{11}"), "VETH"),
    (re.compile(r"(/var)?/run/netns/cni-[-0-9a-f]+"), "NETNS"),
    (re.compile(r"(?<=/containers/)(\w+)/[0-9a-f]{8}"), r"\1/MESSAGE"),
    (re.compile(r"(containerd|cni-harness)://"), "RUNTIME://"),
)
_UNORDERED = {"stop_container", "remove_container"}


def test_both_runtimes_are_asked_and_do_the_same(idle_containerd: Containerd, archives: list[Path]) -> None:
    node = idle_containerd.node
    # The node's address, before that of the bridge, which only the second runtime finds.
    node.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"])
    record_plugins(node, "/run/calls.jsonl")
    calls = node.root / "run/calls.jsonl"
    image = node.root / "run/busybox.tar"
    image.write_bytes(archives[1].read_bytes())

    own = ManifestPods(node, endpoint="")
    own.run("image", "load", "/run/busybox.tar")
    own.start()
    own.run("delete", "web")
    own_observed, own_calls = own.observed(), recorded_calls(calls)
    calls.unlink()
    idle_containerd.start()
    idle_containerd.import_images(archives)
    real = ManifestPods(node)
    real.start()
    real.run("delete", "web")
    real_observed, real_calls = real.observed(), recorded_calls(calls)

    _assert_same(_told(own_observed), _told(real_observed))
    _assert_same(_executions(own_calls), _executions(real_calls))
    assert len(_executions(own_calls)) == 10
    # The built-in runtime detaches a pod once, containerd once more when it removes the sandbox.
    detached = [each for each in real_calls if each["variables"]["CNI_COMMAND"] == "DEL"]
    assert [bool(each["variables"].get("CNI_NETNS")) for each in detached] == [True] * 6 + [False] * 6


def _assert_same(own: list[Any], real: list[Any]) -> None:
    """Raise AssertionError at the first difference of two lists."""
    for one, other in zip(own, real, strict=False):
        assert one == other
    assert len(own) == len(real)


def _told(observed: list[dict[str, Any]]) -> list[Any]:
    """The calls to the runtime and the pod's statuses, each status once; IDs are replaced by names of containers."""
    names = {
        each["answer"]: each["arguments"][1]["metadata"]["name"]
        for each in observed
        if each.get("call") == "create_container"
    }
    [sandbox] = [each["answer"] for each in observed if each.get("call") == "run_pod_sandbox"]
    names[sandbox] = "SANDBOX"
    told_by_all = [_without_users(each) for each in observed]
    lines = [line for line, _ in groupby(_plain(json.dumps(each, sort_keys=True), names) for each in told_by_all)]
    told: list[Any] = []
    for kind, group in groupby(map(json.loads, lines), lambda each: each.get("call")):
        same = list(group)
        told += sorted(same, key=str) if kind in _UNORDERED else same
    return told


def _without_users(observed: dict[str, Any]) -> dict[str, Any]:
    """A call, or a status without the users of its containers."""
    told: dict[str, Any] = copy.deepcopy(observed)
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in told.get("status", {}).get(key, []):
            status.pop("user", None)
    return told


def _executions(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The executions for eth0 until the namespace is gone."""
    [container_id] = {each["variables"]["CNI_CONTAINERID"] for each in calls}
    return [
        json.loads(_plain(json.dumps(_execution(each)), {container_id: "SANDBOX"}))
        for each in calls
        if each["variables"]["CNI_IFNAME"] == "eth0" and each["variables"].get("CNI_NETNS")
    ]


def _execution(call: dict[str, Any]) -> dict[str, Any]:
    variables, request = dict(call["variables"]), dict(call["request"])
    variables["CNI_ARGS"] = dict(pair.split("=", 1) for pair in variables["CNI_ARGS"].split(";"))
    request.pop("capabilities", None)
    if not request.get("prevResult", {}).get("dns", True):
        del request["prevResult"]["dns"]
    if "runtimeConfig" in request:
        annotations = request["runtimeConfig"].pop("io.kubernetes.cri.pod-annotations", None)
        arguments = _lower(request["runtimeConfig"])
        if "bandwidth" in arguments:
            arguments["bandwidth"] = {key: value for key, value in arguments["bandwidth"].items() if value}
        request["runtimeConfig"] = [arguments, annotations]
    return {"plugin": call["plugin"], "variables": variables, "request": request}


def _lower(document: Any) -> Any:
    """The document with all keys in lower case."""
    if isinstance(document, dict):
        return {key.lower(): _lower(value) for key, value in document.items()}
    return [_lower(each) for each in document] if isinstance(document, list) else document


def _plain(text: str, names: dict[str, str]) -> str:
    """The text without what is new in each pod; IDs become `names`, and digests of images stay."""
    for pattern, word in _REPLACED:
        text = pattern.sub(word, text)
    return _ID.sub(lambda found: names.get(found[0], found[0]), text)
