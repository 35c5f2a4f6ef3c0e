"""The worked example of docs/writing-a-plugin.md, and what else that page tells to type."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from skel import SUPPORTED
from tests.distributions import WITHOUT_REGISTRY, Environment, virtual_environment
from tests.nodes import BARE_PATH, Node, PluginRun
from tests.pages import commands

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "pod_sysctl.py"
PAGE = (DOCS / "writing-a-plugin.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

KEEPALIVE = "net/ipv4/tcp_keepalive_time"
PORTS = "net/ipv4/ip_local_port_range"
CONFIG = {"cniVersion": "1.0.0", "name": "net", "type": "pod-sysctl", "sysctls": {KEEPALIVE: "60"}}
PREV_RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/pod"}],
    "ips": [{"address": "192.0.2.5/24", "gateway": "192.0.2.1", "interface": 0}],
    "routes": [{"dst": "0.0.0.0/0"}],
    "dns": {"nameservers": ["192.0.2.53"]},
}

Run = Callable[..., PluginRun]


def block(language: str, containing: str) -> str:
    [text] = [text for written_in, text in BLOCKS if written_in == language and containing in text]
    return text


def parameter(node: Node, key: str, netns: str | None = None) -> str:
    return node.run(["cat", f"/proc/sys/{key}"], netns=netns).stdout.strip()


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin author's folder, in which the page's commands were typed, but for those that attach pods."""
    folder = tmp_path_factory.mktemp("author")
    shutil.copytree(DOCS, folder / "docs")
    virtual_environment(folder / ".venv")
    environment = {
        "PATH": f"{folder}/.venv/bin:{BARE_PATH}",
        "CNI_HARNESS_STATE_DIR": str(folder / "state"),
        **WITHOUT_REGISTRY,
    }
    for command in commands("docs/writing-a-plugin.md"):
        if "--node" not in command:
            subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def pod(node: Node) -> str:
    return node.pod_namespace("pod")


@pytest.fixture
def plugin(node: Node, author: Path, pod: str) -> Run:
    return partial(node.plugin, author / "bin", "pod-sysctl", container_id="c1", ifname="eth0", netns=pod)


class TestPage:
    def test_page_shows_the_exact_example(self) -> None:
        assert block("python", "pod-sysctl: goes after") == EXAMPLE.read_text()

    def test_page_shows_the_declaration_of_the_example(self) -> None:
        assert block("toml", "pod-sysctl") == (EXAMPLE.parent / "pyproject.toml").read_text()

    def test_the_example_is_short(self) -> None:
        assert len(EXAMPLE.read_text().splitlines()) <= 40

    def test_the_typed_configuration_answers_as_the_page_says(self) -> None:
        names: dict[str, Any] = {}
        exec(block("python", "class Pairs"), names)  # noqa: S102 -- the page's own code

        assert names["Pairs"].decode({"PAIRCOUNT": 4}).pair_count == 4
        with pytest.raises(Exception, match=r"^pairCount: expected an even number, got 3$") as raised:
            names["Pairs"].decode({"pairCount": 3})
        assert str(raised.value) in PAGE

    def test_the_result_can_be_built(self) -> None:
        names: dict[str, Any] = {}
        exec(block("python", "result = Result"), names)  # noqa: S102 -- the page's own code

        assert names["result"].encode_as("1.0.0")["routes"] == [{"dst": "0.0.0.0/0"}]

    def test_listed_decoders_exist(self) -> None:
        import skel

        listed = re.search(r"Decoders are (.*?)\. Your own", PAGE, re.DOTALL)
        assert listed is not None
        names = re.findall(r"`(\w+)(?:\([^`]*\))?`", listed[1])

        assert [name for name in names if not hasattr(skel, name)] == []
        assert len(names) > 10


class TestExample:
    def test_add_sets_the_parameters_of_the_pod_alone(self, node: Node, pod: str, plugin: Run) -> None:
        on_the_node = parameter(node, KEEPALIVE)

        run = plugin("ADD", {**CONFIG, "prevResult": PREV_RESULT})

        assert run == (0, PREV_RESULT, "")
        assert parameter(node, KEEPALIVE, pod) == "60"
        assert parameter(node, KEEPALIVE) == on_the_node != "60"

    @pytest.mark.parametrize("version", SUPPORTED)
    def test_example_answers_in_every_version(self, plugin: Run, version: str) -> None:
        assert plugin("ADD", {**CONFIG, "cniVersion": version}) == (0, {"cniVersion": version}, "")

    def test_check_sees_a_changed_parameter(self, node: Node, pod: str, plugin: Run) -> None:
        config = {**CONFIG, "sysctls": {KEEPALIVE: "60", PORTS: "2000 3000"}, "prevResult": PREV_RESULT}
        plugin("ADD", config)
        assert plugin("CHECK", config) == (0, None, "")

        node.run(["sh", "-c", f"echo 61 > /proc/sys/{KEEPALIVE}"], netns=pod)
        run = plugin("CHECK", config)

        assert (run.code, run.stdout["code"], run.stdout["msg"]) == (1, 999, f"{KEEPALIVE}: expected 60, found 61")

    @pytest.mark.parametrize("netns", [None, "", "/run/netns/gone-long-ago"])
    def test_delete_succeeds_though_the_pod_is_gone(self, plugin: Run, netns: str | None) -> None:
        assert plugin("DEL", CONFIG, netns=netns) == (0, None, "")

    # A parameter that nobody can write: should the guard be lost, the machine that runs this test is not changed.
    @pytest.mark.parametrize("key", ["kernel/osrelease", "net/../kernel/osrelease"])
    def test_sysctls_outside_the_network_are_refused(self, plugin: Run, key: str) -> None:
        run = plugin("ADD", {**CONFIG, "sysctls": {key: "changed"}})

        assert (run.code, run.stdout["code"]) == (1, 7)
        assert run.stdout["msg"] == f'sysctls: "{key}" is no parameter of a network'

    def test_a_value_that_is_no_string_is_named(self, plugin: Run) -> None:
        run = plugin("ADD", {**CONFIG, "sysctls": {KEEPALIVE: 60}})

        assert (run.code, run.stdout["code"]) == (1, 7)
        assert run.stdout["msg"] == f"sysctls.{KEEPALIVE}: expected a string, got 60"


class TestServed:
    """The example is served like the plugins of this project."""

    def test_server_runs_the_foreign_plugin(self, node: Node, author: Path, pod: str, tmp_path: Path) -> None:
        environment = Environment(tmp_path / "environment")
        environment.python = str(author / ".venv" / "bin" / "python")
        with environment.serving() as log:
            run = node.plugin(
                environment.bin_dir, "pod-sysctl", "ADD", CONFIG, container_id="c1", ifname="eth0", netns=pod
            )

            assert run == (0, {"cniVersion": "1.0.0"}, "")
            assert parameter(node, KEEPALIVE, pod) == "60"
        assert "ended after 1 requests" in log.read_text()


class TestTesting:
    """The test that the page proposes, with the suite's own bridge before the example."""

    def test_documented_pytest_example_passes(self, author: Path, tmp_path: Path) -> None:
        (author / "test_pod_sysctl.py").write_text(block("python", "pytest.mark.sudo"))
        options = ["-q", "-p", "no:cacheprovider", "--rootdir=.", f"--basetemp={tmp_path / 'nested'}"]

        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "test_pod_sysctl.py"],
            cwd=author,
            capture_output=True,
            text=True,
            check=False,
        )

        assert run.returncode == 0, run.stdout + run.stderr
        assert "1 passed" in run.stdout
