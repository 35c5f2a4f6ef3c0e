"""STATUS, VERSION and the validation of a network list."""

import pytest

from harness.libcni.execute import PluginError
from harness.validation.validate import validate
from tests.unit.libcni.recorder import Node, network


def test_status_asks_every_plugin_without_an_attachment(node: Node) -> None:
    node.libcni.status(network())

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["STATUS first", "STATUS second", "STATUS third"]
    assert calls[0]["environ"] == {
        "CNI_COMMAND": "STATUS",
        "CNI_CONTAINERID": "",
        "CNI_NETNS": "",
        "CNI_IFNAME": "",
        "CNI_ARGS": "",
        "CNI_PATH": str(node.bin_dir),
    }
    assert calls[0]["config"] == {
        "cniVersion": "1.1.0",
        "name": "mynet",
        "type": "first",
        "capabilities": {"portMappings": True},
    }


def test_status_raises_the_first_failure(node: Node) -> None:
    node.answer("second", "STATUS", {"code": 50, "msg": "no addresses left"})

    with pytest.raises(PluginError) as raised:
        node.libcni.status(network())

    assert raised.value.code == 50
    assert node.took() == ["STATUS first", "STATUS second"]


def test_status_below_1_1_0_asks_nothing(node: Node) -> None:
    node.libcni.status(network("1.0.0"))

    assert node.took() == []


def test_version_is_called_with_dummy_values_for_old_skeletons(node: Node) -> None:
    assert node.versions("first") == ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]

    (call,) = node.take_calls()
    assert call["config"] == {"cniVersion": "1.1.0"}
    assert call["environ"] == {
        "CNI_COMMAND": "VERSION",
        "CNI_CONTAINERID": "",
        "CNI_NETNS": "dummy",
        "CNI_IFNAME": "dummy",
        "CNI_ARGS": "",
        "CNI_PATH": "dummy",
    }


def test_a_good_network_has_no_problems(node: Node) -> None:
    assert validate(network(), node.versions, node.warnings.append) == []
    assert node.warnings == []


def test_problems_of_a_network_are_all_listed_and_oddities_noted(node: Node) -> None:
    node.answer("second", "VERSION", {"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]})
    plugins: list[dict[str, object]] = [
        {"type": "first", "ipam": {"type": "lost"}, "capabilities": {"teleport": True, "mac": True}},
        {"type": "second", "runtimeConfig": {}, "cni.dev/x": 1, "args": {}},
        {"type": "gone"},
    ]

    problems = validate(network(plugins=plugins, disablecheck=True), node.versions, node.warnings.append)

    old = (
        "plugins[1].type: plugin second does not speak version 1.1.0, only 0.4.0, 1.0.0; containerd 2.3 goes NotReady"
        ' with this list: set cniVersion "1.0.0", or use a second that speaks 1.1.0'
    )
    assert problems == [
        f'plugins[0].ipam.type: plugin lost: VERSION failed: no executable "lost" (searched: {node.bin_dir})',
        "plugins[1].runtimeConfig: the key is the runtime's own, what a file says there is ignored",
        "plugins[1].cni.dev/x: the key is the runtime's own, what a file says there is ignored",
        old,
        f'plugins[2].type: plugin gone: VERSION failed: no executable "gone" (searched: {node.bin_dir})',
    ]
    assert node.warnings == [
        'disablecheck: the key is ignored, "disableCheck" was meant',
        "plugins[0].capabilities.teleport: not a capability that CONVENTIONS.md knows",
        "plugins[1].args: the key is reserved, though passed on and widely used",
    ]
