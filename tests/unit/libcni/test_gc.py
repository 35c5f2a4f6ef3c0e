"""GC of a network list: what is cached and not valid is deleted."""

import pytest

from harness.libcni.networks import parse_network_list
from harness.libcni.request import ContainerAttachment
from tests.unit.libcni.recorder import FAILURE, POD1, Node, names, network


def test_gc_deletes_invalid_cached_attachments_then_calls_every_plugin(node: Node) -> None:
    for container_id in ("pod1", "pod2", "pod3"):
        node.libcni.add(
            network(), ContainerAttachment(container_id, f"/run/netns/{container_id}", "eth0", (("A", container_id),))
        )
    other = parse_network_list(b'{"cniVersion":"1.1.0","name":"other","plugins":[{"type":"first"}]}')
    node.libcni.add(other, POD1)
    node.take_calls()

    undone = node.libcni.gc(network(), [("pod2", "eth0"), ("pod9", "eth0"), ("pod3", "net1")])

    assert [attachment.container_id for attachment in undone] == ["pod1", "pod3"]
    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == [
        *["DEL third", "DEL second", "DEL first"] * 2,
        *["GC first", "GC second", "GC third"],
    ]
    assert [call["environ"]["CNI_CONTAINERID"] for call in calls] == ["pod1"] * 3 + ["pod3"] * 3 + [""] * 3
    assert calls[0]["environ"]["CNI_NETNS"] == "/run/netns/pod1"
    assert calls[0]["environ"]["CNI_ARGS"] == "A=pod1"
    assert names(calls[0]["config"]["prevResult"]) == ["first", "second", "third"]
    valid = [
        {"containerID": "pod2", "ifname": "eth0"},
        {"containerID": "pod9", "ifname": "eth0"},
        {"containerID": "pod3", "ifname": "net1"},
    ]
    for call in calls[6:]:
        assert call["config"]["cni.dev/valid-attachments"] == valid
        assert call["config"]["cni.dev/attachments"] == valid
        assert call["environ"]["CNI_PATH"] == str(node.bin_dir)
    assert [cached.attachment.container_id for cached in node.cache.attachments()] == ["pod2", "pod1"]


def test_gc_goes_on_past_failures_and_reports_them_together(node: Node) -> None:
    for container_id in ("pod1", "pod2"):
        node.libcni.add(network(types=("first",)), ContainerAttachment(container_id, "", "eth0"))
    node.take_calls()
    node.answer("first", "DEL", FAILURE)
    node.answer("first", "GC", FAILURE)

    with pytest.raises(ExceptionGroup, match="garbage collection of network mynet") as raised:
        node.libcni.gc(network(types=("first", "gone", "second")), [])

    of_each_pod = [
        'plugin gone: DEL failed: no executable "gone" (searched: ' + str(node.bin_dir) + ")",
        "plugin first: DEL failed with code 11: not now; try later",
    ]
    assert [str(error) for error in raised.value.exceptions] == [
        *of_each_pod,
        *of_each_pod,
        "plugin first: GC failed with code 11: not now; try later",
        'plugin gone: GC failed: no executable "gone" (searched: ' + str(node.bin_dir) + ")",
    ]
    assert raised.value.exceptions[0].__notes__ == ["stale attachment: container pod1, eth0"]
    assert node.took() == ["DEL second", "DEL first", "DEL second", "DEL first", "GC first", "GC second"]
    assert len(node.cache.attachments()) == 2


def test_gc_below_1_1_0_is_deletes_only(node: Node) -> None:
    node.libcni.add(network("1.0.0", ("first",)), POD1)
    node.take_calls()

    node.libcni.gc(network("1.0.0", ("first",)), [])

    assert node.took() == ["DEL first"]


def test_gc_does_nothing_when_disabled(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    assert node.libcni.gc(network(types=("first",), disableGC="true"), []) == []

    assert node.took() == []
    assert node.cached.exists()
