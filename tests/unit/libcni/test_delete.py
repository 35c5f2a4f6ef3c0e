"""DEL of a network list: in reverse, with the final result."""

import pytest

from harness.libcni.execute import PluginError
from harness.libcni.request import ContainerAttachment
from tests.unit.libcni.recorder import BARE_POD1, FAILURE, POD1, Node, names, network


def test_del_goes_in_reverse_with_the_final_result_and_forgets(node: Node) -> None:
    result = node.libcni.add(network(), POD1)
    node.take_calls()

    node.libcni.delete(network(), POD1)

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["DEL third", "DEL second", "DEL first"]
    assert all(call["config"]["prevResult"] == result for call in calls)
    assert not node.cached.exists()


def test_del_without_arguments_uses_the_arguments_of_the_add(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network(types=("first",)), BARE_POD1)

    (call,) = node.take_calls()
    assert call["environ"]["CNI_ARGS"] == "IgnoreUnknown=1;K8S_POD_NAME=pod1"
    assert call["environ"]["CNI_NETNS"] == ""
    assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 80}]}


def test_del_prefers_its_own_arguments(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    node.libcni.delete(
        network(types=("first",)),
        ContainerAttachment("pod1", "", "eth0", (("A", "b"),), {"portMappings": [{"hostPort": 1}]}),
    )

    (call,) = node.take_calls()
    assert call["environ"]["CNI_ARGS"] == "A=b"
    assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 1}]}


def test_del_without_cached_result_calls_every_plugin(node: Node) -> None:
    node.libcni.delete(network(), BARE_POD1)

    calls = node.take_calls()
    assert [call["plugin"] for call in calls] == ["third", "second", "first"]
    assert all("prevResult" not in call["config"] for call in calls)


@pytest.mark.parametrize("content", ["", "\0\0\0", '{"kind":"cniCacheV1","containerId":"po', '{"kind":"other"}'])
def test_an_unreadable_cache_file_never_blocks_del(node: Node, content: str) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.cached.write_text(content)

    node.libcni.delete(network(), BARE_POD1)

    assert node.took() == ["DEL third", "DEL second", "DEL first"]
    assert not node.cached.exists()
    assert len(node.warnings) == 1
    assert str(node.cached) in node.warnings[0]


def test_invalid_cached_result_does_not_block_del(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()
    node.cached.write_text(node.cached.read_text().replace('"interfaces":[', '"ips":5,"interfaces":['))

    node.libcni.delete(network(types=("first",)), BARE_POD1)

    (call,) = node.take_calls()
    assert "prevResult" not in call["config"]
    assert "deleting without its cached result: prevResult.ips: expected a list, got 5" in node.warnings[0]


def test_del_below_0_4_0_has_no_previous_result(node: Node) -> None:
    node.libcni.add(network("0.3.1", ("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network("0.3.1", ("first",)), POD1)

    (call,) = node.take_calls()
    assert "prevResult" not in call["config"]
    assert not node.cached.exists()


def test_del_converts_the_cached_result_when_the_lists_version_changed(node: Node) -> None:
    node.answer("first", "ADD", {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]})
    node.libcni.add(network("1.0.0", ("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network("0.4.0", ("first",)), POD1)

    (call,) = node.take_calls()
    assert call["config"]["prevResult"] == {
        "cniVersion": "0.4.0",
        "ips": [{"version": "4", "address": "10.1.0.5/16"}],
    }


def test_del_stops_at_a_failure_and_can_be_repeated(node: Node) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.answer("second", "DEL", FAILURE)

    with pytest.raises(PluginError, match="plugin second: DEL failed with code 11: not now; try later"):
        node.libcni.delete(network(), POD1)
    assert node.took() == ["DEL third", "DEL second"]
    node.recover("second", "DEL")
    node.libcni.delete(network(), POD1)

    calls = node.take_calls()
    assert [call["plugin"] for call in calls] == ["third", "second", "first"]
    assert all(names(call["config"]["prevResult"]) == ["first", "second", "third"] for call in calls)
    assert not node.cached.exists()
