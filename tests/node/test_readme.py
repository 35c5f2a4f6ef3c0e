"""Every command of the documentation, typed one after the other on a node that stands for a fresh machine."""

import re
import shlex
from pathlib import Path

import pytest

from tests.nodes import Node
from tests.pages import PAGES, commands

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!http)([^)#]*)#?([^)]*)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def test_every_command_of_the_readme_works(fresh_machine: Node) -> None:
    typed = commands("README.md")
    assert len(typed) > 8
    assert typed[:2] == ["make up", "make test"]
    for command in typed:
        # This test is part of `make test`, so that one is only planned.
        run(fresh_machine, "make -n test" if command == "make test" else command)
        if command.startswith("cni-harness install"):
            installed = fresh_machine.run(["sh", "-c", "ls /opt/cni/bin /etc/cni/net.d"]).stdout
            assert {"bridge", "host-local", "loopback", "noop", "10-cni-harness.conflist"} <= set(installed.split())
    fresh_machine.run(["cni-harness", "uninstall"])
    assert fresh_machine.run(["sh", "-c", "ls /opt/cni/bin /etc/cni/net.d"], check=False).stdout.split() in (
        [],
        ["/etc/cni/net.d:", "/opt/cni/bin:"],
    )
    run(fresh_machine, "make down")
    assert [link["ifname"] for link in fresh_machine.ip("link")] == ["lo"]


@pytest.mark.time_limit(600, "a page has up to a hundred commands")
@pytest.mark.mostly_slow(8, "pages of docs; README.md is in make test")
@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md" and commands(page)])
def test_every_command_of_a_page_works(fresh_machine: Node, page: str) -> None:
    """Nothing but the page prepares its commands: folders, network lists, plugins."""
    for command in commands(page):
        run(fresh_machine, command)

    assert fresh_machine.run(["ls", "/run/netns"]).stdout == ""
    assert [link["ifname"] for link in fresh_machine.ip("link")] == ["lo"]


def run(machine: Node, command: str) -> None:
    ran = machine.run(["sh", "-c", f"cd {shlex.quote(str(ROOT))} && {command}"], check=False)

    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_documents_have_targets(page: str) -> None:
    folder = (ROOT / page).parent
    missing = [
        link
        for link, anchor in _LINK.findall((ROOT / page).read_text())
        if not (target := folder / link if link else ROOT / page).exists()
        or (anchor and anchor not in anchors(target.read_text()))
    ]

    assert missing == []


def anchors(text: str) -> set[str]:
    """The names that forges and the site give to a page's headings."""
    words = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in _HEADING.findall(text)]
    return {re.sub(r"\s+", "-", each.strip()) for each in words}


def test_the_bridge_page_has_every_key() -> None:
    from plugins.bridge.config import BridgeConfig
    from skel import Config

    page = (ROOT / "docs/bridge.md").read_text()
    own = BridgeConfig._fields.keys() - Config._fields.keys()
    keys = {BridgeConfig._fields[key].key for key in own} - {"args", "runtimeConfig"}
    assert [key for key in sorted(keys) if f"| `{key}` |" not in page] == []
