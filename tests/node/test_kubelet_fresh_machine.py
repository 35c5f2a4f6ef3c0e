"""Pods of manifests on a machine with nothing but this checkout: no network list, no plugin."""

import json

import pytest

from tests.manifests import pod
from tests.nodes import Node

pytestmark = pytest.mark.sudo


def test_the_first_command_needs_no_installation(fresh_machine: Node) -> None:
    manifest = fresh_machine.state_dir / "web.json"
    manifest.write_text(json.dumps(pod("web")))

    run = fresh_machine.run(["cni-harness", "run", "-f", manifest, "-o", "json"])

    (web,) = json.loads(run.stdout)["pods"]
    assert web["status"]["phase"] == "Running"
    assert web["status"]["podIP"].startswith("10.86.")
    assert "No network lists in /etc/cni/net.d: using this project's own, " in run.stderr
    assert "No bridge, " in run.stderr
    address = fresh_machine.run(["cni-harness", "exec", "web", "--", "ip", "-o", "-4", "address"]).stdout
    assert f" {web['status']['podIP']}/" in address
    fresh_machine.run(["cni-harness", "delete", "web"])
    run = fresh_machine.run(["cni-harness", "del", "--all", "--prune"])
    assert "Removed cni-harness0, which had no ports left" in run.stderr


def test_a_pod_keeps_the_plugins_it_was_made_with(fresh_machine: Node) -> None:
    manifest = fresh_machine.state_dir / "web.json"
    manifest.write_text(json.dumps(pod("web")))
    fresh_machine.run(["cni-harness", "run", "-f", manifest])
    other = {"cniVersion": "1.1.0", "name": "other", "plugins": [{"type": "of-another"}]}
    fresh_machine.run(["sh", "-ec", "mkdir -p /etc/cni/net.d && cat > /etc/cni/net.d/10-other.conflist"],
                      stdin=json.dumps(other))  # fmt: skip

    deleted = fresh_machine.run(["cni-harness", "delete", "web"])

    assert "deleted" in deleted.stdout
    links = json.loads(fresh_machine.run(["ip", "-j", "link"]).stdout)
    assert {link["ifname"] for link in links} == {"lo", "cni-harness0"}
