"""The suite for runtimes, on Debian's containerd and Podman: witnesses in the place of plugins."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.runtime_checks.catalogue import runtime_checks
from tests.nodes import until
from tests.runtime.containerd import Containerd
from tests.runtime.cri import SECONDS, CriError, Pod
from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX

RECORDS = "/run/witnesses"

# Neither containerd 1.6 nor Podman 4.3 sends CHECK, STATUS or GC. They read no folder beside a list, which came with
# 1.1.0, and their answers to callers are not recorded.
NEVER_SENT = {check.id for check in runtime_checks() if check.id.startswith(("check-", "gc-", "status-"))} | {
    "add-error-reported",
    "add-result-reported",
    "beside-appended",
    "network-name",
    "only-inlined",
    "plugin-type",
    "verb-in-version",
}


def install(node: RuntimeNode, *networks: str) -> None:
    """Put witnesses in the place of the node's lists; earlier records stay."""
    node.run(["sh", "-c", "rm -rf /etc/cni/net.d/*"])
    named = [word for name in networks for word in ("--network", name)]
    folders = ["--bin-dir=/usr/lib/cni", "--conf-dir=/etc/cni/net.d"]
    node.run(node.cni_harness("conformance", "runtime", "--install", RECORDS, *folders, *named))


def judged(node: RuntimeNode, *options: str) -> dict[str, dict[str, Any]]:
    """The findings by check, as the command line prints them."""
    args = ["conformance", "runtime", "--judge", RECORDS, "-o", "json", *options]
    printed = node.run(node.cni_harness(*args), check=False).stdout
    return {check["id"]: check for check in json.loads(printed)["checks"]}


def outcomes(found: dict[str, dict[str, Any]], outcome: str) -> set[str]:
    """The checks with an outcome."""
    return {name for name, check in found.items() if check["outcome"] == outcome}


def test_containerd(idle_containerd: Containerd, archives: list[Path]) -> None:
    node = idle_containerd.node
    install(node, "witness", "witness-failing", "witness-errors")
    idle_containerd.start()
    idle_containerd.import_images(archives)
    cri = idle_containerd.cri
    pods = [cri.run_pod("one", ports={8080: 80}), cri.run_pod("two")]
    for pod in pods:
        assert idle_containerd.addresses_in(pod)["eth0"] == cri.addresses(pod)
    idle_containerd.remove(*[pod.id for pod in pods])
    lists = {path.name.partition("-")[2]: path for path in node.lists.iterdir()}
    names = (f"pod{number}" for number in count())

    def refused() -> bool:
        """Whether containerd has read the folder again, and uses the next list."""
        try:
            idle_containerd.remove(cri.run_pod(next(names)).id)
        except CriError as error:
            return "witness-failing-2 fails ADD by its script" in str(error)
        return False

    lists["witness.conflist"].unlink()
    until(refused, within=SECONDS)
    lists["witness-failing.conflist"].unlink()

    def undeletable() -> Pod | None:
        """Return a pod whose first DEL fails, None as long as the list before is in use."""
        try:
            pod = cri.run_pod(next(names))
        except CriError:
            return None
        with pytest.raises(CriError, match="witness-errors-2 fails DEL by its script"):
            cri.stop_pod(pod.id)
        return pod

    left = until(undeletable, within=SECONDS)
    assert left is not None
    idle_containerd.remove(left.id)

    found = judged(node, "--speaks", "1.0.0")

    # The Go libcni leaves the key in the request, which no plugin reads.
    assert outcomes(found, "fail") == {"capabilities-removed"}
    assert outcomes(found, "warn") == set()
    assert outcomes(found, "not examined") == NEVER_SENT | {"version-input"}


def test_podman(runtime_node: RuntimeNode, podman: list[str]) -> None:
    node = runtime_node
    install(node, "witness", "witness-failing")

    def run(network: str) -> list[str]:
        return [*podman, "run", "--detach", "--publish=8080:80", f"--network={network}", BUSYBOX, "sleep", "infinity"]

    container = node.run(run("witness")).stdout.strip()
    node.run([*podman, "rm", "--force", "--time=0", container])
    refused = node.run(run("witness-failing"), check=False)
    assert "witness-failing-2 fails ADD by its script" in refused.stderr
    node.run([*podman, "rm", "--all", "--force", "--time=0"])

    found = judged(node)

    assert outcomes(found, "fail") == {"capabilities-removed"}
    assert outcomes(found, "warn") == set()
    assert outcomes(found, "not examined") == NEVER_SENT | {"del-stops-at-error"}
