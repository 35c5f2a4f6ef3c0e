"""Every command of README.md, typed one after the other on a node that stands for a fresh machine."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.nodes import HANG, Node

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


def commands(page: str) -> list[str]:
    """The lines after a root shell's prompt in the `console` blocks of a page."""
    blocks = _BLOCK.findall((ROOT / page).read_text())
    return [line.removeprefix("# ") for block in blocks for line in block.splitlines() if line.startswith("# ")]


def test_every_command_does_what_it_says(fresh_machine: Node) -> None:
    # The node has no way to a package index: what `make up` would install is installed before.
    subprocess.run(["make", "-C", ROOT, "venv"], check=True, capture_output=True, timeout=HANG)
    typed = commands("README.md")
    assert len(typed) > 20
    assert typed[:2] == ["make up", "make test"]
    assert "--clear" not in fresh_machine.run(["make", "-C", ROOT, "-n", "up"]).stdout
    for command in typed:
        # This test is part of `make test`, so that one is only planned.
        line = "make -n test" if command == "make test" else command
        ran = fresh_machine.run(["sh", "-c", f"cd {ROOT} && {line}"], check=False, timeout=HANG)

        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        if command.startswith("cni-harness install"):
            installed = fresh_machine.run(["sh", "-c", "ls /opt/cni/bin /etc/cni/net.d"]).stdout
            assert {"bridge", "host-local", "loopback", "noop", "10-cni-harness.conflist"} <= set(installed.split())
    fresh_machine.run(["cni-harness", "uninstall"])
    assert fresh_machine.run(["sh", "-c", "ls /opt/cni/bin /etc/cni/net.d"], check=False).stdout.split() in (
        [],
        ["/etc/cni/net.d:", "/opt/cni/bin:"],
    )
    fresh_machine.run(["make", "-C", ROOT, "down"])
    assert [link["ifname"] for link in fresh_machine.ip("link")] == ["lo"]


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    missing = [link for link in _LINK.findall((ROOT / page).read_text()) if not (folder / link).exists()]

    assert missing == []


def test_the_bridge_page_has_every_key() -> None:
    from plugins.bridge_config import BridgeConfig
    from skel import Config

    page = (ROOT / "docs/bridge.md").read_text()
    own = BridgeConfig._fields.keys() - Config._fields.keys()
    keys = {BridgeConfig._fields[key].key for key in own} - {"args", "runtimeConfig"}
    assert [key for key in sorted(keys) if f"| `{key}` |" not in page] == []
