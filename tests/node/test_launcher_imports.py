"""A plugin's process whose modules cannot be loaded, or that Ctrl-C ends meanwhile, prints no traceback."""

import json
import subprocess
from pathlib import Path

import pytest

from launch.launcher import launcher_bytes
from tests.nodes import Node
from tests.servers import write_launchers

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


@pytest.mark.parametrize("limit", range(4))
@pytest.mark.parametrize("socket", ["", "/nonexistent/socket"], ids=["no server", "server missing"])
def test_interpreter_without_a_free_descriptor_is_one_error_document(tmp_path: Path, limit: int, socket: str) -> None:
    launcher = write_launchers(tmp_path, launcher_bytes(socket=socket)) / "host-local"

    refused, started = (
        subprocess.run(
            ["sh", "-c", f'ulimit -n {files}; exec "$0"', launcher],
            env={"CNI_COMMAND": "STATUS", "CNI_PATH": "/none"},
            input="no JSON",
            capture_output=True,
            text=True,
            check=False,
        )
        for files in (limit, 4)
    )

    assert (refused.returncode, refused.stderr) == (1, "")
    assert json.loads(refused.stdout) == {
        "cniVersion": "1.1.0",
        "code": 5,
        "msg": "the plugin cannot start: Too many open files",
    }
    assert json.loads(started.stdout)["code"] == 6


@pytest.mark.parametrize("opened", range(STARTED, 65, 8))
def test_interrupted_imports_print_no_traceback(node: Node, direct_bin_dir: Path, opened: int) -> None:
    code, stdout, stderr = under_strace(node, direct_bin_dir, f"signal=INT:when={opened}")

    assert code != 0
    assert "Traceback" not in stderr
    assert stdout == "" or json.loads(stdout)["code"] == 999
    assert not node.ip("link", "show", "type", "veth")
