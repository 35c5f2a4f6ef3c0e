"""`--trace`: the tree of calls across processes, on the real kernel, with our plugins and the reference's."""

import json
import re
import signal
from collections.abc import Iterator

import pytest

from tests.cli import Cli, bridge_network
from tests.traces import Step, Trace, traced

pytestmark = pytest.mark.sudo


ADD_NETWORK = ["cni-harness add", "setupPodNetwork", "AddNetworkList", "addNetwork"]
CALL = [*ADD_NETWORK, "ExecPluginWithResult", "PluginMain", "cmdAdd"]


def test_trace_paths_lead_from_the_verb_to_kernel_messages(own_cli: Cli) -> None:
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    own_cli.configure(network)

    trace = traced(own_cli, "add", "pod1", "-p", "8080:80")

    assert trace.paths("FindInPath") == [[*ADD_NETWORK, "FindInPath"]] * 2
    assert trace.paths("reserve") == [[*CALL, "ipam.ExecAdd", "PluginMain", "cmdAdd", "reserve"]]
    assert trace.paths("cacheAdd") == [[*ADD_NETWORK[:-1], "cacheAdd"]]
    assert [*CALL, "masquerade", "nftables commit"] in trace.paths("nftables commit")
    assert [*CALL, "make links", "netlink RTM_NEWLINK"] in trace.paths("netlink RTM_NEWLINK")
    bridge, portmap = (step for step in trace.named("PluginMain") if len(trace.path(step)) == len(CALL) - 1)
    assert (bridge.attributes["plugin"], portmap.attributes["plugin"]) == ("bridge", "portmap")
    assert any(
        trace.path(step)[:-1] == CALL and "NFT_MSG_NEWSETELEM" in str(step.attributes["messages"])
        for step in trace.named("nftables commit")
    )
    trace.check_times()


def test_attributes_have_input_and_output_of_the_plugins(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))

    trace = traced(own_cli, "add", "pod1")

    (pod,) = own_cli.pods()
    (call,) = trace.named("ExecPluginWithResult")
    assert call.attributes["CNI_CONTAINERID"] == pod["containerID"]
    assert (call.attributes["CNI_COMMAND"], call.attributes["CNI_IFNAME"]) == ("ADD", "eth0")
    assert json.loads(call.attributes["stdin"])["name"] == "net"
    assert json.loads(call.attributes["stdout"])["ips"][0]["address"] == "10.77.0.2/16"
    (reserve,) = trace.named("reserve")
    assert "10.77.0.2/16" in str(reserve.attributes["addresses"])
    (main, ipam) = trace.named("PluginMain")
    harness = trace.named("cni-harness add")[0].pid
    assert main.pid == ipam.pid != harness
    assert {step.pid for step in trace.steps} == {harness, main.pid}
    doing = " ".join(str(step.attributes.get("doing", "")) for step in trace.steps)
    assert "add address 10.77.0.2/16 to link" in doing


def test_reference_plugins_are_leaves(reference_cli: Cli) -> None:
    reference_cli.configure(bridge_network("net"))

    trace = traced(reference_cli, "add", "pod1")
    shown = reference_cli.run("check", "pod1", "--trace").stderr

    (call,) = trace.named("ExecPluginWithResult")
    assert [step for step in trace.steps if step.parent == call.id] == []
    assert json.loads(call.attributes["stdout"])["ips"][0]["address"] == "10.77.0.2/16"
    assert "(bridge reports no inner steps)" in shown


@pytest.mark.mostly_slow(3, "each verb; a part is in make test")
@pytest.mark.parametrize(
    ("verb", "network_list", "network", "execution", "command"),
    [
        ("check pod1", "CheckNetworkList", "checkNetwork", "ExecPluginWithoutResult", "cmdCheck"),
        ("del pod1", "DelNetworkList", "delNetwork", "ExecPluginWithoutResult", "cmdDel"),
        ("gc", "GCNetworkList", "gcNetwork", "ExecPluginWithoutResult", "cmdGC"),
        ("status", "GetStatusNetworkList", "getStatusNetwork", "ExecPluginWithoutResult", "cmdStatus"),
        ("repair", "", "repairNetwork", "ExecPluginWithoutResult", "cmdRepair"),
    ],
)
def test_other_verbs(own_cli: Cli, verb: str, network_list: str, network: str, execution: str, command: str) -> None:
    own_cli.configure(bridge_network("net", version="1.1.0", ipMasq=True))
    own_cli.run("add", "pod1")

    trace = traced(own_cli, *verb.split())

    expected = [f"cni-harness {verb.partition(' ')[0]}", network_list, network, execution, "PluginMain", command]
    found = [[name for name in path if name != "teardownPodNetwork"] for path in trace.paths(command)]
    assert [name for name in expected if name] in found
    # The kernel may refuse a look-up: the table is not there.
    assert not [step.error for step in trace.steps if step.error and not step.name.startswith(("netlink", "nftables"))]


def test_the_steps_of_an_add_fit_on_a_screen(own_cli: Cli) -> None:
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    own_cli.configure(network)

    steps = own_cli.run("add", "pod1", "-p", "8080:80", "--trace").stderr.splitlines()
    whole = own_cli.run("add", "pod2", "-p", "8081:80", "--trace-all").stderr.splitlines()

    assert len(steps) <= 40
    names = {line.lstrip("│├└ ").split("  ")[0] for line in steps}
    assert {"FindInPath", "cmdAdd", "make links", "ipam.ExecAdd", "reserve", "masquerade", "cacheAdd"} <= names
    assert not {name for name in names if name.startswith(("netlink", "nftables", "stdin", "stdout", "{"))}
    assert re.search(r"make links  \d messages to the kernel  [\d.]+ ms", "\n".join(steps))
    assert len(whole) > 100
    assert {"netlink", "nftables", "stdin", "stdout"} <= {line.lstrip("│├└ ").split()[0] for line in whole}


def test_pods_at_the_same_time_keep_their_steps_apart(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net", ipMasq=True))
    pods = [f"pod{number}" for number in range(6)]
    file = own_cli.folder / "trace.json"

    shown = own_cli.run("add", *pods, "--jobs", "3", "--trace", "--trace-file", str(file)).stderr
    trace = Trace(file)

    ids = {pod["name"]: pod["containerID"] for pod in own_cli.pods()}
    for step in trace.named("setupPodNetwork"):
        name = step.attributes["pod"].partition("/")[2]
        below = [each for each in trace.steps if step.id in {above.id for above in _above(trace, each)}]
        told = {each.attributes["CNI_CONTAINERID"] for each in below if "CNI_CONTAINERID" in each.attributes}
        assert told == {ids[name]}
        assert len([each for each in below if each.name == "reserve"]) == 1
    assert len(trace.named("setupPodNetwork")) == len(pods)
    for name, container_id in ids.items():
        (line,) = [each for each in shown.splitlines() if f"CNI_CONTAINERID={container_id[:12]}" in each]
        assert line.split()[0] == name


def _above(trace: Trace, step: Step) -> Iterator[Step]:
    while step.parent:
        step = trace.parent(step)
        yield step


def test_trace_of_a_failing_add_shows_the_failed_step_and_the_undo(own_cli: Cli) -> None:
    network = bridge_network("net", ipMasq=True)
    network["plugins"][0]["ipam"]["ranges"][0][0] |= {"rangeStart": "10.77.0.2", "rangeEnd": "10.77.0.2"}
    own_cli.configure(network)
    own_cli.run("add", "pod1")

    file = own_cli.folder / "trace.json"
    ran = own_cli.run("add", "pod2", "--trace", "--trace-file", str(file), check=False)
    trace = Trace(file)

    assert ran.returncode == 1
    failed = [step for step in trace.named("reserve") if step.error]
    assert [trace.path(step) for step in failed] == [[*CALL, "ipam.ExecAdd", "PluginMain", "cmdAdd", "reserve"]]
    assert "no free address" in failed[0].error or "no address" in failed[0].error
    assert [*CALL, "undo", "netlink RTM_DELLINK"] in trace.paths("netlink RTM_DELLINK")
    commands = [step.attributes["CNI_COMMAND"] for step in trace.steps if step.name.startswith("ExecPlugin")]
    assert commands == ["ADD", "DEL", "DEL"]  # libcni's, and that of the runtime, which takes the pod back
    assert re.search(r"├ reserve .*10\.77\.0\.2", ran.stderr)


def test_trace_of_a_hanging_add_shows_the_present_step(own_cli: Cli) -> None:
    enough = own_cli.folder / "enough"
    own_cli.plugin("sleepy", f'cat > /dev/null; [ "$CNI_COMMAND" = DEL ] || until [ -e {enough} ]; do sleep 0.1; done')
    network = bridge_network("net")
    network["plugins"][0]["ipam"] = {"type": "sleepy"}
    own_cli.configure(network)
    shown: list[str] = []

    with own_cli.background("add", "pod1", "--trace") as process:
        assert process.stderr is not None
        for line in process.stderr:
            shown.append(line)
            if "ipam.ExecAdd" in line:
                break
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        enough.touch()
        rest = process.stderr.read()

    assert not any("└ cmdAdd" in line for line in shown)
    assert "└ ipam.ExecAdd" in rest


def test_without_the_options_plugins_get_no_variables(own_cli: Cli) -> None:
    witness = own_cli.folder / "environment"
    own_cli.plugin("witness", f'cat > /dev/null; env > {witness}; echo \'{{"cniVersion": "1.0.0"}}\'')
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "witness"}]})

    own_cli.run("add", "pod1")
    without = witness.read_text()
    given = f"00-{'a' * 32}-{'b' * 16}-01"
    own_cli.run("add", "pod2", env={"TRACEPARENT": given, "TRACESTATE": "vendor=1", "BAGGAGE": "key=1"})
    passed_on = witness.read_text()
    own_cli.run("add", "pod3", "--trace", env={"TRACEPARENT": given, "TRACESTATE": "vendor=1"})
    continued = witness.read_text()

    assert "TRACE" not in without
    assert {f"TRACEPARENT={given}", "TRACESTATE=vendor=1", "BAGGAGE=key=1"} <= set(passed_on.splitlines())
    assert re.search(f"^TRACEPARENT=00-{'a' * 32}-(?!{'b' * 16})[0-9a-f]{{16}}-01$", continued, re.MULTILINE)
    assert "TRACESTATE=vendor=1" in continued
