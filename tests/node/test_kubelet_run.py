"""A pod of a manifest, from its first phase to its end, with an image under runc and with the node's own files."""

import resource
import time
from typing import Any

import pytest

from tests.builtin_containers import BUSYBOX
from tests.manifests import FOREVER, KubeletNode, condition, container, pod
from tests.markers import IMAGES
from tests.nodes import Node, until_usable

pytestmark = pytest.mark.sudo

_FETCH = "until busybox wget -q -O /mnt/fetched http://127.0.0.1:8080/; do sleep 0.1; done; echo fetched >&2"


@pytest.fixture(params=[pytest.param("image", marks=IMAGES), "node-files"])
def image(request: pytest.FixtureRequest, bridged: KubeletNode) -> str:
    """The image of the containers, loaded; empty for containers on the node's files."""
    if request.param == "node-files":
        return ""
    bridged.run("image", "load", str(request.getfixturevalue("busybox_layout")))
    return BUSYBOX


@pytest.fixture
def neighbour(bridged: KubeletNode, node: Node) -> tuple[Node, str]:
    """Another node with a wire to the one of the pods, and that one's address."""
    bridged.snapshot()
    node.run(["ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink", "netns", bridged.node])
    for number, name in enumerate((bridged.node, node.name), start=1):
        node.run(["ip", "-n", name, "address", "add", f"192.0.2.{number}/24", "dev", "uplink"])
        node.run(["ip", "-n", name, "link", "set", "uplink", "up"])
    until_usable(node, "uplink")
    return node, "192.0.2.1"


def web(image: str, **spec: object) -> dict[str, Any]:
    """Return a pod with all that a small web server has."""
    data = {"volumeMounts": [{"name": "data", "mountPath": "/mnt"}]}
    server = container(
        "server",
        ["busybox", "httpd", "-f", "-p", "8080", "-h", "/mnt"],
        image=image,
        ports=[{"containerPort": 8080, "hostPort": 18080}],
        readinessProbe={"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1},
        lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo hook >> /mnt/index.html"]}}},
        **data,
    )
    helper = container("helper", ["sh", "-c", f"{_FETCH}; {FOREVER[2]}"], image=image, **data)
    inits = [
        container("one", ["sh", "-c", "echo one > /mnt/index.html; echo said by one"], image=image, **data),
        container("two", ["sh", "-c", "echo two >> /mnt/index.html"], image=image, **data),
    ]
    return pod("web", server, helper, initContainers=inits, volumes=[{"name": "data", "emptyDir": {}}], **spec)


def test_a_pod_from_its_manifest_to_its_end(bridged: KubeletNode, neighbour: tuple[Node, str], image: str) -> None:
    other, address = neighbour
    before = bridged.snapshot()

    with bridged.watched("web") as seen:
        document = bridged.start(web(image))

    status = document["status"]
    assert (status["phase"], condition(document, "Ready")) == ("Running", "True")
    assert status["podIP"].startswith("10.77.")
    assert_phases_in_order(seen)
    page = other.run(["busybox", "wget", "-q", "-O", "-", f"http://{address}:18080/"]).stdout
    assert page.splitlines() == ["one", "two", "hook"]
    assert bridged.run("logs", "web", "-c", "one").stdout == "said by one\n"
    assert bridged.run("logs", "web", "-c", "helper").stderr == "fetched\n"
    words = bridged.run("exec", "web", "-c", "helper", "--", "sh", "-c", "cat /mnt/fetched; hostname").stdout
    assert words.splitlines()[-1] == "web"
    assert words.startswith("one\ntwo\n")
    assert_events_in_order(bridged, image)

    bridged.run("delete", "web")

    assert bridged.on_record() == []
    bridged.assert_nothing_left(before)


def assert_phases_in_order(seen: list[dict[str, Any]]) -> None:
    """Raise AssertionError if a status goes back."""
    phases = list(dict.fromkeys(status["phase"] for status in seen))
    assert phases == ["Pending", "Running"]
    first = {}
    for type in ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        values = [condition({"status": status}, type) == "True" for status in seen]
        assert values == sorted(values), f"{type} went back: {values}"
        first[type] = values.index(True)
    assert list(first.values()) == sorted(first.values())
    assert first["PodScheduled"] < first["Initialized"]
    waiting = [
        each["state"]["waiting"]["reason"]
        for status in seen
        for each in status["containerStatuses"]
        if "waiting" in each["state"]
    ]
    assert set(waiting) == {"PodInitializing"}
    for status in seen:
        one, two = (each["state"] for each in status["initContainerStatuses"])
        assert "terminated" in one or "waiting" in two
        assert "terminated" in two or all("waiting" in each["state"] for each in status["containerStatuses"])


def assert_events_in_order(node: KubeletNode, image: str) -> None:
    """Raise AssertionError if the events of the four containers are not those of kubelet."""
    each = ["Pulled", "Created", "Started"] if image else ["Created", "Started"]
    events = [event for event in node.events("web") if event["reason"] != "Unhealthy"]
    assert [event["reason"] for event in events] == each * 4
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    assert {event["message"] for event in events if event["reason"] == "Pulled"} == ({present} if image else set())
    paths = [event["fieldPath"] for event in events if event["reason"] == "Started"]
    assert paths == [
        "spec.initContainers{one}",
        "spec.initContainers{two}",
        "spec.containers{server}",
        "spec.containers{helper}",
    ]
    told = node.run("describe", "web").stdout
    assert "    Restart Count:  0\n" in told
    assert "Started Time" not in told
    assert told.index("Init Containers:") < told.index("  two:") < told.index("  server:") < told.index("Events:")


@pytest.mark.slow("thirty pods; a pod from its manifest to its end is in make test")
def test_thirty_pods_of_one_folder(bridged: KubeletNode) -> None:
    before = bridged.snapshot()
    for number in range(30):
        bridged.write(pod(f"pod{number}", container("app", ["sleep", "1000"])))

    began, used = time.monotonic(), _processor_s()
    started = bridged.json("run", "-f", str(bridged.manifests), "--timeout", "500")["pods"]

    print(f"30 pods: {time.monotonic() - began:.1f} s, processor {_processor_s() - used:.1f} s")  # noqa: T201 -- with -s
    running = [each for each in started if each["status"]["phase"] == "Running" and condition(each, "Ready") == "True"]
    assert len(running) == 30 + len(list(bridged.manifests.glob("first.json")))
    assert len({each["status"]["podIP"] for each in running}) == len(running)
    bridged.run("delete", "--all")
    bridged.assert_nothing_left(before)


def _processor_s() -> float:
    """Return the processor time of the verbs that have ended, without shims and containers, which go on."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
