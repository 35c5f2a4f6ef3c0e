"""A type of Kubernetes' API follows from its class: keys, decoder, defaults, rules."""

import pytest

from api.container import V1Container, V1ContainerPort, V1HTTPGetAction, V1Probe
from api.errors import DecodeError
from api.object import take_unknown_fields
from api.pod import V1KeyToPath, V1PodDNSConfig, V1PodSecurityContext, V1PodSpec
from api.status import V1ContainerStatus, V1PodCondition, V1PodStatus, V1StateTerminated

INT32 = "a whole number from -2147483648 to 2147483647"


def test_keys_are_the_names_in_camel_case_with_initialisms() -> None:
    keys = {"hostNetwork", "hostPID", "hostIPC", "setHostnameAsFQDN", "os", "terminationGracePeriodSeconds"}

    assert keys <= V1PodSpec._fields.keys()
    assert {"hostIP", "podIPs"} <= V1PodStatus._fields.keys()


def test_a_decoded_spec_is_encoded_as_the_same_document() -> None:
    document = {"hostPID": True, "enableServiceLinks": False, "hostAliases": [{"ip": "::1", "hostnames": ["a"]}]}

    spec = V1PodSpec.decode(document)

    assert (spec.host_pid, spec.enable_service_links, spec.host_aliases[0].hostnames) == (True, False, ["a"])
    assert {**document, "securityContext": {}, "os": {}} == spec.encode()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "spec: expected an object, got []"),
        ({"hostname": 1}, "spec.hostname: expected a string, got 1"),
        ({"hostPID": "no"}, 'spec.hostPID: expected true or false, got "no"'),
        ({"nodeSelector": {"a": None, "b": 1}}, "spec.nodeSelector.b: expected a string, got 1"),
        ({"tolerations": {}}, "spec.tolerations: expected a list, got {}"),
        ({"containers": [{}, None]}, "spec.containers[1]: expected an object, got null"),
        ({"priority": 2**31}, f"spec.priority: expected {INT32}, got 2147483648"),
        ({"runtimeClassName": "a"}, "spec.runtimeClassName: Forbidden: static pods may not reference runtimeclasses"),
    ],
)
def test_error_names_path_and_value(document: object, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        V1PodSpec.decode(document, "spec")

    assert message == str(caught.value)


def test_null_is_absent_and_unknown_keys_are_told_once() -> None:
    spec = V1PodSpec.decode({"hostname": None, "hostName": "a", "affinity": {}, "os": {"x": 1}})

    assert take_unknown_fields(spec) == ["hostName", "os.x"]
    assert take_unknown_fields(spec) == []
    assert spec == V1PodSpec()


def test_objects_share_no_default() -> None:
    first, second = V1PodSpec(), V1PodSpec()

    first.containers.append(V1Container(name="a"))
    first.os.name = "linux"

    assert (second.containers, second.os.name) == ([], "")


def test_copy_is_deep_and_fills_empty_fields_on_demand() -> None:
    container = V1Container(args=["a"], ports=[V1ContainerPort(container_port=8)])

    filled = container.copy(fill=True)
    container.args.append("b")

    assert (filled.termination_message_policy, filled.ports[0].protocol, filled.args) == ("File", "TCP", ["a"])
    assert (container.termination_message_policy, container.copy()) == ("", container)


def test_default_of_none_makes_zero_a_value() -> None:
    spec = V1PodSpec(termination_grace_period_seconds=0, enable_service_links=False).copy(fill=True)

    assert (spec.termination_grace_period_seconds, spec.enable_service_links) == (0, False)
    assert V1Probe(timeout_seconds=0).copy(fill=True).timeout_seconds == 1


def test_flaws_follow_from_the_description() -> None:
    flaws = [
        *V1ContainerPort(host_port=65536, protocol="ICMP").flaws("p", "container_port", "host_port", "protocol"),
        *V1PodSecurityContext(supplemental_groups=[0, -1]).flaws("c"),
        *V1PodDNSConfig(nameservers=["a"]).flaws("d"),
        *V1HTTPGetAction(path="/", scheme="HTTP").flaws("h"),
        *V1KeyToPath(key="k", path="..x", mode=-1).flaws("k"),
    ]

    assert [str(flaw) for flaw in flaws] == [
        "p.containerPort: Required value",
        "p.hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        'p.protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        "c.supplementalGroups[1]: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        'd.nameservers[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        "h.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "k.path: Invalid value: \"..x\": must not start with '..'",
        "k.mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
    ]


def test_field_without_default_is_required() -> None:
    with pytest.raises(DecodeError, match=r"^x\.type: required key is missing$"):
        V1PodCondition.decode({"status": "True"}, "x")
    with pytest.raises(TypeError, match="V1Container has no field nome"):
        V1Container(nome="a")  # type: ignore[call-arg]  # a type checker finds it, too


def test_status_has_some_keys_even_if_they_are_empty() -> None:
    assert V1StateTerminated(reason="Error").encode() == {"exitCode": 0, "reason": "Error"}


def test_status_of_another_release_is_copied_without_its_unknown_keys() -> None:
    status = V1ContainerStatus.decode({"name": "a", "newKey": 1})

    assert status.copy() == status
    assert "newKey" not in status.copy().encode()
