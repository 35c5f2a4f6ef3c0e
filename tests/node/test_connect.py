"""`cni-harness connect` and `disconnect`: networks of pods that run, with DEL, CHECK, repair, gc and crashes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.snapshot import differences, take
from tests.cli import Cli, bridge_network
from tests.manifests import WIRES, KubeletNode, container, pod
from tests.node.test_pods_crash import FAR_TOO_MANY, crash
from tests.nodes import until

pytestmark = pytest.mark.sudo

NET = bridge_network("net", ipMasq=True)
FURTHER = bridge_network("further", subnet="10.79.0.0/24", isDefaultGateway=False, isGateway=True)


def state(cli: Cli) -> Any:
    """The node, its pods and the files of plugins."""
    record = cli.json("inspect", "pod1")
    return take({"node": f"/run/netns/{cli.node}", "pod": record["netns"]}, [cli.var_lib_cni])


def assert_unchanged(cli: Cli, before: Any) -> None:
    """The bridge stays, as after each DEL, and host-local's note of the last address."""
    ignore = ["*last_reserved_ip*", "node/*/further0*", "files/*/networks/further*", "files/*/results"]
    assert [str(each) for each in differences(before, state(cli), ignore=ignore) if "further0" not in str(each)] == []


def links(cli: Cli, name: str = "pod1") -> list[str]:
    return cli.run("exec", name, "--", "ls", "/sys/class/net").stdout.split()


def default_routes(cli: Cli, name: str = "pod1") -> list[str]:
    shown = json.loads(cli.run("exec", name, "--", "ip", "-j", "route", "show", "default").stdout)
    return [f"{each['gateway']} {each['dev']}" for each in shown]


def nft(cli: Cli, *words: str) -> str:
    return subprocess.run(
        ["ip", "netns", "exec", cli.node, "nft", *words], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def joined(cli: Cli) -> Cli:
    """A node with two networks and a pod on the first."""
    cli.configure(NET, FURTHER)
    cli.add("pod1", "--network", "net")
    return cli


def test_a_pod_joins_a_network_and_leaves_it(joined: Cli) -> None:
    before = state(joined)

    made = joined.json("connect", "pod1", "--network", "further")["connected"]

    assert (made["name"], made["ifname"]) == ("further", "net1")
    assert links(joined) == ["eth0", "lo", "net1"]
    assert made["result"]["ips"][0]["address"] == "10.79.0.2/24"
    shown = joined.run("exec", "pod1", "--", "ip", "-br", "address", "show", "net1").stdout
    assert "10.79.0.2/24" in shown
    assert default_routes(joined) == ["10.77.0.1 eth0"]
    assert [each["error"] for each in joined.json("check", "pod1")["pods"][0]["networks"]] == ["", ""]
    assert joined.reservations("further") == {"10.79.0.2"}

    joined.run("disconnect", "pod1", "--network", "further")

    assert links(joined) == ["eth0", "lo"]
    assert joined.reservations("further") == set()
    assert default_routes(joined) == ["10.77.0.1 eth0"]
    assert [each["name"] for each in joined.json("inspect", "pod1")["networks"]] == ["net"]
    assert_unchanged(joined, before)


def test_options_reach_the_plugins(joined: Cli) -> None:
    options = ("--ifname", "data0", "--ip", "10.79.0.80", "--mac", "02:00:00:00:00:80")

    made = joined.json("connect", "pod1", "--network", "further", *options)["connected"]

    assert made["result"]["ips"][0]["address"] == "10.79.0.80/24"
    shown = json.loads(joined.run("exec", "pod1", "--", "ip", "-j", "link", "show", "data0").stdout)
    assert shown[0]["address"] == "02:00:00:00:00:80"


def test_the_end_of_a_pod_ends_its_connections(joined: Cli) -> None:
    joined.run("connect", "pod1", "--network", "further")
    joined.run("connect", "pod1", "--network", "further")

    joined.run("del", "pod1")

    assert joined.reservations("further") == set()
    assert joined.cached_results() == set()
    assert {link["ifname"] for link in joined.ip("link")} == {"lo", "net0", "further0"}


def test_the_bridge_of_a_network_that_was_left_is_pruned(joined: Cli) -> None:
    joined.run("connect", "pod1", "--network", "further")
    joined.run("disconnect", "pod1", "--network", "further")

    pruned = joined.run("del", "pod1", "--prune").stderr

    assert "Removed further0, which had no ports left" in pruned


def test_a_network_twice_needs_the_interface_to_leave(joined: Cli) -> None:
    for _ in range(2):
        joined.run("connect", "pod1", "--network", "further")

    unclear = joined.run("disconnect", "pod1", "--network", "further", check=False)
    joined.run("disconnect", "pod1", "--network", "further", "--ifname", "net1")

    assert unclear.stderr == ("Error: pod default/pod1 is on network further as net1, net2: name one with --ifname\n")
    assert links(joined) == ["eth0", "lo", "net2"]
    assert joined.json("connect", "pod1", "--network", "further")["connected"]["ifname"] == "net1"


REFUSED = {
    "connect pod2 --network further": "there is no pod default/pod2",
    "connect pod1 --network other": "no network named other",
    "connect pod1 --network further --ifname eth0": "pod default/pod1 has eth0 already, on network net",
    "connect pod1 --network further --ifname a/b": "--ifname a/b: it contains /",
    "connect pod1 --network further --ip x": "--ip x: wanted an IP address",
    "disconnect pod2 --network net": "there is no pod default/pod2",
    "disconnect pod1 --network further": "pod default/pod1 is not on network further; its networks: net (eth0)",
    "disconnect pod1 --network net --ifname net1": (
        "pod default/pod1 is not on network net as net1; its networks: net (eth0)"
    ),
}


def test_requests_that_cannot_be_met_change_nothing(joined: Cli) -> None:
    before, record = state(joined), joined.json("inspect", "pod1")
    files = {path: path.stat().st_mtime_ns for path in (joined.node_dir / "pods/default_pod1").iterdir()}

    said = {words: joined.run(*words.split(), check=False) for words in REFUSED}

    assert {words: run.stderr for words, run in said.items() if REFUSED[words] not in run.stderr} == {}
    assert [words for words, run in said.items() if (run.returncode, run.stderr.count("\n")) != (1, 1)] == []
    assert_unchanged(joined, before)
    assert joined.json("inspect", "pod1") == record
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_a_plugin_that_fails_leaves_the_pod_as_it_was(own_cli: Cli) -> None:
    refusing = """cat >/dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion": "1.0.0", "code": 50, "msg": "not today"}'; exit 1"""
    own_cli.plugin("refusing", refusing)
    own_cli.configure(NET, {**FURTHER, "plugins": [*FURTHER["plugins"], {"type": "refusing"}]})
    own_cli.add("pod1", "--network", "net")
    before = state(own_cli)

    run = own_cli.run("connect", "pod1", "--network", "further", check=False)

    assert run.returncode == 1
    assert "not today" in run.stderr
    assert_unchanged(own_cli, before)
    assert own_cli.json("list")["pods"][0]["state"] == "ready"


def test_a_del_that_fails_can_be_repeated(own_cli: Cli) -> None:
    broken = own_cli.folder / "broken"
    own_cli.plugin(
        "stubborn",
        f"""if [ "$CNI_COMMAND" = ADD ]; then exec jq .prevResult; fi
cat >/dev/null; [ ! -e {broken} ] || {{ echo '{{"cniVersion": "1.0.0", "code": 50, "msg": "stuck"}}'; exit 1; }}""",
    )
    own_cli.configure(NET, {**FURTHER, "plugins": [*FURTHER["plugins"], {"type": "stubborn"}]})
    own_cli.add("pod1", "--network", "net")
    before = state(own_cli)
    own_cli.run("connect", "pod1", "--network", "further")
    broken.touch()

    failed = own_cli.run("disconnect", "pod1", "--network", "further", check=False)
    broken.unlink()
    own_cli.run("disconnect", "pod1", "--network", "further")

    assert failed.returncode == 1
    assert "stuck" in failed.stderr
    assert_unchanged(own_cli, before)


def test_repair_and_gc_know_a_connection(own_cli: Cli) -> None:
    own_cli.configure(NET, {**FURTHER, "plugins": [{**FURTHER["plugins"][0], "ipMasq": True}]})
    own_cli.add("pod1", "--network", "net")
    own_cli.run("connect", "pod1", "--network", "further")
    rules = nft(own_cli, "list", "ruleset")

    nft(own_cli, "flush", "ruleset")
    repaired = own_cli.json("repair")["attachments"]

    assert {(each["network"], each["outcome"]) for each in repaired} == {("net", "ok"), ("further", "ok")}
    assert sorted(nft(own_cli, "list", "ruleset").splitlines()) == sorted(rules.splitlines())
    own_cli.run("gc")
    assert links(own_cli) == ["eth0", "lo", "net1"]
    assert own_cli.reservations("further") == {"10.79.0.2"}


@pytest.mark.parametrize("verb", ["connect", "disconnect"])
@pytest.mark.slow("kills at each step; test_pods_crash kills an add in make test")
def test_after_a_kill_at_each_step_connect_and_disconnect_leave_nothing(
    reference_cli: Cli, tmp_path: Path, verb: str
) -> None:
    cli = reference_cli
    cli.configure(NET, FURTHER)
    log = tmp_path / "sandboxes"
    log.touch()
    cli.add("pod1", "--network", "net")
    before = state(cli)
    moments = 0

    for moments in range(1, FAR_TOO_MANY):
        if verb == "disconnect":
            cli.run("connect", "pod1", "--network", "further")
        code = crash(cli, moments, log, verb, "pod1", "--network", "further")
        if verb == "connect":
            assert cli.json("connect", "pod1", "--network", "further", "--ifname", "net9")["connected"]["result"]
            cli.run("disconnect", "pod1", "--network", "further", "--ifname", "net9")
        left = [each["ifname"] for each in cli.json("inspect", "pod1")["networks"] if each["name"] == "further"]
        if left:
            cli.run("disconnect", "pod1", "--network", "further")
        assert_unchanged(cli, before)
        if code == 0:
            break

    assert 10 < moments < FAR_TOO_MANY - 1
    assert cli.json("list")["pods"][0]["state"] == "ready"


@pytest.mark.slow("it kills until a moment fits; a DEL that fails is in make test")
def test_a_killed_connect_is_undone_by_the_next_of_its_interface(reference_cli: Cli, tmp_path: Path) -> None:
    cli = reference_cli
    cli.configure(NET, FURTHER)
    log = tmp_path / "sandboxes"
    log.touch()
    cli.add("pod1", "--network", "net")
    words = ("connect", "pod1", "--network", "further", "--ifname", "net5")
    moments = iter(range(1, FAR_TOO_MANY))
    until(lambda: crash(cli, next(moments), log, *words) and cli.pods()[0]["state"] == "incomplete")

    made = cli.json("connect", "pod1", "--network", "further", "--ifname", "net5")["connected"]

    assert made["result"]["ips"]
    assert len(cli.reservations("further")) == 1
    assert cli.json("list")["pods"][0]["state"] == "ready"


@pytest.mark.slow("eight at once; one after the other is in make test")
def test_many_connections_at_once_have_interfaces_of_their_own(own_cli: Cli) -> None:
    own_cli.configure(NET, FURTHER)
    own_cli.add("pod1", "--network", "net")
    before = state(own_cli)

    command = own_cli.command(["connect", "pod1", "--network", "further"])
    started = [subprocess.Popen(command, env=own_cli.environment, cwd="/", stdout=subprocess.DEVNULL) for _ in range(8)]
    codes = [each.wait() for each in started]

    assert codes == [0] * 8
    assert links(own_cli) == sorted(["eth0", "lo", *(f"net{number}" for number in range(1, 9))])
    for number in range(1, 9):
        own_cli.run("disconnect", "pod1", "--network", "further", "--ifname", f"net{number}")
    assert_unchanged(own_cli, before)


def test_a_manifests_pod_joins_and_its_containers_see_it(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES, FURTHER)
    before = kubelet_node.snapshot()
    kubelet_node.start(pod("web", container("app")))

    kubelet_node.run("connect", "web", "--network", "further")

    seen = kubelet_node.run("exec", "web", "--", "ls", "/sys/class/net").stdout.split()
    assert seen == ["eth0", "lo", "net1"]
    refused = kubelet_node.run("disconnect", "web", "--network", "wires", check=False)
    assert "pod default/web needs eth0 as long as it runs" in refused.stderr
    kubelet_node.run("disconnect", "web", "--network", "further")
    assert kubelet_node.run("exec", "web", "--", "ls", "/sys/class/net").stdout.split() == ["eth0", "lo"]
    kubelet_node.run("connect", "web", "--network", "further")
    assert kubelet_node.one("web")["status"]["phase"] == "Running"
    kubelet_node.run("delete", "web")
    assert kubelet_node.reservations("further") == set()
    subprocess.run(["ip", "-n", kubelet_node.node, "link", "del", "further0"], check=True)
    kubelet_node.assert_nothing_left(before, "files/*/further", "files/*/further/*", "files/*/left-links*")


@pytest.mark.slow("a kubelet runs; a pod of run is in make test")
def test_a_kubelet_that_runs_ends_a_connection_of_another_process(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES, FURTHER)
    path = kubelet_node.write(pod("web"))
    name = f"web-{kubelet_node.node}"
    with kubelet_node.kubelet():
        until(lambda: kubelet_node.one(name).get("status", {}).get("phase") == "Running", within=60)
        kubelet_node.run("connect", name, "--network", "further")
        assert kubelet_node.reservations("further") == {"10.79.0.2"}
        path.unlink()
        kubelet_node.until_no_pods()

    assert kubelet_node.reservations("further") == set()
    assert kubelet_node.cached_results() == set()
