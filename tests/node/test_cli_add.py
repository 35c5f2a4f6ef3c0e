"""What plugins are asked for, from the options of `add` and from cnitool's variables."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Cli, bridge_network, on_a_terminal
from tests.nodes import Node

pytestmark = pytest.mark.sudo

# Keeps its request, and answers as noop does.
RECORDER = """folder="{folder}/$CNI_COMMAND-$CNI_IFNAME"
mkdir -p "$folder"
cat > "$folder/stdin"
env > "$folder/env"
[ "$CNI_COMMAND" != ADD ] || echo '{{"cniVersion": "1.0.0"}}'
"""


class Recorder:
    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.folder = cli.folder / "recorded"
        cli.plugin("recorder", RECORDER.format(folder=self.folder))

    def network(self, name: str = "net", *capabilities: str) -> dict[str, Any]:
        plugin = {"type": "recorder", "capabilities": dict.fromkeys(capabilities, True)}
        return {"cniVersion": "1.0.0", "name": name, "plugins": [plugin]}

    def environ(self, verb: str, ifname: str = "eth0") -> dict[str, str]:
        lines = (self.folder / f"{verb}-{ifname}" / "env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def config(self, verb: str, ifname: str = "eth0") -> dict[str, Any]:
        config: dict[str, Any] = json.loads((self.folder / f"{verb}-{ifname}" / "stdin").read_text())
        return config


@pytest.fixture
def recorder(own_cli: Cli) -> Recorder:
    return Recorder(own_cli)


def test_cni_args_match_kubelet_and_containerd(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network())

    (pod,) = recorder.cli.add("pod1", "--namespace", "ns1")

    assert recorder.environ("ADD")["CNI_ARGS"] == (
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=pod1;"
        f"K8S_POD_INFRA_CONTAINER_ID={pod['containerID']};K8S_POD_UID={pod['uid']}"
    )
    assert re.fullmatch(r"[0-9a-f]{64}", pod["containerID"])
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", pod["uid"])
    assert re.fullmatch(r"/run/netns/cni-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", pod["netns"])


def test_delete_repeats_the_arguments_of_the_add(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network("net", "speed"))
    recorder.cli.run("add", "pod1", "--arg", "COLOUR=red", "--cap", 'speed={"max": 3}')

    recorder.cli.run("del", "pod1")

    add, delete = recorder.environ("ADD"), recorder.environ("DEL")
    protocol = ("CNI_ARGS", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_PATH")
    assert {key: add[key] for key in protocol} == {key: delete[key] for key in protocol}
    assert recorder.config("DEL")["runtimeConfig"] == {"speed": {"max": 3}}


def test_delete_without_a_sandbox_has_an_empty_netns(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network())
    (pod,) = recorder.cli.add("pod1")
    from netlink.namespace import remove_namespace

    remove_namespace(pod["netns"])
    recorder.cli.run("del", "pod1")

    assert recorder.environ("DEL")["CNI_NETNS"] == ""


def test_networks_are_numbered_after_the_first(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network("one"), recorder.network("two"), recorder.network("three"))

    (pod,) = recorder.cli.add("pod1", "--network", "three", "--network", "one", "--network", "two", "--ifname", "main")

    assert [(each["name"], each["ifname"]) for each in pod["networks"]] == [
        ("three", "main"),
        ("one", "net1"),
        ("two", "net2"),
    ]
    assert recorder.config("ADD", "net2")["name"] == "two"


def test_first_list_in_order_of_file_name_is_the_default(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network("zebra"), recorder.network("antelope"))

    (pod,) = recorder.cli.add("pod1")

    assert [each["name"] for each in pod["networks"]] == ["zebra"]


def test_options_are_sent_as_capabilities_if_declared(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network("net", "ips", "mac", "portMappings"), recorder.network("more", "ips"))

    recorder.cli.run(
        *("add", "pod1", "--network", "net", "--network", "more"),
        *("--ip", "10.1.2.3", "--ip", "fd00::3/64", "--mac", "02:00:00:00:00:07"),
        *("-p", "8080:80/tcp", "-p", "192.0.2.1:53:5353/udp"),
    )

    assert recorder.config("ADD")["runtimeConfig"] == {
        "ips": ["10.1.2.3", "fd00::3/64"],
        "mac": "02:00:00:00:00:07",
        "portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
            {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "192.0.2.1"},
        ],
    }
    assert "IP=" not in recorder.environ("ADD")["CNI_ARGS"]
    assert "runtimeConfig" not in recorder.config("ADD", "net1")


def test_wishes_travel_in_cni_args_otherwise(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network())

    recorder.cli.run("add", "pod1", "--ip", "10.1.2.3", "--mac", "02:00:00:00:00:07")

    assert recorder.environ("ADD")["CNI_ARGS"].endswith(";IP=10.1.2.3;MAC=02:00:00:00:00:07")
    assert "runtimeConfig" not in recorder.config("ADD")


def test_ports_without_the_capability_are_refused(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network())

    failed = recorder.cli.run("add", "pod1", "-p", "8080:80", check=False)

    assert failed.returncode == 1
    assert failed.stderr == "Error: -p 8080:80: no plugin of network net has the capability portMappings\n"
    assert not recorder.folder.exists()


def test_cnitools_variables_count_below_the_options(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network("net", "a", "b"))
    variables = {"CNI_ARGS": "X=1;Y=2", "CAP_ARGS": '{"a": 1, "b": 2}', "CNI_IFNAME": "lan0"}

    recorder.cli.run("add", "pod1", "--arg", "Y=3", "--cap", "b=4", env=variables)

    assert recorder.environ("ADD", "lan0")["CNI_ARGS"].endswith(";X=1;Y=3")
    assert recorder.config("ADD", "lan0")["runtimeConfig"] == {"a": 1, "b": 4}


def test_argument_replaces_one_of_the_pods_own(recorder: Recorder) -> None:
    recorder.cli.configure(recorder.network())

    recorder.cli.run("add", "pod1", "--arg", "K8S_POD_UID=7")

    assert recorder.environ("ADD")["CNI_ARGS"].endswith(";K8S_POD_UID=7")


def test_address_and_mac_that_were_asked_for_are_given(cli: Cli) -> None:
    cli.configure(bridge_network("net", capabilities={"ips": True, "mac": True}))

    (pod,) = cli.add("pod1", "--ip", "10.77.5.5", "--mac", "02:00:00:00:00:07")

    assert cli.addresses(pod["netns"], "eth0") == {"10.77.5.5/16"}
    assert cli.ip("link", "show", "dev", "eth0", netns=pod["netns"])[0]["address"] == "02:00:00:00:00:07"


def test_address_in_cni_args_is_given(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    (pod,) = cli.add("pod1", "--ip", "10.77.5.6")

    assert cli.addresses(pod["netns"], "eth0") == {"10.77.5.6/16"}


def test_pod_on_two_bridges_reaches_both(cli: Cli) -> None:
    cli.configure(bridge_network("net"), bridge_network("more", subnet="10.78.0.0/16", isDefaultGateway=False))

    (pod,) = cli.add("pod1", "--network", "net", "--network", "more")

    assert cli.addresses(pod["netns"], "eth0") == {"10.77.0.2/16"}
    assert cli.addresses(pod["netns"], "net1") == {"10.78.0.2/16"}
    assert [each["error"] for each in cli.json("check")["pods"][0]["networks"]] == ["", ""]
    cli.run("del", "pod1")
    assert (cli.reservations("net"), cli.reservations("more")) == (set(), set())


def test_table_shows_address_gateway_bridge_and_time(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    heading, row = cli.run("add", "pod1").stdout.splitlines()

    assert heading.split() == ["POD", "INTERFACE", "ADDRESS", "GATEWAY", "BRIDGE", "TIME"]
    assert row.split()[:5] == ["pod1", "eth0", "10.77.0.2/16", "10.77.0.1", "net0"]
    assert re.search(r"\d (ms|s)$", row)


def test_verbose_logs_each_execution(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    brief, *delegates = cli.run("add", "pod1", "-v").stderr.splitlines()

    assert re.fullmatch(r"[0-9a-f]{12} bridge ADD \d+ ms exit 0", brief)
    assert all(re.fullmatch(r"  [0-9a-f]{12} host-local ADD \d+ ms exit 0", line) for line in delegates)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_with_nothing_configured_the_projects_own_serve(fresh_machine: Node) -> None:
    run = fresh_machine.run(["cni-harness", "add", "pod1", "-o", "json"])

    (pod,) = json.loads(run.stdout)["pods"]
    assert [each["name"] for each in pod["networks"]] == ["cni-harness"]
    (link,) = fresh_machine.ip("-n", Path(pod["netns"]).name, "address", "show", "eth0")
    assert "10.86.0.2" in [address["local"] for address in link["addr_info"]]
    assert "No network lists in /etc/cni/net.d: using this project's own" in run.stderr
    assert "using this project's own, /var/lib/cni-harness/bin" in run.stderr
    fresh_machine.run(["cni-harness", "del", "pod1", "--prune"])
    assert [link["ifname"] for link in fresh_machine.ip("link")] == ["lo"]


def test_pods_made_with_other_plugins_are_deleted_with_these(reference_cli: Cli) -> None:
    reference_cli.configure(bridge_network("net"))
    shutil.copytree(reference_cli.bin_dir, reference_cli.folder / "copied")
    reference_cli.run("add", "pod1", "--bin-dir", str(reference_cli.folder / "copied"))

    run = reference_cli.run("del", "pod1", "-vv", env={"CNI_PATH": ""})

    assert reference_cli.reservations("net") == set()
    assert "bridge DEL" in run.stderr


def test_own_plugins_are_announced_once(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "noop"}]})
    without = {"CNI_PATH": str(own_cli.conf_dir)}

    runs = [own_cli.run(*verb, env=without) for verb in (["add", "a"], ["add", "b"], ["status"], ["gc"])]

    said = [line for run in runs for line in run.stderr.splitlines() if "this project's own" in line]
    assert said == [f"No noop in {own_cli.conf_dir}: using this project's own, {own_cli.state_dir}/bin"]
    assert said == runs[0].stderr.splitlines()


def test_interface_that_no_plugin_made_is_not_shown(own_cli: Cli) -> None:
    none = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "noop"}]}
    own_cli.configure(none, {"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]})

    rows = [own_cli.run("add", name, "--network", name).stdout.splitlines()[1] for name in ("none", "lo")]

    assert [row.split()[1] for row in rows] == ["-", "lo"]


def test_add_with_prepare_runs_the_program_on_the_node(own_cli: Cli) -> None:
    own_cli.plugin("prepare", "exec ip link add uplink0 type bridge")
    own_cli.plugin("needy", 'cat > /dev/null; ip link show uplink0 >&2 && echo \'{"cniVersion": "1.0.0"}\'')
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "needy"}]})

    own_cli.run("add", "pod1", "--prepare", str(own_cli.folder / "bin/prepare"))

    assert [link["ifname"] for link in own_cli.ip("link", "show", "uplink0")] == ["uplink0"]
    failed = own_cli.run("add", "pod2", "--prepare", str(own_cli.folder / "bin/prepare"), check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"Error: --prepare {own_cli.folder}/bin/prepare: exit code 2: ")
    assert [pod["name"] for pod in own_cli.pods()] == ["pod1"]


def test_diff_of_add_excludes_the_preparation(own_cli: Cli) -> None:
    own_cli.plugin("prepare", "exec ip link add uplink0 type bridge")
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})

    run = own_cli.run("add", "pod1", "--diff", "--prepare", str(own_cli.folder / "bin/prepare"))

    assert "uplink0" not in run.stdout


def test_several_pods_show_progress_on_a_terminal(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.1.0", "name": "none", "plugins": [{"type": "noop"}]})

    assert "Adding pods" in on_a_terminal(own_cli, "add", "pod1", "pod2", "pod3")
    assert "Adding pods" not in on_a_terminal(own_cli, "add", "pod4")
    assert "Adding pods" not in own_cli.run("add", "pod5", "pod6").stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_several_pods_are_added_without_the_right_to_change_the_root_folder(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.configure(bridge_network("net"))
    monkeypatch.setattr(cli, "prefix", ["setpriv", "--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot"])

    added = cli.add("pod1", "pod2", "pod3", "pod4")

    assert len({each["networks"][0]["result"]["ips"][0]["address"] for each in added}) == 4
    cli.run("check")
    cli.run("del", "--all")
    reservations = cli.var_lib_cni / "networks" / "net"
    assert [path.name for path in reservations.glob("10.*")] == []
