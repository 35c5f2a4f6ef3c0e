"""ADD of a network list: each result goes to the next plugin, and a failure is undone."""

import pytest

from harness.libcni.execute import PluginError, PluginNotFoundError
from harness.libcni.networks import parse_network_list
from harness.libcni.request import ContainerAttachment
from skel.errors import CniError
from tests.unit.libcni.recorder import FAILURE, POD1, Node, names, network


def test_add_hands_each_result_to_the_next_plugin_and_returns_the_last(node: Node) -> None:
    result = node.libcni.add(network(), POD1)

    calls = node.take_calls()
    assert [(call["verb"], call["plugin"]) for call in calls] == [
        ("ADD", name) for name in ("first", "second", "third")
    ]
    assert "prevResult" not in calls[0]["config"]
    assert names(calls[1]["config"]["prevResult"]) == ["first"]
    assert names(calls[2]["config"]["prevResult"]) == ["first", "second"]
    assert names(result) == ["first", "second", "third"]
    assert result["cniVersion"] == "1.1.0"


def test_every_plugin_gets_the_attachment(node: Node) -> None:
    node.libcni.add(network(), POD1)

    for call in node.take_calls():
        assert call["environ"] == {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": "pod1",
            "CNI_NETNS": "/run/netns/pod1",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=pod1",
            "CNI_PATH": str(node.bin_dir),
        }
        assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 80}]}


def test_final_result_is_cached_with_attachment_and_configuration(node: Node) -> None:
    result = node.libcni.add(network(), POD1)

    cached = node.cache.load("mynet", "pod1", "eth0")
    assert cached is not None
    assert cached.result == result
    assert cached.attachment == POD1
    assert parse_network_list(cached.config).plugins == network().plugins


def test_a_result_in_another_version_is_converted_before_it_is_passed_on(node: Node) -> None:
    node.answer("first", "ADD", {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.5/16"}]})

    result = node.libcni.add(network("1.0.0", ("first", "second")), POD1)

    expected = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]}
    assert node.take_calls()[1]["config"]["prevResult"] == expected
    assert result == expected


def test_failed_add_is_undone_by_every_plugin_and_notes_undo_errors(node: Node) -> None:
    node.answer("second", "ADD", FAILURE)
    node.answer("second", "DEL", {"code": 100, "msg": "cannot"})

    with pytest.raises(PluginError) as raised:
        node.libcni.add(network(), POD1)

    assert (raised.value.plugin, raised.value.code, raised.value.msg, raised.value.details) == (
        "second",
        11,
        "not now",
        "try later",
    )
    assert raised.value.__notes__ == ["and undoing it: plugin second: DEL failed with code 100: cannot"]
    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == [
        "ADD first",
        "ADD second",
        "DEL third",
        "DEL second",
        "DEL first",
    ]
    assert all("prevResult" not in call["config"] for call in calls[2:])
    assert not node.cached.exists()


def test_a_result_that_cannot_be_cached_is_undone(node: Node) -> None:
    node.cached.parent.parent.write_text("a file where the folder should be")

    with pytest.raises(CniError, match="cannot cache the result of attachment eth0 of container pod1") as raised:
        node.libcni.add(network(types=("first",)), POD1)

    assert raised.value.code == 5
    assert node.took() == ["ADD first", "DEL first"]


def test_no_plugin_runs_if_one_is_missing(node: Node) -> None:
    with pytest.raises(PluginNotFoundError, match='ADD failed: no executable "fourth"'):
        node.libcni.add(network(types=("first", "fourth")), POD1)

    assert node.took() == []


def test_a_second_add_of_an_attachment_runs_nothing(node: Node) -> None:
    node.libcni.add(network(), POD1)
    content = node.cached.read_bytes()
    node.take_calls()

    with pytest.raises(CniError, match="attachment eth0 of container pod1 to mynet is there already"):
        node.libcni.add(network(), POD1)

    assert node.took() == []
    assert node.cached.read_bytes() == content


@pytest.mark.parametrize(
    "attachment",
    [
        ContainerAttachment("", "/n", "eth0"),
        ContainerAttachment("a b", "/n", "eth0"),
        ContainerAttachment("pod1", "/n", ""),
        ContainerAttachment("pod1", "/n", "a-name-that-is-too-long"),
        ContainerAttachment("pod1", "/n", ".."),
        ContainerAttachment("pod1", "/n", "a:b"),
        ContainerAttachment("pod1", "/n", "eth0", (("a", "b;c"),)),
    ],
)
def test_an_attachment_that_cannot_be_runs_nothing(node: Node, attachment: ContainerAttachment) -> None:
    with pytest.raises(CniError):
        node.libcni.add(network(), attachment)

    assert node.took() == []
