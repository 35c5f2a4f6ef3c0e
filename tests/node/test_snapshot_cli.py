"""`cni-harness snapshot`, `diff` and `add --diff` on a node with our plugins."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.snapshot import Snapshot, differences
from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network

# What host-local keeps between pods, and the folders that its first reservation makes.
KEPT = "files/file/*/networks*"


@pytest.fixture
def cli(own_cli: Cli) -> Cli:
    own_cli.configure(bridge_network("test", ipMasq=True))
    return own_cli


def lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line[:2] in {"+ ", "- ", "~ "}]


def snapshot(cli: Cli, file: str, *args: str) -> Path:
    path = cli.folder / file
    path.write_text(cli.run("snapshot", "-o", "json", *args).stdout)
    return path


def warm(cli: Cli) -> None:
    """Have the bridge and the tables made that stay when the pods are gone."""
    cli.run("add", "first")
    cli.run("del", "first")


def test_add_with_diff_lists_the_changes_of_the_plugins(cli: Cli) -> None:
    run = cli.run("add", "pod1", "--diff")

    [pod] = cli.pods()
    host_veth = pod["networks"][0]["result"]["interfaces"][1]["name"]
    told = [line.partition(" (")[0] for line in lines(run.stdout)]
    assert [line for line in told if "/lock" not in line and " nft " not in line] == [
        "+ node: link test0",
        f"+ node: link {host_veth}",
        "+ node: address 10.77.0.1/16 dev test0",
        "+ node: route 10.77.0.0/16 dev test0",
        "~ node: sysctl net.ipv4.ip_forward: 0 -> 1",
        *[line for line in told if "node: sysctl" in line and ".conf." in line],
        "+ pod1: link eth0",
        "+ pod1: address 10.77.0.2/16 dev eth0",
        "+ pod1: route 10.77.0.0/16 dev eth0",
        "+ pod1: route default via 10.77.0.1 dev eth0",
        *[line for line in told if "pod1: sysctl" in line],
        *[line for line in told if "files:" in line and "/lock" not in line],
    ]
    assert any("nft element" in line and "10.77.0.2" in line for line in told)
    assert any(line.endswith("/networks/test/10.77.0.2") for line in told)
    assert not any("/results" in line for line in told)


def test_diff_of_a_second_pod_has_only_its_own_things(cli: Cli) -> None:
    cli.run("add", "pod1")
    document = cli.json("add", "pod2", "--diff")

    told = {(each["kind"], each["place"], each["thing"]) for each in document["diff"]}
    assert {name for _, place, name in told if place == "node"} <= {"link", "nft element", "sysctl"}
    assert [each["name"] for each in document["diff"] if each["place"] == "pod2" and each["thing"] == "address"] == [
        "10.77.0.3/16 dev eth0"
    ]
    assert all(each["words"][2:].startswith(each["place"]) for each in document["diff"])
    assert [pod["name"] for pod in document["pods"]] == ["pod2"]


def test_add_of_a_pod_that_is_there_tells_nothing(cli: Cli) -> None:
    cli.run("add", "pod1")

    assert lines(cli.run("add", "--exist-ok", "--diff", "pod1").stdout) == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_add_that_fails_leaves_nothing(cli: Cli) -> None:
    warm(cli)
    broken = bridge_network("broken")
    broken["plugins"][0]["bridge"] = "test0"
    broken["plugins"].append({"type": "fails"})
    cli.plugin("fails", 'test "$CNI_COMMAND" = DEL || { echo "{\\"code\\": 100, \\"msg\\": \\"no\\"}"; exit 1; }\n')
    cli.configure(bridge_network("test", ipMasq=True), broken)
    before = snapshot(cli, "before.json")
    failed = cli.run("add", "pod1", "--network", "broken", "--diff", check=False)
    assert failed.returncode == 1
    # What host-local keeps of a network that has had a reservation; none is left.
    kept = {line.partition(" (")[0].rpartition("/")[2] for line in lines(failed.stdout)}
    assert kept == {"broken", ".owners", "last_reserved_ip.0", "lock"}

    diff = cli.run("diff", str(before), "--ignore", KEPT, check=False)

    assert (diff.returncode, diff.stdout, diff.stderr) == (0, "", "")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_add_and_del_leave_nothing(cli: Cli) -> None:
    warm(cli)
    before = snapshot(cli, "before.json")
    cli.run("add", "pod1")
    between = cli.run("diff", str(before), check=False)
    assert between.returncode == 1
    assert any("10.77.0.3" in line for line in lines(between.stdout))
    cli.run("del", "pod1")

    after = cli.run("diff", str(before), "--ignore", KEPT, check=False)

    assert (after.returncode, after.stdout, after.stderr) == (0, "", "")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_two_files_are_compared(cli: Cli) -> None:
    warm(cli)
    before = snapshot(cli, "before.json")
    cli.run("add", "pod1")
    after = snapshot(cli, "after.json")

    run = cli.run("diff", str(before), str(after), check=False)
    back = cli.run("diff", str(after), str(before), check=False)

    assert (run.returncode, back.returncode) == (1, 1)
    assert sorted(line.replace("+ ", "- ", 1) for line in lines(run.stdout) if line[0] == "+") == sorted(
        line for line in lines(back.stdout) if line[0] == "-"
    )
    assert cli.run("diff", str(after), str(after)).stdout == ""
    assert cli.json("diff", str(after), str(after)) == {"diff": []}
    document = json.loads(cli.run("diff", str(before), str(after), "-o", "json", check=False).stdout)
    assert [each["words"] for each in document["diff"]] == lines(run.stdout)


def test_diff_of_an_invalid_snapshot_returns_2(cli: Cli, tmp_path: Path) -> None:
    empty = Snapshot({}).to_document()
    texts = {
        "not JSON": "POD  INTERFACE",
        "not a snapshot": "{}",
        "format 7": '{"format": 7}',
        "label 'a/b'": json.dumps(empty | {"namespaces": {"a/b": "/run/netns/a"}}),
        "namespaces: wanted a path, not 1": json.dumps(empty | {"namespaces": {"a": 1}}),
        "surrogates not allowed": json.dumps(empty | {"namespaces": {"a": "\ud800"}}),
        "Not a directory": json.dumps(empty | {"namespaces": {"a": "/dev/null/a"}}),
    }
    for words, text in texts.items():
        (tmp_path / "no.json").write_text(text)
        run = cli.run("diff", str(tmp_path / "no.json"), check=False)

        assert (run.returncode, run.stdout) == (2, "")
        assert words in run.stderr
        assert len(run.stderr.splitlines()) == 1
    (tmp_path / "no.json").write_text("[" * 100_000)
    assert cli.run("diff", str(tmp_path / "no.json"), check=False).returncode == 2
    assert cli.run("diff", str(tmp_path / "none.json"), check=False).returncode == 2


def test_a_snapshot_of_chosen_places(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("yes")
    cli.run("add", "pod1", "pod2")
    [netns] = [pod["netns"] for pod in cli.pods() if pod["name"] == "pod2"]

    whole, one = (json.loads(cli.run("snapshot", "-o", "json", *args).stdout) for args in ((), ("--pod", "pod2")))
    other = json.loads(
        cli.run("snapshot", "-o", "json", "--netns", f"it={netns}", "--folder", str(tmp_path / "seen")).stdout
    )

    assert list(whole["namespaces"]) == ["node", "pod1", "pod2"]
    assert whole["folders"] == [str(cli.var_lib_cni)]
    assert list(one["namespaces"]) == ["node", "pod2"]
    assert other["namespaces"] == {"it": netns}
    assert other["sections"]["files"][str(tmp_path / "seen")]["text"] == "yes"
    assert other["sections"]["it/links"] == {
        name: link | ({"peer": "elsewhere"} if "peer" in link else {})
        for name, link in one["sections"]["pod2/links"].items()
    }


def test_the_table_is_for_people(cli: Cli) -> None:
    cli.run("add", "pod1")
    shown = cli.run("snapshot").stdout.splitlines()

    assert shown[0].split() == ["PLACE", "WHAT", "STATE"]
    assert any(line.split()[:3] == ["pod1", "addresses", "10.77.0.2/16"] for line in shown)
    assert any("/networks/test/10.77.0.2 (" in line for line in shown)
    assert len(shown) < 100


def test_a_node_that_is_not_there_is_not_made(cli: Cli) -> None:
    run = cli.run("snapshot", "--node", "t-none", check=False)

    assert (run.returncode, run.stdout) == (1, "")
    assert "there is no node t-none" in run.stderr
    assert subprocess.run(["ip", "netns", "pids", "t-none"], capture_output=True, check=False).returncode != 0


def test_two_snapshots_without_changes_are_equal(cli: Cli) -> None:
    cli.run("add", "pod1")
    before, after = (
        Snapshot.from_document(json.loads(snapshot(cli, name).read_text())) for name in ("one.json", "two.json")
    )

    assert differences(before, after) == []


def diff_lines(cli: Cli, *args: str) -> list[str]:
    """A verb's words on its difference, each without the part in parentheses."""
    return [line.partition(" (")[0] for line in lines(cli.run(*args, "--diff").stdout)]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_delete_with_diff_lists_freed_things(cli: Cli) -> None:
    cli.run("add", "stays")
    cli.run("add", "pod1")
    pod = next(pod for pod in cli.pods() if pod["name"] == "pod1")
    host_veth = pod["networks"][0]["result"]["interfaces"][1]["name"]
    assert host_veth in {link["ifname"] for link in cli.ip("link")}

    told = diff_lines(cli, "del", "pod1")

    assert [line for line in told if "sysctl" not in line and "owners" not in line] == [
        f"- node: link {host_veth}",
        "- node: nft element inet cni_harness_masquerade subnet-10.77.0.0-16 { 10.77.0.3 }",
        f"- pod1: namespace {pod['netns']}",
        f"- files: file {cli.var_lib_cni}/networks/test/10.77.0.3",
    ]
    assert cli.reservations("test") == {"10.77.0.2"}
    assert host_veth not in {link["ifname"] for link in cli.ip("link")}


def test_delete_that_frees_nothing_tells_nothing(cli: Cli) -> None:
    cli.run("add", "stays")

    assert diff_lines(cli, "del", "nobody") == []
    assert cli.json("del", "nobody", "--diff") == {"deleted": [], "diff": []}


def test_delete_with_prune_tells_of_the_bridge_too(cli: Cli) -> None:
    cli.run("add", "pod1", "pod2")

    told = diff_lines(cli, "del", "--all", "--prune")

    assert "- node: link test0" in told
    assert {line for line in told if line.startswith("- pod")} == {
        line for line in told if line.startswith(("- pod1: namespace ", "- pod2: namespace "))
    }
    assert not Path(f"/run/netns/{cli.node}").exists()


def test_delete_with_diff_of_a_pod_without_sandbox_lists_its_leftovers(cli: Cli) -> None:
    cli.run("add", "stays")
    (pod,) = cli.add("pod1")
    remove_namespace(pod["netns"])

    told = diff_lines(cli, "del", "pod1")

    assert f"- files: file {cli.var_lib_cni}/networks/test/10.77.0.3" in told
    assert not [line for line in told if "pod1:" in line]


def test_gc_with_diff_lists_freed_things(cli: Cli) -> None:
    cli.configure(bridge_network("test", ipMasq=True, version="1.1.0"))
    cli.run("add", "kept")
    (lost,) = cli.add("lost")
    remove_namespace(lost["netns"])
    shutil.rmtree(cli.node_dir / "pods" / "default_lost")
    (cli.var_lib_cni / "networks" / "test" / "10.77.0.99").write_bytes(b"f" * 64 + b"\r\neth0")

    document = cli.json("gc", "--diff")

    freed = [each["words"].partition(" (")[0] for each in document["diff"] if each["kind"] == "disappeared"]
    folder = f"{cli.var_lib_cni}/networks/test"
    assert [line for line in freed if "/networks/test/10." in line] == [
        f"- files: file {folder}/10.77.0.3",
        f"- files: file {folder}/10.77.0.99",
    ]
    assert "- node: nft element inet cni_harness_masquerade subnet-10.77.0.0-16 { 10.77.0.3 }" in freed
    assert not any("10.77.0.2" in line or "kept:" in line for line in freed)
    assert cli.reservations("test") == {"10.77.0.2"}


def test_gc_without_anything_to_free_tells_nothing(cli: Cli) -> None:
    cli.run("add", "kept")

    assert diff_lines(cli, "gc") == []
