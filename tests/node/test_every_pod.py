"""Each verb knows each pod: bare ones of `add`, and those of manifests."""

import json
from collections.abc import Iterator

import pytest

from tests.manifests import WIRES, KubeletNode, condition, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


@pytest.fixture
def both(kubelet_node: KubeletNode) -> Iterator[KubeletNode]:
    """A node with the bare pod `bare` and the pod `web` of a manifest."""
    kubelet_node.configure(WIRES)
    kubelet_node.run("add", "bare")
    kubelet_node.start(pod("web", container("app", ["sh", "-c", "echo said; exec sleep 1000"])))
    yield kubelet_node
    kubelet_node.run("del", "--all", check=False)


def test_list_inspect_check_and_exec_have_both(both: KubeletNode) -> None:
    listed = {each["name"]: each for each in both.json("list")["pods"]}

    for name in ("bare", "web"):
        assert "eth0" in both.run("exec", name, "--", "ls", "/sys/class/net").stdout.split()
    assert {name: each["state"] for name, each in listed.items()} == {"bare": "ready", "web": "ready"}
    assert [each["ifname"] for each in listed["web"]["networks"]] == ["lo", "eth0"]
    address = both.one("web")["status"]["podIP"]
    assert listed["web"]["networks"][1]["result"]["ips"][0]["address"].startswith(f"{address}/")
    inspected = both.json("inspect", "web")
    assert inspected["netns"] == listed["web"]["netns"]
    assert "eth0" in [link["name"] for link in inspected["kernel"]["links"]]
    checked = {each["name"]: each["networks"] for each in both.json("check")["pods"]}
    assert {name: [each["error"] for each in networks] for name, networks in checked.items()} == {
        "bare": [""],
        "web": ["", ""],
    }
    both.ip("link", "set", "eth0", "down", netns=listed["web"]["netns"])
    assert both.run("check", "web", check=False).returncode == 1


def test_get_describe_and_logs_have_both(both: KubeletNode) -> None:
    rows = [line.split() for line in both.run("get", "pods").stdout.splitlines()[1:]]
    assert [row[1:4] for row in rows] == [["bare", "0/0", "Running"], ["web", "1/1", "Running"]]
    assert rows[0][-1] == both.json("list")["pods"][0]["networks"][0]["result"]["ips"][0]["address"].partition("/")[0]

    shown = both.json("get", "pod", "bare")
    assert (shown["kind"], shown["metadata"]["name"], shown["spec"].get("containers")) == ("Pod", "bare", None)
    assert condition(shown, "PodReadyToStartContainers") == "True"
    described = both.run("describe", "bare").stdout
    assert "Status:           Running" in described
    assert "Events:           <none>" in described
    assert both.run("logs", "web").stdout == "said\n"
    failed = both.run("logs", "bare", check=False)
    assert (failed.returncode, failed.stderr) == (1, "Error: pod bare has no containers: `cni-harness add` made it\n")


@pytest.mark.mostly_slow(2, "each verb; del is in make test")
@pytest.mark.parametrize("verb", ["del", "delete"])
def test_either_verb_ends_both(both: KubeletNode, verb: str) -> None:
    document = both.json(verb, "bare", "web")

    named = sorted(each["name"] for each in (document.get("deleted") or document["pods"]))
    assert named == ["bare", "web"]
    assert both.pods() == []
    assert both.on_record() == []
    assert both.reservations("wires") == set()
    assert [path.name for path in (both.node_dir / "pods").glob("*")] == []


@pytest.mark.slow("it takes seconds; names of both kinds are in make test")
def test_delete_all_ends_both(both: KubeletNode) -> None:
    both.run("delete", "--all")

    assert both.pods() == []
    assert both.reservations("wires") == set()


def test_a_name_is_one_pods(both: KubeletNode) -> None:
    added = both.run("add", "web", check=False)
    ran = both.run("run", "-f", str(both.write(pod("bare"))), check=False)

    assert added.returncode == 1
    assert added.stderr.splitlines()[-1] == (
        "Error: pod default/web: exists already; `cni-harness del web` takes it away"
    )
    assert ran.returncode == 1
    assert "pod default/bare: `add` made a pod of this name; `cni-harness delete bare` ends it" in ran.stderr
    assert [each["name"] for each in both.pods()] == ["bare", "web"]


@pytest.mark.slow("it takes seconds; pods with networks are in make test")
def test_a_pod_on_the_nodes_network_has_no_networks(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.start(pod("host", container("app"), hostNetwork=True))

    (listed,) = kubelet_node.pods()
    refused = kubelet_node.run("connect", "host", "--network", "wires", check=False)

    assert (listed["state"], listed["networks"]) == ("ready", [])
    assert kubelet_node.json("check")["pods"] == []
    assert refused.stderr == "Error: pod default/host is on the network of its node\n"
    kubelet_node.run("delete", "host")


@pytest.mark.slow("a kubelet runs; a pod of run is in make test")
def test_a_static_pod_is_kept_by_both_verbs(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(pod("web"))
    name = f"web-{kubelet_node.node}"
    with kubelet_node.kubelet():
        until(lambda: kubelet_node.one(name).get("status", {}).get("phase") == "Running", within=60)
        for verb in ("del", "delete"):
            assert kubelet_node.run(verb, name, check=False).returncode == 1
        assert [each["name"] for each in kubelet_node.pods()] == [name]
        (kubelet_node.manifests / "web.json").unlink()
        kubelet_node.until_no_pods()


@pytest.mark.parametrize("number", [3, "x"])
def test_a_record_of_another_format_is_refused_in_one_line(kubelet_node: KubeletNode, number: object) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.run("add", "bare")
    path = kubelet_node.node_dir / "pods/default_bare/pod.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"format": number}))

    run = kubelet_node.run("del", "bare", check=False)

    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert f"{path}: " in run.stderr
    assert ("format 3 is newer than this program, which knows 2" in run.stderr) == (number == 3)
    path.write_text(json.dumps(record))


@pytest.mark.time_limit(400, "hundreds of pods come and go")
@pytest.mark.slow("two hundred pods beside kubelets; single ones are in make test")
def test_kubelets_take_nothing_from_pods_that_come_and_go(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kept = [f"kept{number}" for number in range(50)]
    moving = [f"moving{number}" for number in range(150)]
    kubelet_node.run("add", "--jobs", "16", *kept)
    before = kubelet_node.pods()
    web = kubelet_node.folder / "web.json"  # not in the folder that the kubelets watch
    web.write_text(json.dumps(pod("web")))

    for _ in range(3):
        with kubelet_node.background("add", "--jobs", "16", *moving) as adding:
            kubelet_node.run("run", "-f", str(web))
            kubelet_node.run("delete", "web")
            assert adding.wait() == 0, adding.communicate()[1]
        made = [each["name"] for each in kubelet_node.pods()]
        assert sorted(made) == sorted([*kept, *moving])
        with kubelet_node.background("del", "--jobs", "16", *moving) as deleting, kubelet_node.kubelet():
            assert deleting.wait() == 0, deleting.communicate()[1]

    assert [each for each in kubelet_node.pods() if each["name"] in kept] == before
