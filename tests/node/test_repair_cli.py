"""`cni-harness repair`: all live attachments of a node, from what the runtime has cached."""

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.snapshot import differences, take
from netlink.namespace import remove_namespace
from tests.cli import REFERENCE_BIN_DIR, Cli, bridge_network
from tests.nodes import HANG, until

UNKNOWN = "unknown CNI_COMMAND: REPAIR"


def on_node(cli: Cli, *command: str) -> str:
    run = subprocess.run(
        ["ip", "netns", "exec", cli.node, *command], capture_output=True, text=True, timeout=HANG, check=True
    )
    return run.stdout


def rules(cli: Cli) -> dict[str, Any]:
    """The node's tables, by section of a snapshot."""
    sections = take({"node": f"/run/netns/{cli.node}"}, []).sections
    return {name: dict(things) for name, things in sections.items() if name.startswith("node/nft ") and things}


def outcomes(document: dict[str, Any]) -> list[str]:
    return [each["outcome"] for each in document["attachments"]]


def repaired(cli: Cli, *args: str, code: int = 0) -> dict[str, Any]:
    """What `repair` prints, which ends with this code."""
    run = cli.run("repair", *args, "-o", "json", check=False)
    assert run.returncode == code, run
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def ipv4(pod: dict[str, Any]) -> str:
    return str(pod["networks"][0]["result"]["ips"][0]["address"].partition("/")[0])


@pytest.fixture
def masquerading(own_cli: Cli) -> Cli:
    own_cli.configure(bridge_network("net", ipMasq=True))
    return own_cli


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_all_pods_are_repaired(masquerading: Cli) -> None:
    cli = masquerading
    pods = [f"p{number}" for number in range(5)]
    cli.add(*pods)
    before = rules(cli)
    assert str(before).count("/eth0") >= len(pods), before

    on_node(cli, "nft", "flush", "ruleset")
    on_node(cli, "ip", "link", "delete", "net0")
    document = repaired(cli)

    assert outcomes(document) == ["ok"] * len(pods)
    assert rules(cli) == before
    cli.run("check")
    assert outcomes(repaired(cli)) == ["ok"] * len(pods)
    assert rules(cli) == before


def test_only_the_named_network(own_cli: Cli) -> None:
    cli = own_cli
    cli.configure(bridge_network("one", ipMasq=True), bridge_network("two", ipMasq=True, subnet="10.78.0.0/16"))
    cli.add("p1", "--network", "one", "--network", "two")
    on_node(cli, "nft", "flush", "ruleset")

    document = repaired(cli, "--network", "two")

    assert [each["network"] for each in document["attachments"]] == ["two"]
    assert "10.78.0.0-16" in str(rules(cli))
    assert "10.77.0.0-16" not in str(rules(cli))


def test_repair_uses_the_given_cache_dir(masquerading: Cli, tmp_path: Path) -> None:
    cli = masquerading
    cli.add("p1")
    before = rules(cli)
    shutil.copytree(cli.var_lib_cni / "results", tmp_path / "cache" / "results")
    shutil.rmtree(cli.var_lib_cni / "results")
    on_node(cli, "nft", "flush", "ruleset")

    assert repaired(cli) == {"attachments": []}
    assert outcomes(repaired(cli, "--cache-dir", str(tmp_path / "cache"))) == ["ok"]
    assert rules(cli) == before


def test_a_cache_without_the_namespace(masquerading: Cli) -> None:
    """As releases of libcni before 1.3 write it: the result alone says where the pod is."""
    cli = masquerading
    cli.add("p1")
    before = rules(cli)
    [path] = (cli.var_lib_cni / "results").iterdir()
    entry = json.loads(path.read_text())
    del entry["netns"]
    path.write_text(json.dumps(entry))
    on_node(cli, "nft", "flush", "ruleset")

    assert outcomes(repaired(cli)) == ["ok"]
    assert rules(cli) == before


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_repair_restores_attachments_of_the_reference(reference_cli: Cli, direct_bin_dir: Path) -> None:
    cli = reference_cli
    cli.configure(bridge_network("net", ipMasq=True))
    cli.add("p1", "p2")
    before = sorted(on_node(cli, "iptables", "-t", "nat", "-S").splitlines())
    on_node(cli, "iptables", "-t", "nat", "-F")

    document = repaired(cli, code=1)

    assert outcomes(document) == ["failed"] * 2
    [plugin] = document["attachments"][0]["plugins"]
    assert plugin["type"] == "bridge"
    assert UNKNOWN in plugin["error"]
    assert outcomes(repaired(cli, "--bin-dir", str(direct_bin_dir))) == ["ok"] * 2
    assert sorted(on_node(cli, "iptables", "-t", "nat", "-S").splitlines()) == before
    cli.run("del", "--all")
    assert "CNI-" not in on_node(cli, "iptables", "-t", "nat", "-S")


def test_plugins_of_both_suites_in_one_list(masquerading: Cli) -> None:
    cli = masquerading
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "sbr"})
    if not (REFERENCE_BIN_DIR / "sbr").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    cli.plugin("sbr", f'exec {REFERENCE_BIN_DIR}/sbr "$@"')
    cli.configure(network)
    cli.add("p1")
    before = rules(cli)
    on_node(cli, "nft", "flush", "ruleset")

    run = cli.run("repair", check=False)

    assert run.returncode == 1
    assert f"failed: plugin sbr: REPAIR failed with code 4: {UNKNOWN}" in run.stdout
    assert rules(cli) == before


def test_a_pod_that_is_gone_is_left(masquerading: Cli) -> None:
    cli = masquerading
    [gone, _] = cli.add("p1", "p2")
    remove_namespace(gone["netns"])
    on_node(cli, "nft", "flush", "ruleset")

    document = repaired(cli)

    found = {each["containerID"]: (each["outcome"], each["error"]) for each in document["attachments"]}
    assert found[gone["containerID"]] == ("left", f"its network namespace is gone: {gone['netns']}")
    assert sorted(outcome for outcome, _ in found.values()) == ["left", "ok"]
    assert gone["containerID"] not in str(rules(cli))


def test_a_pod_that_goes_meanwhile_gets_nothing_back(masquerading: Cli) -> None:
    """The runtime has executed its DEL, and forgets the pod while the repair is under way."""
    cli = masquerading
    results = cli.var_lib_cni / "results"
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "late"})
    answer = 'sed "s/.*\\"prevResult\\"://; s/}$//"'
    cli.plugin("late", f"case $CNI_COMMAND in ADD) {answer} ;; REPAIR) rm {results}/* ;; esac\n")
    cli.configure(network)
    cli.add("p1")
    on_node(cli, "nft", "flush", "ruleset")
    on_node(cli, "ip", "link", "delete", "net0")

    document = repaired(cli)

    assert outcomes(document) == ["deleted"]
    assert rules(cli) == {}
    assert cli.ip("link", "show", "type", "veth") == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_pod_that_goes_after_its_repair_gets_nothing_back(masquerading: Cli) -> None:
    """The runtime's DEL of the first pod was between the plugins and the cache when its repair ended."""
    cli = masquerading
    results = cli.var_lib_cni / "results"
    networks = [
        bridge_network(name, ipMasq=True, subnet=f"10.{77 + at}.0.0/16") for at, name in enumerate(("n1", "n2"))
    ]
    for network in networks:
        network["plugins"].append({"type": "late"})
    answer = 'sed "s/.*\\"prevResult\\"://; s/}$//"'
    others = f"for f in {results}/*; do case $f in *$CNI_CONTAINERID*) ;; *) rm $f ;; esac; done"
    cli.plugin("late", f"case $CNI_COMMAND in ADD) {answer} ;; REPAIR) {others} ;; esac\n")
    cli.configure(*networks)
    cli.add("p1", "--network", "n1")
    cli.add("p2", "--network", "n2")
    on_node(cli, "nft", "flush", "ruleset")

    document = repaired(cli, "--jobs", "1")

    assert outcomes(document) == ["deleted"] * 2
    assert rules(cli) == {}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_pod_that_goes_meanwhile_has_its_del_before_the_next_repair(masquerading: Cli) -> None:
    cli = masquerading
    networks = [
        bridge_network(name, ipMasq=True, subnet=f"10.{77 + at}.0.0/16") for at, name in enumerate(("n1", "n2"))
    ]
    networks[0]["plugins"].append({"type": "late"})
    networks[1]["plugins"].append({"type": "look"})
    answer = 'sed "s/.*\\"prevResult\\"://; s/}$//"'
    cli.plugin("late", f"case $CNI_COMMAND in ADD) {answer} ;; REPAIR) rm {cli.var_lib_cni}/results/n1-* ;; esac\n")
    seen = cli.folder / "seen"
    cli.plugin("look", f"case $CNI_COMMAND in ADD) {answer} ;; REPAIR) nft list ruleset > {seen} ;; esac\n")
    cli.configure(*networks)
    cli.add("p1", "--network", "n1")
    cli.add("p2", "--network", "n2")
    on_node(cli, "nft", "flush", "ruleset")

    document = repaired(cli, "--jobs", "1")

    assert outcomes(document) == ["deleted", "ok"]
    assert "10.78.0.0" in seen.read_text()
    assert "10.77.0.0" not in seen.read_text()


def test_repair_skips_a_pod_that_is_deleted_meanwhile(masquerading: Cli) -> None:
    """`late` does not know the list of attachments, and answers for none: it is executed for each."""
    cli = masquerading
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "late"})
    answer = 'sed "s/.*\\"prevResult\\"://; s/}$//"'
    cli.plugin("late", f"case $CNI_COMMAND in ADD) {answer} ;; esac\n")
    cli.configure(network)
    pods = cli.add("p1", "p2", "p3")
    going = pods[1]["containerID"]
    forget = f"[ $CNI_CONTAINERID = {going} ] && rm {cli.var_lib_cni}/results/net-{going}-eth0; exit 0"
    cli.plugin("late", f"case $CNI_COMMAND in REPAIR) {forget} ;; esac\n")
    on_node(cli, "nft", "flush", "ruleset")

    document = repaired(cli)

    found = {each["containerID"]: each["outcome"] for each in document["attachments"]}
    assert found == {pod["containerID"]: "deleted" if pod is pods[1] else "ok" for pod in pods}
    assert going not in str(rules(cli))
    assert all(pod["containerID"] in str(rules(cli)) for pod in pods if pod is not pods[1])


def test_one_execution_repairs_many(masquerading: Cli) -> None:
    cli = masquerading
    cli.add(*(f"p{number}" for number in range(5)))
    before = rules(cli)
    on_node(cli, "nft", "flush", "ruleset")

    run = cli.run("repair", "--jobs", "2", "-v")

    assert run.stdout.count(" ok") == 5
    assert run.stderr.count("REPAIR") == 2, run.stderr
    assert rules(cli) == before


def test_an_attachment_that_fails_does_not_harm_the_others(masquerading: Cli) -> None:
    cli = masquerading
    pods = cli.add("p1", "p2", "p3")
    broken = pods[1]["containerID"]
    on_node(cli, "ip", "-n", pods[1]["netns"].rpartition("/")[2], "link", "delete", "eth0")
    on_node(cli, "nft", "flush", "ruleset")

    run = cli.run("repair", "--jobs", "1", "-v", "-o", "json", check=False)

    found = {each["containerID"]: each["outcome"] for each in json.loads(run.stdout)["attachments"]}
    assert (run.returncode, found) == (
        1,
        {pod["containerID"]: "failed" if pod is pods[1] else "ok" for pod in pods},
    )
    assert run.stderr.count("REPAIR") == 1, run.stderr
    assert broken not in str(rules(cli))
    assert all(pod["containerID"] in str(rules(cli)) for pod in pods if pod is not pods[1])


def test_a_cached_name_that_no_plugin_accepts_does_not_harm_the_others(masquerading: Cli) -> None:
    cli = masquerading
    pods = cli.add("p1", "p2")
    results = cli.var_lib_cni / "results"
    (first, *_) = results.iterdir()
    entry = json.loads(first.read_text())
    (results / "another").write_text(json.dumps({**entry, "networkName": "-net"}))
    on_node(cli, "nft", "flush", "ruleset")

    found = repaired(cli, code=1)["attachments"]

    assert sorted((each["network"], each["outcome"]) for each in found) == [
        ("-net", "failed"), ("net", "ok"), ("net", "ok"),
    ]  # fmt: skip
    assert 'invalid characters in network name "-net"' in str(found)
    assert all(pod["containerID"] in str(rules(cli)) for pod in pods)


def test_repair_without_cached_results_succeeds(masquerading: Cli) -> None:
    cli = masquerading
    cli.add("p1")
    cli.run("del", "p1")

    assert repaired(cli) == {"attachments": []}


def test_an_unknown_node(masquerading: Cli) -> None:
    run = masquerading.run("repair", check=False)

    assert (run.returncode, run.stderr.count("there is no node")) == (1, 1)


@pytest.mark.slow("each loss watched; repair by the command is in make test")
@pytest.mark.parametrize(
    "losses",
    [
        [["nft", "flush", "ruleset"]],
        [["nft", "delete", "table", "inet", "cni_harness_masquerade"]],
        [["nft", "flush", "table", "inet", "cni_harness_masquerade"]],
        [["ip", "link", "delete", "net0"], ["nft", "flush", "ruleset"]],
    ],
    ids=lambda losses: " ".join(losses[0]),
)
def test_watch(masquerading: Cli, losses: list[list[str]]) -> None:
    cli = masquerading
    cli.add("p1", "p2")
    before = rules(cli)
    with cli.background("repair", "--watch") as watch:
        assert watch.stderr is not None
        first = watch.stderr.readline()
        assert first.startswith("Repaired 2 attachments, 0 with errors"), first

        for loss in losses:
            on_node(cli, *loss)
            until(lambda: rules(cli) == before)
            until(lambda: [port.get("master") for port in cli.ip("link", "show", "type", "veth")] == ["net0"] * 2)
        cli.run("check")
        watch.send_signal(signal.SIGTERM)
        said = watch.stderr.read()

        assert watch.wait(HANG) == 128 + signal.SIGTERM
    # Each loss has a repair; its own changes may be taken for another, once.
    assert len(losses) <= said.count("Repaired 2 attachments, 0 with errors") <= 2 * len(losses) + 1
    assert "Error" not in said


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_watch_sees_a_flush_by_iptables(reference_cli: Cli, direct_bin_dir: Path) -> None:
    cli = reference_cli
    cli.configure(bridge_network("net", ipMasq=True))
    cli.add("p1", "p2")

    def nat() -> list[str]:
        return sorted(on_node(cli, "iptables", "-t", "nat", "-S").splitlines())

    before = nat()
    with cli.background("repair", "--watch", "--bin-dir", str(direct_bin_dir)) as watch:
        assert watch.stderr is not None
        watch.stderr.readline()
        for removal in (["-F"], ["-F", "POSTROUTING"]):
            on_node(cli, "iptables", "-t", "nat", *removal)
            until(lambda: nat() == before)
        watch.send_signal(signal.SIGTERM)
        watch.wait(HANG)
    cli.run("del", "--all")
    assert "CNI-" not in on_node(cli, "iptables", "-t", "nat", "-S")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_watch_ignores_ordinary_adds_and_dels(masquerading: Cli) -> None:
    cli = masquerading
    cli.add("p1", "p2")
    with cli.background("repair", "--watch") as watch:
        assert watch.stderr is not None
        watch.stderr.readline()
        cli.add("p3")
        cli.run("del", "p3", "p2")
        before = rules(cli)
        on_node(cli, "nft", "flush", "ruleset")
        until(lambda: rules(cli) == before)
        watch.send_signal(signal.SIGTERM)
        said = watch.stderr.read()

    assert said.startswith("Repaired 1 attachments, 0 with errors")
    assert said.count("Repaired") <= 2, said


def test_repair_of_a_sound_node_changes_nothing(masquerading: Cli) -> None:
    cli = masquerading
    cli.add("p1", "p2")
    places = {"node": f"/run/netns/{cli.node}"}
    before = take(places, [cli.var_lib_cni])

    repaired(cli)

    assert [*differences(before, take(places, [cli.var_lib_cni]))] == []


def test_unknown_network_is_an_error_and_repairs_nothing(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net", ipMasq=True))
    own_cli.add("pod1")

    failed = own_cli.run("repair", "--network", "nett", check=False)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert "no network named nett" in failed.stderr
    assert "did you mean net?" in failed.stderr
    assert own_cli.run("repair", "--network", "net").returncode == 0
