"""Words of kubectl's command line: kinds before names, `-o yaml` of a Pod, and answers without a pod."""

import json
from pathlib import Path

import pytest
import yaml

from tests.manifests import WIRES, KubeletNode, pod

pytestmark = pytest.mark.sudo


@pytest.fixture
def wired(kubelet_node: KubeletNode) -> KubeletNode:
    kubelet_node.configure(WIRES)
    return kubelet_node


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_pods_are_named_as_for_kubectl(wired: KubeletNode) -> None:
    wired.start(pod("web"))
    wired.start(pod("pod"))

    for words in (["get", "pod", "web"], ["get", "po/web"], ["get", "pods", "web"]):
        assert [line.split()[1] for line in wired.run(*words).stdout.splitlines()] == ["NAME", "web"]
    for words in (["describe", "web"], ["describe", "pod", "web"], ["describe", "pods/web"]):
        assert wired.run(*words).stdout.startswith("Name:             web\n")
    assert wired.run("describe", "pod").stdout.startswith("Name:             pod\n")
    assert wired.run("logs", "pod/web").stdout == ""
    assert wired.run("exec", "pod/web", "--", "echo", "there").stdout == "there\n"
    assert wired.json("delete", "pod", "web")["pods"] == [{"namespace": "default", "name": "web", "outcome": "deleted"}]
    assert wired.json("delete", "pod/pod")["pods"] == [{"namespace": "default", "name": "pod", "outcome": "deleted"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["get", "deployments"], 'there is no kind "deployments" here, only pods'),
        (["describe", "svc/web"], "'svc/web': wanted the name of a pod, as NAME or pod/NAME"),
        (["logs", "pod/"], "'pod/': wanted the name of a pod"),
        (["describe", "pod", "a", "b"], "wanted the name of one pod, not of 2"),
    ],
)
def test_other_kinds_and_bad_forms_are_refused(wired: KubeletNode, words: list[str], said: str) -> None:
    run = wired.run(*words, check=False)

    assert run.returncode == 2
    assert said in run.stderr


@pytest.mark.slow("a pod of the built-in runtime; the forms of names are in make test")
def test_one_pod_is_printed_as_a_pod_that_runs_again(wired: KubeletNode) -> None:
    uid = wired.start(pod("web"))["metadata"]["uid"]

    text = wired.run("get", "pod", "web", "-o", "yaml").stdout
    document = yaml.safe_load(text)
    listed = wired.json("get", "pods")

    assert (document["apiVersion"], document["kind"], document["metadata"]["uid"]) == ("v1", "Pod", uid)
    assert document["status"]["phase"] == "Running"
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == [document]
    wired.run("delete", "web")
    again = wired.manifests / "again.yaml"
    for whole in (document, listed):
        again.write_text(json.dumps(whole))
        assert " 1/1    Running" in wired.run("run", "-f", str(again), "--min-ready", "0").stdout
        wired.run("delete", "web")


@pytest.mark.parametrize("user", [{}, {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000]}])
def test_status_has_the_user_of_a_container(wired: KubeletNode, user: dict[str, object]) -> None:
    document = wired.start(pod("web", securityContext=user))

    [status] = document["status"]["containerStatuses"]
    [process] = [json.loads(path.read_text())["pid"] for path in wired.node_dir.glob("containers/*/process.json")]
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    found = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    assert status["user"]["linux"] == {
        "uid": int(found["Uid"][0]),
        "gid": int(found["Gid"][0]),
        "supplementalGroups": [int(group) for group in found["Groups"]],
    }
    assert status["user"]["linux"]["uid"] == user.get("runAsUser", 0)


def test_no_pods_and_unknown_pods_have_the_messages_of_kubectl(wired: KubeletNode) -> None:
    everywhere, blue = wired.run("get", "pods"), wired.run("get", "pods", "-n", "blue")
    unknown = wired.run("get", "pod", "web", "db", check=False)

    assert (everywhere.stdout, everywhere.stderr) == ("", "No resources found\n")
    assert (blue.stdout, blue.stderr) == ("", "No resources found in blue namespace.\n")
    assert wired.json("get", "pods")["items"] == []
    assert unknown.returncode == 1
    assert unknown.stderr == 'Error: pods "db" not found; pods "web" not found\n'
