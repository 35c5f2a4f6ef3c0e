"""STATUS and GC from the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import create_namespace
from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo


def network(name: str, type: str, version: str = "1.1.0", **keys: object) -> dict[str, Any]:
    return {"cniVersion": version, "name": name, "plugins": [{"type": type}], **keys}


@pytest.fixture
def keeper(own_cli: Cli) -> Cli:
    """A node, and a plugin that keeps the configuration of its last GC, and is never ready."""
    create_namespace(f"/run/netns/{own_cli.node}")
    own_cli.plugin(
        "keeper",
        f"""config=$(cat)
case "$CNI_COMMAND" in
ADD) echo '{{"cniVersion": "1.1.0"}}';;
GC) echo "$config" > {own_cli.folder}/gc.json;;
STATUS) echo '{{"cniVersion": "1.1.0", "code": 50, "msg": "out of addresses"}}'; exit 1;;
esac
""",
    )
    return own_cli


def valid_attachments(cli: Cli) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = json.loads((cli.folder / "gc.json").read_text())["cni.dev/valid-attachments"]
    return listed


def test_status_shows_the_error_code_of_an_unready_network(keeper: Cli) -> None:
    keeper.configure(network("good", "noop"), network("full", "keeper"))

    failed = keeper.run("status", "-o", "json", check=False)

    assert failed.returncode == 1
    good, full = json.loads(failed.stdout)["networks"]
    assert good == {"name": "good", "ready": True, "code": 0, "message": "", "warnings": []}
    assert (full["ready"], full["code"]) == (False, 50)
    assert "out of addresses" in full["message"]


def test_status_says_the_code_once(keeper: Cli) -> None:
    keeper.configure(network("full", "keeper"))

    _, row = keeper.run("status", check=False).stdout.splitlines()

    assert re.fullmatch(r"full +not ready +50 +plugin keeper: out of addresses", row)


def test_status_shows_warnings_of_ready_plugins(keeper: Cli) -> None:
    keeper.plugin("warner", "[ $CNI_COMMAND = STATUS ] && echo 'warner: warning: the last address is gone' >&2")
    keeper.configure(network("good", "noop"), network("full", "warner"))

    good, full = keeper.json("status")["networks"]

    assert good["warnings"] == []
    assert (full["ready"], full["warnings"]) == (True, ["warner: warning: the last address is gone"])
    assert "the last address is gone" in keeper.run("status").stdout


def test_status_of_one_network(keeper: Cli) -> None:
    keeper.configure(network("good", "noop"), network("full", "keeper"))

    assert [each["name"] for each in keeper.json("status", "--network", "good")["networks"]] == ["good"]


def test_status_below_its_version_looks_for_the_plugins(keeper: Cli) -> None:
    keeper.configure(network("old", "keeper", "1.0.0"), network("gone", "missing", "1.0.0"))

    failed = keeper.run("status", "-o", "json", check=False)

    assert [each["ready"] for each in json.loads(failed.stdout)["networks"]] == [True, False]


def test_status_of_a_list_that_cannot_be_read_is_not_ready(keeper: Cli) -> None:
    keeper.configure(network("good", "noop"))
    (keeper.conf_dir / "99-broken.conflist").write_text("{")

    failed = keeper.run("status", "-o", "json", check=False)

    assert failed.returncode == 1
    broken, good = json.loads(failed.stdout)["networks"]
    assert (broken["name"], broken["ready"]) == ("", False)
    assert "99-broken.conflist: line 1" in broken["message"]
    assert (good["name"], good["ready"]) == ("good", True)
    assert keeper.json("status", "--network", "good")["networks"] == [good]


def test_status_without_any_list_is_an_error(keeper: Cli) -> None:
    failed = keeper.run("status", check=False)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith(f"Error: {keeper.conf_dir}: no network lists")


def test_network_among_lists_that_cannot_be_read_is_an_error(keeper: Cli) -> None:
    (keeper.conf_dir / "99-broken.conflist").write_text("{")

    failed = keeper.run("add", "pod1", check=False)

    assert (failed.returncode, keeper.pods()) == (1, [])
    warning, error = failed.stderr.splitlines()
    assert warning.startswith(f"Warning: {keeper.conf_dir}/99-broken.conflist: line 1")
    assert error == f"Error: {keeper.conf_dir}: no network list that can be used"


def test_gc_names_the_pods_on_record(keeper: Cli) -> None:
    keeper.configure(network("net", "keeper"), network("other", "noop"))
    pods = keeper.add("pod1", "pod2")
    keeper.add("pod3", "--network", "other")

    keeper.run("gc")

    assert {(each["containerID"], each["ifname"]) for each in valid_attachments(keeper)} == {
        (pod["containerID"], "eth0") for pod in pods
    }


def test_gc_finds_plugins_on_the_cni_path_of_the_add(keeper: Cli) -> None:
    keeper.configure(network("net", "keeper"))
    (pod,) = keeper.add("pod1")

    keeper.run("gc", env={"CNI_PATH": str(keeper.bin_dir)})

    assert valid_attachments(keeper) == [{"containerID": pod["containerID"], "ifname": "eth0"}]


def test_plugins_of_bin_dir_come_before_the_plugins_of_the_add(keeper: Cli, tmp_path: Path) -> None:
    keeper.configure(network("net", "keeper"))
    keeper.add("pod1")
    other = tmp_path / "other" / "keeper"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\ncat > /dev/null; echo "$CNI_COMMAND $CNI_PATH" >> {tmp_path}/ran\n')
    other.chmod(0o755)

    keeper.run("check", "--bin-dir", str(other.parent))
    keeper.run("del", "pod1", "--bin-dir", str(other.parent))

    path = f"{other.parent}:{keeper.folder}/bin:{keeper.bin_dir}"
    assert (tmp_path / "ran").read_text().splitlines() == [f"CHECK {path}", f"DEL {path}"]


def test_gc_of_one_network_leaves_the_others(keeper: Cli) -> None:
    keeper.configure(network("net", "keeper"), network("other", "noop"))

    keeper.run("gc", "--network", "other")

    assert not (keeper.folder / "gc.json").exists()


def test_gc_is_not_for_networks_that_forbid_it(keeper: Cli) -> None:
    keeper.configure(network("net", "keeper", disableGC=True))

    shown = keeper.run("gc").stdout

    assert shown.splitlines()[1].split() == ["net", "0", "0", "-", "disabled"]
    assert not (keeper.folder / "gc.json").exists()


def test_gc_that_fails_is_an_error_and_the_others_are_done(keeper: Cli) -> None:
    keeper.plugin("broken", 'cat > /dev/null; [ "$CNI_COMMAND" != GC ] || exit 3')
    keeper.configure(network("bad", "broken"), network("net", "keeper"))

    failed = keeper.run("gc", "-o", "json", check=False)

    assert failed.returncode == 1
    bad, good = json.loads(failed.stdout)["networks"]
    assert "plugin broken: GC failed" in bad["error"]
    assert good["error"] == ""
    assert valid_attachments(keeper) == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_gc_frees_addresses_kept_by_a_failing_chained_del(own_cli: Cli, version: str) -> None:
    """As portmap's DEL, which is executed before ours, if it does not speak the list's version."""
    own_cli.plugin(
        "chained",
        """case "$CNI_COMMAND" in
ADD) sed 's/.*"prevResult": *//; s/}$//' ;;
DEL|GC) echo '{"cniVersion": "1.0.0", "code": 1, "msg": "incompatible CNI versions"}'; exit 1;;
esac
""",
    )
    listed = bridge_network("net", version=version)
    listed["plugins"].append({"type": "chained"})
    own_cli.configure(listed)
    for pod in ("pod1", "pod2"):
        own_cli.add(pod)
    assert own_cli.reservations("net") == {"10.77.0.2", "10.77.0.3"}

    assert "incompatible CNI versions" in own_cli.run("del", "--force", "pod1", check=False).stderr
    assert "10.77.0.2" in own_cli.reservations("net")
    freed = own_cli.run("gc", check=False)

    assert own_cli.reservations("net") == {"10.77.0.3"}
    assert len(own_cli.ip("link", "show", "master", "net0")) == 1
    assert freed.returncode == 1
    assert "incompatible CNI versions" in freed.stdout
