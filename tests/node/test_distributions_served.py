"""Plugins of other distributions through the server: as fast as ours, in one process with their delegates."""

import json
import re
from pathlib import Path

import pytest

from tests.distributions import Environment, plugin_module

pytestmark = pytest.mark.sudo

CONFIG = {"cniVersion": "1.1.0", "name": "net", "type": "other"}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def process_of(stderr: str) -> str:
    [found] = set(re.findall(r"runs in (\d+)", stderr))
    assert isinstance(found, str)
    return found


def test_server_runs_the_foreign_plugin(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    with environment.serving():
        ran = environment.execute("other", "ADD", CONFIG)

        assert ran.returncode == 0, ran.stdout
        assert process_of(ran.stderr) != ran.args[0]


def test_server_logs_a_broken_plugin_and_serves_the_others(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    environment.distribution(
        "broken", {"lost": "nowhere:PLUGIN", "ended": "ended:PLUGIN"}, {"ended.py": "raise SystemExit(3)"}
    )
    with environment.serving() as log:
        assert "the plugin lost, nowhere:PLUGIN, cannot be imported: No module named 'nowhere'" in log.read_text()
        assert "the plugin ended, ended:PLUGIN, cannot be imported: 3" in log.read_text()
        ran = environment.execute("other", "ADD", CONFIG)
        assert process_of(ran.stderr) != ran.args[0]
        for name, error in {"lost": "No module named 'nowhere'", "ended": "SystemExit: 3"}.items():
            failed = environment.execute(name, "ADD", CONFIG)
            assert (failed.returncode, json.loads(failed.stdout)["code"]) == (1, 999)
            assert error in json.loads(failed.stdout)["msg"]
    assert "left to the launcher" not in log.read_text()


def test_upgraded_plugin_runs_its_new_code(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    with environment.serving() as log:
        module = environment.site / "some_module.py"
        module.write_text(plugin_module("other", "2.10.0"))
        environment.install(str(environment.folder / "server.sock"))

        ran = environment.execute("other", "ADD", CONFIG)

        assert "other: 2.10.0 runs in" in ran.stderr
        assert process_of(ran.stderr) == ran.args[0]
        assert "left to the launcher: a launcher of another installation" in log.read_text()


def test_a_server_without_an_unambiguous_list_says_so_and_ends(environment: Environment) -> None:
    environment.plugin("one", "other", "one_module")
    environment.plugin("two", "other", "two_module")

    failed = environment.run("serve", "--socket", str(environment.folder / "server.sock"), check=False)

    assert failed.returncode == 1
    assert failed.stderr == 'cni-harness server: both one and two have a plugin "other": uninstall one\n'
