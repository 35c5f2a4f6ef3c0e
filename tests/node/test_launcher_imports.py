"""A plugin's process whose modules cannot be loaded, or that Ctrl-C ends meanwhile, prints no traceback."""

import json
from pathlib import Path

import pytest

from tests.nodes import Node

CONFIG = json.dumps(
    {"cniVersion": "1.0.0", "name": "net", "type": "ptp", "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"}}
)
STARTED = 30
"""The interpreter has opened fewer files before it runs the launcher's program: 23 in Debian 12."""


def under_strace(node: Node, bin_dir: Path, injection: str) -> tuple[int, str, str]:
    """Run ptp's ADD with a fault in its system calls; return exit code, stdout and stderr."""
    netns = node.pod_namespace("pod")
    environment = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": netns,
        "CNI_PATH": str(bin_dir),
    }
    command = ["strace", "-qq", "-o", "/dev/null", "-e", f"inject=openat:{injection}", str(bin_dir / "ptp")]
    run = node.run(command, env=environment, stdin=CONFIG, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("opened", range(STARTED, 125, 10))
def test_modules_that_cannot_be_opened_are_one_error_document(node: Node, direct_bin_dir: Path, opened: int) -> None:
    code, stdout, stderr = under_strace(node, direct_bin_dir, f"error=EMFILE:when={opened}+")

    assert code == 1
    assert json.loads(stdout)["code"] in {4, 5, 999}
    assert "Too many open files" in json.loads(stdout)["msg"]
    assert "Traceback" not in stderr
    assert not node.ip("link", "show", "type", "veth")


@pytest.mark.parametrize("opened", range(STARTED, 65, 8))
def test_interrupted_imports_print_no_traceback(node: Node, direct_bin_dir: Path, opened: int) -> None:
    code, stdout, stderr = under_strace(node, direct_bin_dir, f"signal=INT:when={opened}")

    assert code != 0
    assert "Traceback" not in stderr
    assert stdout == "" or json.loads(stdout)["code"] == 999
    assert not node.ip("link", "show", "type", "veth")
