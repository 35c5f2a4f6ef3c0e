"""Pods of another runtime, by its cached results."""

import json
from pathlib import Path

from harness.libcni.cache import ResultCache
from harness.libcni.networks import parse_network_list
from harness.libcni.request import ContainerAttachment
from harness.runtime.cached_pods import cached_pods

LIST = json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]})
RESULT = {"cniVersion": "1.0.0", "ips": [{"address": "192.0.2.2/24"}]}


def keep(folder: Path, container_id: str, ifname: str, **names: str) -> None:
    given = ContainerAttachment(container_id, "/run/netns/a", ifname, tuple(names.items()))
    ResultCache(folder, warn=print).store(parse_network_list(LIST.encode()), given, RESULT)


def test_attachments_of_a_container_are_one_pod(tmp_path: Path) -> None:
    names = {"K8S_POD_NAMESPACE": "shop", "K8S_POD_NAME": "web", "K8S_POD_UID": "u1"}
    keep(tmp_path, "c1", "lo", **names)
    keep(tmp_path, "c1", "eth0", **names)
    keep(tmp_path, "c2", "eth0")

    [pod] = cached_pods(tmp_path, [Path("/opt/cni/bin")], warn=print)

    assert (pod.title, pod.uid, pod.container_id, pod.netns) == ("shop/web", "u1", "c1", "/run/netns/a")
    assert pod.bin_dirs == ["/opt/cni/bin"]
    assert not pod.is_bare
    assert sorted(network.ifname for network in pod.networks) == ["eth0", "lo"]
    assert pod.networks[0].config == LIST
    assert str(pod.networks[0].decoded().ips[0].address) == "192.0.2.2/24"
