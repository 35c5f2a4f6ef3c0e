"""`--trace-file` of the verbs for pods of manifests: kubelet's, the runtime's and the plugins' steps in one tree."""

from collections.abc import Sequence

import pytest

from tests.manifests import KubeletNode, pod
from tests.nodes import until
from tests.traces import Trace, traced

pytestmark = pytest.mark.sudo

SYNC = ["syncLoop", "syncPod", "SyncPod"]
SETUP = [*SYNC, "createPodSandbox", "RunPodSandbox", "setupPodNetwork", "AddNetworkList"]
ADD = [*SETUP, "addNetwork", "ExecPluginWithResult", "PluginMain", "cmdAdd"]
KILL = ["syncLoop", "SyncTerminatingPod", "killPodWithSyncResult"]
TEARDOWN = [*KILL, "StopPodSandbox", "teardownPodNetwork", "DelNetworkList"]
DEL = [*TEARDOWN, "delNetwork", "ExecPluginWithoutResult", "PluginMain", "cmdDel"]

STARTS = [
    ["pleg.Start"],
    SYNC[:1],
    SYNC[:2],
    [*SYNC[:2], "generateAPIPodStatus"],
    [*SYNC[:2], "WaitForAttachAndMount"],
    SYNC,
    [*SYNC, "computePodActions"],
    SETUP[:4],
    SETUP[:5],
    SETUP[:6],
    SETUP,
    ADD[:-3],
    [*ADD[:-3], "FindInPath"],
    ADD[:-2],
    ADD[:-1],
    ADD,
    [*ADD, "make links"],
    [*ADD, "ipam.ExecAdd"],
    [*ADD, "ipam.ExecAdd", "PluginMain", "cmdAdd", "reserve"],
    [*ADD, "configure pod"],
    [*SETUP, "cacheAdd"],
    [*SYNC, "startContainer"],
    [*SYNC, "startContainer", "CreateContainer"],
    [*SYNC, "startContainer", "StartContainer"],
]
"""The steps from the verb to a running container, in the order in which they begin."""

ENDS = [
    ["syncLoop"],
    KILL[:2],
    KILL,
    [*KILL, "StopContainer"],
    TEARDOWN[:-2],
    TEARDOWN[:-1],
    TEARDOWN,
    DEL[:-3],
    DEL[:-2],
    DEL[:-1],
    DEL,
    [*DEL, "ipam.ExecDel"],
    [*TEARDOWN, "cacheDel"],
    ["syncLoop", "SyncTerminatedPod"],
    ["syncLoop", "RemovePodSandbox"],
]


def assert_in_order(trace: Trace, verb: str, expected: Sequence[Sequence[str]]) -> None:
    """Raise AssertionError unless the trace has steps with these paths, which begin in this order.

    Others may begin between them: the runtime attaches the loopback interface as a network of its own.
    """
    found = [trace.path(step) for step in sorted(trace.steps, key=lambda step: step.start)]
    later = iter(found)
    for path in expected:
        assert [f"cni-harness {verb}", *path] in later, (path, found)


def test_a_pod_from_its_manifest_to_its_container_and_back(bridged: KubeletNode) -> None:
    manifest = bridged.write(pod("web"))

    assert_in_order(traced(bridged, "run", "-f", str(manifest)), "run", STARTS)
    assert_in_order(traced(bridged, "delete", "web"), "delete", ENDS)


def test_trace_of_a_running_kubelet_has_the_start_of_a_pod(bridged: KubeletNode) -> None:
    file = bridged.folder / "trace.json"
    bridged.write(pod("web"))

    with bridged.kubelet("--trace-file", str(file)):
        until(lambda: bridged.one(f"web-{bridged.node}").get("status", {}).get("phase") == "Running", within=60)

    assert_in_order(Trace(file), "kubelet", STARTS)
