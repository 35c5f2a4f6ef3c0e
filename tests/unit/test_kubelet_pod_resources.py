"""The requests of a whole pod, and its class of service."""

import pytest

from harness.kubelet.pod_resources import pod_limits, pod_requests, qos_class
from tests.unit.kubelet_objects import pod

ALWAYS = {"restartPolicy": "Always"}


def asks(name: str, **requests: str) -> dict[str, object]:
    return {"name": name, "resources": {"requests": requests, "limits": requests}}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([asks("a", cpu="100m", memory="1Mi"), asks("b", cpu="1")], [], {"cpu": 1100, "memory": 2**20}),
        # The largest init container counts if it asks for more than all others together.
        ([asks("a", cpu="1")], [asks("i", cpu="2"), asks("j", memory="1")], {"cpu": 2000, "memory": 1}),
        ([asks("a", cpu="3")], [asks("i", cpu="2")], {"cpu": 3000}),
        # Sidecars run together with the regular containers, and with the init containers after them.
        ([asks("a", cpu="1")], [asks("s", cpu="1") | ALWAYS], {"cpu": 2000}),
        ([asks("a", cpu="1")], [asks("s", cpu="1") | ALWAYS, asks("i", cpu="3")], {"cpu": 4000}),
        ([asks("a", cpu="1")], [asks("i", cpu="3"), asks("s", cpu="1") | ALWAYS], {"cpu": 3000}),
    ],
)
def test_requests_and_limits_of_a_pod(containers: list[object], init: list[object], expected: dict[str, int]) -> None:
    made = pod(containers, initContainers=init)

    assert pod_requests(made) == expected
    assert pod_limits(made) == expected


def container(requests: dict[str, str], limits: dict[str, str], name: str = "a") -> dict[str, object]:
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container({}, {})], [], "BestEffort"),
        ([container({"cpu": "0"}, {"memory": "0"})], [], "BestEffort"),
        ([container({"example.com/thing": "1"}, {})], [], "BestEffort"),
        ([container(FULL, FULL)], [], "Guaranteed"),
        ([container(FULL, {"cpu": "1000m", "memory": "1024Mi"})], [], "Guaranteed"),
        ([container({"cpu": "1"}, FULL)], [], "Burstable"),
        ([container({"cpu": "1"}, {"cpu": "1"})], [], "Burstable"),
        ([container({}, {"cpu": "1"})], [], "Burstable"),
        ([container(FULL, FULL), container({}, {}, "b")], [], "Burstable"),
        ([container(FULL, FULL), container(FULL, FULL, "b")], [], "Guaranteed"),
        ([container(FULL, FULL)], [container({}, {}, "i")], "Burstable"),
        ([container({}, {})], [container({"cpu": "1"}, {}, "i")], "Burstable"),
    ],
)
def test_class_of_service(containers: list[object], init: list[object], expected: str) -> None:
    assert qos_class(pod(containers, initContainers=init)) == expected
