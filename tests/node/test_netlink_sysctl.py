import subprocess
import sys
from pathlib import Path

import pytest

from netlink.namespace import entered, open_namespace
from netlink.sysctl import read_sysctl, write_sysctl
from tests.nodes import Node

pytestmark = pytest.mark.sudo


def test_sysctls_are_read_and_written_in_the_entered_namespace(node: Node) -> None:
    here = Path("/proc/sys/net/ipv4/ip_forward").read_text()

    with open_namespace(node.path) as namespace, entered(namespace):
        assert read_sysctl("net/ipv4/ip_forward") == "0"
        write_sysctl("net/ipv4/ip_forward", "1")
        assert read_sysctl("net/ipv4/ip_forward") == "1"

    assert node.run(["cat", "/proc/sys/net/ipv4/ip_forward"]).stdout == "1\n"
    assert here == Path("/proc/sys/net/ipv4/ip_forward").read_text()


def test_unchanged_sysctl_is_not_written() -> None:
    # In a container /proc/sys is often mounted read-only; a value that is set already must not fail there.
    script = (
        "from netlink.sysctl import write_sysctl\n"
        "write_sysctl('net/ipv4/ip_forward', '0')\n"
        "try: write_sysctl('net/ipv4/ip_forward', '1')\n"
        "except OSError as error: print(error.strerror)"
    )
    read_only = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'
    run = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", read_only, "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )

    assert run.stdout == "Read-only file system\n"


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        read_sysctl("net/ipv4/no_such_key")
