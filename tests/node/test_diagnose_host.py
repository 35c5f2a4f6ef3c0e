"""`diagnose` on a host: the runtimes' own lists, and launchers that an upgrade has left behind."""

import json

import pytest

from tests.nodes import Node

pytestmark = pytest.mark.sudo

AS_OF_ANOTHER_RELEASE = """
case $(head -c 4 "$1") in
  *ELF) printf x | dd of="$1" bs=1 seek=9 conv=notrunc status=none ;;
  *) echo "# older" >> "$1" ;;
esac
"""
"""Changes a padding byte of a compiled launcher, or adds a comment; its own lines still name this installation."""


def faults(host: Node) -> set[tuple[str, str]]:
    run = host.run(["cni-harness", "diagnose", "-o", "json"], check=False)
    assert run.stdout, run.stderr
    return {(fault["check"], fault["subject"]) for fault in json.loads(run.stdout)["faults"]}


@pytest.mark.slow("an installed host; test_diagnose finds faults in make test")
def test_diagnose_on_a_host_names_only_an_old_launcher(container_host: Node) -> None:
    container_host.run(["cni-harness", "install", "--no-units", "--bin-dir", "/opt/cni/bin"])
    container_host.run(["cni-harness", "add", "pod1"])
    before = faults(container_host)

    container_host.run(["sh", "-c", AS_OF_ANOTHER_RELEASE, "sh", "/opt/cni/bin/bridge"])

    assert {each for each in before if each[0] != "runtime-unusable"} == set()
    assert faults(container_host) - before == {("server-old", "/opt/cni/bin/bridge")}
    container_host.run(["cni-harness", "del", "pod1"])


def test_a_list_that_containerd_cannot_use_is_named(container_host: Node) -> None:
    container_host.run(["sh", "-c", "mkdir -p /etc/containerd && echo version = 2 > /etc/containerd/config.toml"])
    container_host.run(["sh", "-c", "echo '{' > /etc/cni/net.d/00-broken.conflist"])

    assert {("runtime-unusable", "containerd"), ("list-unusable", "/etc/cni/net.d")} <= faults(container_host)
