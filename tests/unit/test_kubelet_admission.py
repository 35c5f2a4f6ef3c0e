"""Which pods a node takes: host ports, resources, selector, name, in kubelet's order and words."""

import pytest

from api.pod import V1Pod
from harness.kubelet.admission import NodeFacts, Rejection, admit
from tests.unit.kubelet_objects import pod, sidecar

NODE = NodeFacts("node1", {"kubernetes.io/os": "linux", "disk": "ssd"}, {"cpu": 2000, "memory": 2**30}, max_pods=3)
NO_PORTS = Rejection(
    "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)


def with_port(uid: str, port: int = 80, protocol: str = "TCP", ip: str = "", **keys: object) -> V1Pod:
    ports = [{"containerPort": 80, "hostPort": port, "protocol": protocol, "hostIP": ip}]
    made = pod([{"name": "a", "ports": ports}], **keys)
    made.metadata.uid = uid
    return made


def asking(uid: str = "new", **requests: str) -> V1Pod:
    made = pod(
        [{"name": "a", "resources": {"requests": {name.replace("_", "-"): text for name, text in requests.items()}}}]
    )
    made.metadata.uid = uid
    return made


def labelled(labels: dict[str, str]) -> V1Pod:
    made = pod()
    made.metadata.labels = labels
    return made


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (("", "TCP", 80), ("", "TCP", 80), True),
        (("", "TCP", 80), ("", "TCP", 81), False),
        (("", "TCP", 80), ("", "UDP", 80), False),
        (("", "SCTP", 80), ("", "SCTP", 80), True),
        (("192.0.2.1", "TCP", 80), ("192.0.2.1", "TCP", 80), True),
        (("192.0.2.1", "TCP", 80), ("192.0.2.2", "TCP", 80), False),
        (("192.0.2.1", "TCP", 80), ("192.0.2.1", "UDP", 80), False),
        (("192.0.2.1", "TCP", 80), ("", "TCP", 80), True),
        (("192.0.2.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("", "UDP", 80), False),
        (("", "", 80), ("", "TCP", 80), True),
        (("", "TCP", 0), ("", "TCP", 0), False),
    ],
)
def test_host_ports_conflict_by_address_and_protocol(
    one: tuple[str, str, int], other: tuple[str, str, int], *, conflict: bool
) -> None:
    for (ip, protocol, port), (other_ip, other_protocol, other_port) in ((one, other), (other, one)):
        wanted = with_port("new", port, protocol, ip)
        active = with_port("old", other_port, other_protocol, other_ip)

        assert admit(wanted, [active], NODE) == (NO_PORTS if conflict else None)


def test_pod_does_not_conflict_with_itself() -> None:
    assert admit(with_port("same"), [with_port("same")], NODE) is None


def test_host_ports_of_sidecars_count_and_of_init_containers_do_not() -> None:
    ports = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    side = pod(["a"], initContainers=[sidecar("s", ports=ports)])
    init = pod(["a"], initContainers=[{"name": "i", "ports": ports}])

    assert admit(side, [with_port("old")], NODE) == NO_PORTS
    assert admit(init, [with_port("old")], NODE) is None


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({}, {}, None),
        ({"cpu": "2", "memory": "1Gi"}, {}, None),
        ({"cpu": "500m"}, {"cpu": "1500m"}, None),
        ({"cpu": "5"}, {}, ("OutOfcpu", "cpu, requested: 5000, used: 0, capacity: 2000")),
        ({"cpu": "501m"}, {"cpu": "1500m"}, ("OutOfcpu", "cpu, requested: 501, used: 1500, capacity: 2000")),
        (
            {"memory": "1Gi"},
            {"memory": "1"},
            ("OutOfmemory", "memory, requested: 1073741824, used: 1, capacity: 1073741824"),
        ),
        # CPU is looked at before memory.
        ({"memory": "2Gi", "cpu": "3"}, {}, ("OutOfcpu", "cpu, requested: 3000, used: 0, capacity: 2000")),
        (
            {"ephemeral_storage": "1"},
            {},
            ("OutOfephemeral-storage", "ephemeral-storage, requested: 1, used: 0, capacity: 0"),
        ),
        # A resource that the node does not know.
        ({"example.com/thing": "1"}, {}, None),
        # A node that is full already takes pods that ask for nothing.
        ({}, {"cpu": "9"}, None),
    ],
)
def test_resources(requests: dict[str, str], used: dict[str, str], expected: tuple[str, str] | None) -> None:
    rejection = admit(asking(**requests), [asking("old", **used)], NODE)

    message = expected and f"Node didn't have enough resource: {expected[1]}"
    assert rejection == (Rejection(expected[0], message or "") if expected else None)


def test_other_resources_that_the_node_has() -> None:
    node = NODE._replace(allocatable={**NODE.allocatable, "example.com/thing": 1})
    wanted = asking(**{"example.com/thing": "1"})

    assert admit(wanted, [], node) is None
    rejection = admit(wanted, [asking("old", **{"example.com/thing": "1"})], node)
    assert rejection is not None
    assert rejection.reason == "OutOfexample.com/thing"


def test_number_of_pods() -> None:
    active = [asking(str(number)) for number in range(3)]

    assert admit(asking(), active[:2], NODE) is None
    assert admit(asking("0"), active, NODE) is None  # itself is among the active ones
    assert admit(asking(), active, NODE) == Rejection(
        "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    )


@pytest.mark.parametrize(
    ("selector", "fits"), [({}, True), ({"disk": "ssd"}, True), ({"disk": "hdd"}, False), ({"gpu": "yes"}, False)]
)
def test_node_selector(selector: dict[str, str], *, fits: bool) -> None:
    expected = Rejection(
        "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )

    assert admit(pod(nodeSelector=selector), [], NODE) == (None if fits else expected)


@pytest.mark.parametrize(("name", "fits"), [("", True), ("node1", True), ("node2", False)])
def test_node_name(name: str, *, fits: bool) -> None:
    expected = Rejection("NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name")

    assert admit(pod(nodeName=name), [], NODE) == (None if fits else expected)


@pytest.mark.parametrize(
    ("labels", "fits"), [({}, True), ({"kubernetes.io/os": "linux"}, True), ({"kubernetes.io/os": "windows"}, False)]
)
def test_label_of_the_operating_system(labels: dict[str, str], *, fits: bool) -> None:
    message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
    expected = Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)

    assert admit(labelled(labels), [], NODE) == (None if fits else expected)


def test_first_reason_of_a_rejection_counts() -> None:
    wrong = with_port("new", nodeSelector={"gpu": "yes"}, nodeName="node2")
    active = [with_port("old"), asking("1"), asking("2")]
    reasons = []
    for remedy in ("none", "room", "selector", "name", "port"):
        if remedy == "room":
            active.pop()
        elif remedy == "selector":
            wrong.spec.node_selector = {}
        elif remedy == "name":
            wrong.spec.node_name = ""
        elif remedy == "port":
            active.pop(0)
        rejection = admit(wrong, active, NODE)
        reasons.append(rejection and rejection.reason)

    assert reasons == ["OutOfpods", "NodeAffinity", "NodeName", "NodePorts", None]
