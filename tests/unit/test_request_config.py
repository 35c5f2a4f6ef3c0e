"""The request configuration is the plugin's own with what SPEC.md section 3 adds and takes away."""

import json

import pytest

from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.request import ContainerAttachment, request_config
from skel.errors import CniError

ATTACHMENT = ContainerAttachment("pod1", "/run/netns/pod1", "eth0")
PREV_RESULT = {"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.5/16"}]}


def network(**keys: object) -> NetworkList:
    document = {"cniVersion": "1.1.0", "name": "mynet", "plugins": [{"type": "bridge", **keys}]}
    return parse_network_list(json.dumps(document).encode())


def requested(
    listed: NetworkList,
    *,
    prev_result: dict[str, object] | None = None,
    attachment: ContainerAttachment | None = ATTACHMENT,
    valid_attachments: list[tuple[str, str]] | None = None,
) -> dict[str, object]:
    plugin = listed.plugins[0]
    text = request_config(
        listed, plugin, prev_result=prev_result, attachment=attachment, valid_attachments=valid_attachments
    )
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def test_name_and_version_are_the_lists_and_the_rest_is_unaltered() -> None:
    keys = {"cniVersion": "0.1.0", "name": "other", "mtu": 12345678901234567890, "a": {"b": [1, None, "ü"]}, "x": None}

    request = requested(network(**keys))

    assert request == {
        "cniVersion": "1.1.0",
        "name": "mynet",
        "type": "bridge",
        "mtu": 12345678901234567890,
        "a": {"b": [1, None, "ü"]},
        "x": None,
    }


def test_request_configuration_is_one_line_of_compact_json() -> None:
    listed = network(ipam={"type": "host-local", "note": "two\nlines"})

    text = request_config(listed, listed.plugins[0], attachment=ATTACHMENT)

    assert b"\n" not in text
    assert b'"ipam":{"type":"host-local",' in text


def test_runtime_config_has_capabilities_that_are_declared_and_supplied() -> None:
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
    given = {"portMappings": ports, "ips": ["10.1.0.9"], "mac": "c2:11:22:33:44:55"}
    attachment = ContainerAttachment("pod1", "", "eth0", capability_args=given)
    listed = network(capabilities={"portMappings": True, "ips": False, "bandwidth": True})

    request = requested(listed, attachment=attachment)

    assert request["runtimeConfig"] == {"portMappings": ports}
    assert "capabilities" not in request


def test_runtime_config_is_absent_without_matching_capabilities() -> None:
    listed = network(capabilities={"bandwidth": True}, runtimeConfig={"bandwidth": {}})

    assert "runtimeConfig" not in requested(listed, attachment=ContainerAttachment("p", "", "e", (), {"mac": "x"}))


def test_prev_result_is_sent_only_if_given() -> None:
    listed = network(prevResult={"ips": []}, PrevResult={"ips": []})

    assert {"prevResult", "PrevResult"}.isdisjoint(requested(listed))
    assert requested(listed, prev_result=dict(PREV_RESULT))["prevResult"] == PREV_RESULT


def test_the_runtimes_own_keys_in_a_file_are_dropped_however_capitalised() -> None:
    listed = network(
        **{"NAME": "x", "CniVersion": "0.1.0", "RuntimeConfig": {}, "cni.dev/attachments": [], "CNI.dev/x": 1}
    )

    assert requested(listed) == {"cniVersion": "1.1.0", "name": "mynet", "type": "bridge"}


def test_args_are_passed_on() -> None:
    args = {"cni": {"ips": ["10.1.0.9"]}}

    assert requested(network(args=args))["args"] == args


def test_gc_lists_valid_attachments_in_both_spellings() -> None:
    request = requested(network(), attachment=None, valid_attachments=[("pod1", "eth0"), ("pod2", "net1")])

    expected = [{"containerID": "pod1", "ifname": "eth0"}, {"containerID": "pod2", "ifname": "net1"}]
    assert request["cni.dev/valid-attachments"] == expected
    assert request["cni.dev/attachments"] == expected


def test_gc_of_everything_lists_nothing_rather_than_null() -> None:
    request = requested(network(), attachment=None, valid_attachments=[])

    assert request["cni.dev/valid-attachments"] == []
    assert request["cni.dev/attachments"] == []


def test_without_an_attachment_capabilities_are_like_any_key() -> None:
    assert requested(network(capabilities={"mac": True}), attachment=None)["capabilities"] == {"mac": True}


@pytest.mark.parametrize("pair", [("", "v"), ("a=b", "v"), ("a;b", "v"), ("a", "v;w"), ("a", "b=c"), ("a", "\0")])
def test_pairs_that_would_be_read_differently_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(CniError, match="CNI_ARGS: invalid pair") as raised:
        ContainerAttachment("pod1", "", "eth0", (("K8S_POD_NAME", "pod1"), pair)).check_args()

    assert raised.value.code == 4


def test_the_environment_of_an_attachment() -> None:
    pairs = (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "pod1"))

    assert ContainerAttachment("pod1", "/run/netns/pod1", "eth0", pairs).environment() == {
        "CNI_CONTAINERID": "pod1",
        "CNI_NETNS": "/run/netns/pod1",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=pod1",
    }


def test_values_that_are_no_json_are_never_sent() -> None:
    listed = network(capabilities={"speed": True})

    with pytest.raises(ValueError, match="not JSON compliant"):
        requested(listed, attachment=ContainerAttachment("p", "", "e", (), {"speed": float("nan")}))
