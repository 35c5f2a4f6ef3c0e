"""A real firewalld in a node, with its configuration, its log and its bus to itself."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.nodes import HANG, Node, until

_BUS = """
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


class Firewalld(NamedTuple):
    """The processes on a node, whose environment names the bus."""

    bus: subprocess.Popen[str]
    daemon: subprocess.Popen[str]


@contextmanager
def running_firewalld(node: Node, folder: Path) -> Iterator[Firewalld]:
    """Run a bus and firewalld for as long as the block lasts, with their files below `folder`."""
    (folder / "bus.conf").write_text(_BUS.format(folder / "bus").lstrip())
    node.environment["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={folder}/bus"
    with node.background(["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--nopidfile"]) as bus:
        until((folder / "bus").exists)
        with running_daemon(node, folder) as daemon:
            yield Firewalld(bus, daemon)


@contextmanager
def running_daemon(node: Node, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run firewalld alone, on the bus that is there; it answers when the block begins."""
    (settings := folder / "firewalld").mkdir(exist_ok=True)
    log = ["--log-target", "file", "--log-file", str(folder / "firewalld.log")]
    with node.background(["firewalld", "--nofork", "--nopid", "--system-config", str(settings), *log]) as daemon:

        def is_running() -> bool:
            assert daemon.poll() is None, (folder / "firewalld.log").read_text()
            return node.run(["firewall-cmd", "--state"], check=False, timeout=HANG).returncode == 0

        until(is_running)
        yield daemon


def sources(node: Node, zone: str = "trusted") -> list[str]:
    """The sources of a zone, as firewalld lists them."""
    return node.run(["firewall-cmd", f"--zone={zone}", "--list-sources"]).stdout.split()
