"""CHECK of a network list: every plugin gets the final result."""

import pytest

from harness.libcni.execute import PluginError
from harness.libcni.request import ContainerAttachment
from skel.errors import CniError
from tests.unit.libcni.recorder import FAILURE, POD1, Node, network


def test_check_asks_every_plugin_with_the_final_result(node: Node) -> None:
    result = node.libcni.add(network(), POD1)
    node.take_calls()

    node.libcni.check(network(), ContainerAttachment("pod1", "/run/netns/pod1", "eth0"))

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["CHECK first", "CHECK second", "CHECK third"]
    assert all(call["config"]["prevResult"] == result for call in calls)
    assert calls[0]["environ"]["CNI_ARGS"] == "IgnoreUnknown=1;K8S_POD_NAME=pod1"
    assert node.cached.exists()


def test_check_stops_at_a_failure(node: Node) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.answer("second", "CHECK", FAILURE)

    with pytest.raises(PluginError, match="plugin second: CHECK failed with code 11"):
        node.libcni.check(network(), POD1)
    assert node.took() == ["CHECK first", "CHECK second"]


def test_check_is_not_for_versions_before_it(node: Node) -> None:
    node.libcni.add(network("0.3.1"), POD1)
    node.take_calls()

    with pytest.raises(CniError, match=r"version 0\.3\.1 has no CHECK") as raised:
        node.libcni.check(network("0.3.1"), POD1)

    assert raised.value.code == 1
    assert node.took() == []


def test_check_asks_nothing_when_disabled(node: Node) -> None:
    node.libcni.check(network(disableCheck=True), POD1)

    assert node.took() == []


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_check_needs_a_cached_result(node: Node, content: str | None) -> None:
    if content is not None:
        node.cached.parent.mkdir(parents=True)
        node.cached.write_text(content)

    with pytest.raises(CniError, match="no cached result of attachment eth0 of container pod1 to mynet"):
        node.libcni.check(network(), POD1)

    assert node.took() == []
