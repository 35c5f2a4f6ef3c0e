"""DEL of the bridge plugin where the kernel lets it start no thread, as in a cgroup that has reached `pids.max`."""

import json
import sys
from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node

# Executes its arguments under a seccomp filter by which clone(2) and clone3(2) fail as at `pids.max`. See seccomp(2);
# the numbers are those of x86_64 and, for clone, of arm64.
EXECUTE_WITHOUT_THREADS = """
import ctypes, errno, os, platform, struct, sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
statements = [
    (LOAD, 0, 0, 0),  # seccomp_data.nr
    (EQUAL, 1, 0, CLONE),
    (EQUAL, 0, 1, 435),  # clone3
    (RETURN, 0, 0, 0x00050000 | errno.EAGAIN),
    (RETURN, 0, 0, 0x7FFF0000),
]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *statement) for statement in statements))
described = struct.pack("@HP", len(statements), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, described, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
try:
    os.fork()
except BlockingIOError:
    os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("with_result", [True, False])
def test_del_without_threads_removes_everything(node: Node, direct_bin_dir: Path, *, with_result: bool) -> None:
    network = Network(node, direct_bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    network.add("first")
    network.succeed("DEL", "first")
    before = node.state()
    result = network.add("one")
    environment = {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": network.namespace("one"),
        "CNI_PATH": str(direct_bin_dir),
    }
    config = network.config | ({"prevResult": result} if with_result else {})
    command = [sys.executable, "-c", EXECUTE_WITHOUT_THREADS, str(direct_bin_dir / "bridge")]
    ran = node.run(command, env=environment, stdin=json.dumps(config), check=False)

    assert (ran.returncode, ran.stdout) == (0, "")
    node.assert_same_state(before, ignore=["files/*last_reserved_ip*", "*one*"], within=HANG)
