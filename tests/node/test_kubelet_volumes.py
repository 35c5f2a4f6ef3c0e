"""An emptyDir in memory, the node's resolver in a pod, and a sandbox that is made again."""

import os

import pytest

from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


def test_an_empty_dir_in_memory_has_its_size_and_is_shared(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    mounts = [{"name": "fast", "mountPath": "/mnt"}]
    volumes = [{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    writer = container("writer", ["sh", "-c", f"echo said > /mnt/text; {FOREVER[2]}"], volumeMounts=mounts)
    started = kubelet_node.start(pod("web", writer, container("reader", volumeMounts=mounts), volumes=volumes))
    uid = started["metadata"]["uid"]
    folder = kubelet_node.node_dir / "kubelet/pods" / uid / "volumes/kubernetes.io~empty-dir/fast"

    def inside(command: str) -> str:
        return kubelet_node.run("exec", "web", "-c", "reader", "--", "sh", "-c", command, check=False).stdout

    assert inside("stat -f -c %T /mnt") == "tmpfs\n"
    assert inside("cat /mnt/text") == "said\n"
    size = os.statvfs(folder)
    assert size.f_blocks * size.f_frsize == 1024 * 1024
    assert inside("head -c 2000000 /dev/zero > /mnt/zeros 2> /dev/null || echo full") == "full\n"
    assert (folder / "zeros").stat().st_size < 1024 * 1024
    kubelet_node.run("delete", "web")
    kubelet_node.assert_nothing_left(before)


@pytest.mark.parametrize(("policy", "is_told"), [("ClusterFirst", True), ("Default", False)])
def test_missing_cluster_dns_is_an_event_and_the_nodes_resolver_serves(
    kubelet_node: KubeletNode, policy: str, *, is_told: bool
) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.start(pod("web", dnsPolicy=policy, dnsConfig={"nameservers": ["192.0.2.53"]}))

    told = [each["message"] for each in kubelet_node.events("web") if each["reason"] == "MissingClusterDNS"]
    resolver = kubelet_node.run("exec", "web", "--", "cat", "/etc/resolv.conf").stdout.splitlines()

    uid = kubelet_node.one("web")["metadata"]["uid"]
    words = (
        f'pod: "web_default({uid})". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
        '"ClusterFirst" policy. Falling back to "Default" policy.'
    )
    assert told == ([words] if is_told else [])
    assert "nameserver 192.0.2.53" in resolver


@pytest.mark.slow("it waits for the next try; test_kubelet_failures undoes a failed ADD in make test")
def test_a_failed_sandbox_is_made_again_and_nothing_of_the_first_remains(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    (kubelet_node.manifests / "first.json").unlink()
    allowed = kubelet_node.folder / "allowed"
    kubelet_node.plugin(
        "gate",
        f"""[ "$CNI_COMMAND" = ADD ] || {{ cat > /dev/null; exit 0; }}
if [ -e {allowed} ]; then exec jq .prevResult; fi
cat > /dev/null; echo '{{"cniVersion": "1.0.0", "code": 11, "msg": "not yet"}}'; exit 1""",
    )
    kubelet_node.configure({**WIRES, "plugins": [*WIRES["plugins"], {"type": "gate"}]})
    path = kubelet_node.write(pod("web"))
    name = f"web-{kubelet_node.node}"

    with kubelet_node.kubelet():
        until(lambda: "FailedCreatePodSandBox" in [each["reason"] for each in kubelet_node.events(name)], within=60)
        assert kubelet_node.reservations("wires") == set()
        allowed.touch()
        until(lambda: kubelet_node.one(name)["status"]["phase"] == "Running", within=60)

        assert len(list(kubelet_node.node_dir.glob("pods/*/pod.json"))) == 1
        assert kubelet_node.reservations("wires") == {kubelet_node.one(name)["status"]["podIP"]}
        path.unlink()
        kubelet_node.until_no_pods()
    allowed.unlink()
    kubelet_node.configure(WIRES)
    kubelet_node.assert_nothing_left(before)
