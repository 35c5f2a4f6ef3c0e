"""The second example of docs/writing-a-plugin.md: an interface moves into the pod and comes back."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import entered, open_namespace
from netlink.rtnl import Rtnl
from tests.distributions import Environment
from tests.nodes import Node, PluginRun

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "lend_link.py"
PAGE = EXAMPLE.parents[1] / "writing-a-plugin.md"
MAC = "02:00:00:00:00:77"


class Loans:
    """A node with the interface `spare`, a pod, and the plugin."""

    def __init__(self, node: Node, bin_dir: Path, folder: Path) -> None:
        self.node = node
        self.pod = node.pod_namespace("pod")
        self.folder = folder / "net"
        self.config = {"cniVersion": "1.1.0", "name": "net", "type": "lend-link", "device": "spare"}
        self.config["dataDir"] = str(folder)
        far = ["peer", "name", "far", "netns", node.pod_namespace("far").rpartition("/")[2]]
        node.run(["ip", "link", "add", "spare", "address", MAC, "type", "veth", *far])
        self._plugin = partial(node.plugin, bin_dir, "lend-link")

    def call(self, verb: str, netns: str | None = None, keys: Mapping[str, object] | None = None) -> PluginRun:
        where = partial(self._plugin, container_id="c1", ifname="eth0", netns=self.pod if netns is None else netns)
        return (self._plugin if verb == "GC" else where)(verb, {**self.config, **(keys or {})})

    def names(self, netns: str | None = None) -> dict[str, str]:
        """The MAC of each interface by its name."""
        return {link["ifname"]: link["address"] for link in self.node.ip("link", netns=netns) if link["ifname"] != "lo"}

    def stored(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []

    def assert_back(self) -> None:
        assert self.names() == {"spare": MAC}
        assert self.stored() == []


def block(containing: str) -> str:
    """The page's piece of Python that has this text."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [found] = [text for text in blocks if containing in text]
    return found


@pytest.fixture(params=["served", "direct"])
def loans(request: pytest.FixtureRequest, node: Node, tmp_path: Path) -> Iterator[Loans]:
    environment = Environment(tmp_path / "environment")
    environment.distribution("lend-link", {"lend-link": "lend_link:PLUGIN"}, {"lend_link.py": EXAMPLE.read_text()})
    if request.param == "direct":
        environment.install()
        yield Loans(node, environment.bin_dir, tmp_path / "loans")
        return
    with environment.serving() as log:
        yield Loans(node, environment.bin_dir, tmp_path / "loans")
    assert "ended after 0 requests" not in log.read_text()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_add_lends_and_delete_takes_back(loans: Loans) -> None:
    added = loans.call("ADD")

    assert added.code == 0, added
    assert added.stdout["interfaces"] == [{"name": "eth0", "mac": MAC, "mtu": 1500, "sandbox": loans.pod}]
    assert loans.names() == {}
    assert loans.names(loans.pod) == {"eth0": MAC}
    assert "UP" in loans.node.ip("link", "show", "eth0", netns=loans.pod)[0]["flags"]
    assert loans.stored() == ["c1:eth0"]

    assert loans.call("DEL") == (0, None, "")

    loans.assert_back()
    assert loans.names(loans.pod) == {}


def test_delete_needs_no_namespace_and_may_come_twice(loans: Loans) -> None:
    assert loans.call("ADD").code == 0

    assert loans.call("DEL", netns="") == (0, None, "")
    assert loans.call("DEL", netns="") == (0, None, "")

    loans.assert_back()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_an_add_that_fails_leaves_all_as_it_was(loans: Loans) -> None:
    """The name is taken: the pod's own interface is not mistaken for the one that is lent."""
    loans.node.run(["ip", "link", "add", "eth0", "address", "02:00:00:00:00:01", "type", "bridge"], netns=loans.pod)

    for _ in range(2):
        run = loans.call("ADD")

        assert run.code == 1, run
        assert "undoing after a failure" not in run.stderr
        assert loans.names(loans.pod) == {"eth0": "02:00:00:00:00:01"}
        loans.assert_back()

    loans.node.run(["ip", "link", "delete", "eth0"], netns=loans.pod)
    assert loans.call("ADD").code == 0


def test_a_missing_device_is_named(loans: Loans) -> None:
    run = loans.call("ADD", keys={"device": "none0"})

    assert (run.stdout["code"], run.stdout["msg"]) == (7, 'device: no interface "none0" on this node')
    loans.assert_back()


def test_gc_takes_back_links_of_invalid_attachments(loans: Loans) -> None:
    assert loans.call("ADD").code == 0
    valid = [{"containerID": "c1", "ifname": "eth0"}]

    assert loans.call("GC", keys={"cni.dev/valid-attachments": valid}) == (0, None, "")
    assert loans.names(loans.pod) == {"eth0": MAC}

    assert loans.call("GC", keys={"cni.dev/valid-attachments": []}) == (0, None, "")
    loans.assert_back()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_delete_without_the_pod_forgets_the_loan(loans: Loans) -> None:
    assert loans.call("ADD").code == 0
    path = loans.folder / "c1:eth0"
    path.write_text(json.dumps({**json.loads(path.read_text()), "netns": "/run/netns/gone-long-ago"}))

    run = loans.call("DEL", netns="")

    assert run.code == 0
    assert "is gone" in run.stderr
    assert loans.stored() == []


def test_the_page_shows_a_part_of_the_example() -> None:
    assert block("def take_back") in EXAMPLE.read_text()


def test_the_page_makes_a_link_of_another_kind(node: Node) -> None:
    node.run(["ip", "link", "add", "parent0", "type", "veth", "peer", "name", "parent1"])
    names: dict[str, Any] = {}
    exec(block("def make_macvlan"), names)  # noqa: S102 -- the page's own code

    with (
        open_namespace(node.path) as home,
        entered(home),
        Rtnl() as host,
        open_namespace(node.pod_namespace("pod")) as pod,
    ):
        assert names["make_macvlan"](host, "parent0", pod, "eth0")
        assert not names["make_macvlan"](host, "parent0", pod, "eth0")

    [link] = node.ip("-d", "link", "show", "eth0", netns=pod.path)
    assert (link["linkinfo"]["info_kind"], link["linkinfo"]["info_data"]["mode"]) == ("macvlan", "bridge")
