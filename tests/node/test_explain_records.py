"""Records of runs: who may read them, how many are kept, and the page of a pod without one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.explained import chain, explained, host_veth

pytestmark = pytest.mark.sudo


def runs(cli: Cli) -> list[Path]:
    return sorted((cli.node_dir / "runs").glob("*.json"))


def test_without_a_record_the_page_has_the_present_state(own_cli: Cli) -> None:
    own_cli.configure(chain())
    own_cli.run("add", "pod1", "-p", "8080:80")

    page = explained(own_cli, "pod1")

    [it] = own_cli.pods()
    assert not (own_cli.node_dir / "runs").exists()
    assert page.facts()["container ID"] == it["containerID"]
    assert page.sections.keys() >= {"summary", "node", "networks", "repeat"}
    assert "timeline" not in page.sections
    assert host_veth(own_cli, it["netns"]) in page.sections["node"]
    named = page.texts("pre")[-1].splitlines()[-1]
    assert named.endswith("add pod1 --record")
    assert f"--node {own_cli.node}" in named


def test_explain_of_an_unknown_pod_is_an_error(own_cli: Cli) -> None:
    own_cli.configure(chain())
    own_cli.run("add", "pod1")

    ran = own_cli.run("explain", "pod2", "-o", "-", check=False)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "Error: there is no pod default/pod2, and no record of a run with it\n"


@pytest.mark.slow("whole runs are recorded; one record is in make test")
def test_records_are_for_root_alone_and_go_with_the_node(own_cli: Cli) -> None:
    own_cli.configure(chain())
    for _ in range(2):
        own_cli.run("add", "pod1", "--record")
        own_cli.run("del", "pod1", "--record")

    assert len(runs(own_cli)) == 4
    assert {path.stat().st_mode & 0o777 for path in runs(own_cli)} == {0o600}
    assert (own_cli.node_dir / "runs").stat().st_mode & 0o777 == 0o700
    ran = own_cli.run("del", "--all", "--prune", "--record")
    assert "no record is kept" in ran.stderr
    assert not own_cli.node_dir.exists()


def test_a_spoilt_record_is_named(own_cli: Cli) -> None:
    own_cli.configure(chain())
    own_cli.run("add", "pod1", "--record")
    [path] = runs(own_cli)
    document = json.loads(path.read_text())

    spoilings: list[object] = [document | {"format": 2}, {"format": 1}, []]
    for spoilt in spoilings:
        path.write_text(json.dumps(spoilt))
        ran = own_cli.run("explain", "pod1", check=False)
        assert ran.returncode == 1
        assert ran.stderr.startswith(f"Error: {path}: ")
    path.write_text("{")
    assert own_cli.run("explain", "pod1", check=False).stderr.startswith(f"Error: {path}: ")


def test_records_of_twenty_runs_are_kept(make_cli: Callable[[Path], Cli], direct_bin_dir: Path) -> None:
    cli = make_cli(direct_bin_dir)
    cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})
    cli.run("add", "pod1", "--record")
    [first] = runs(cli)
    for number in range(20):
        (first.parent / f"20000101T0000{number:02}.000Z-add.json").write_text(first.read_text())

    cli.run("del", "pod1", "--record")

    assert len(runs(cli)) == 20
    assert first in runs(cli)
    assert not (first.parent / "20000101T000000.000Z-add.json").exists()
