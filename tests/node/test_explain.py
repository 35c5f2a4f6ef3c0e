"""`explain` and `--record`: the page of a run, held against the kernel and the files of the node."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from harness.views.step_meanings import _PAGES, meaning_of
from tests.cli import Cli, bridge_network
from tests.explained import chain, explained, host_veth
from tests.manifests import KubeletNode, pod

pytestmark = pytest.mark.sudo

PAGES = {address for _, address in _PAGES.values()}
"""The pages that explain steps."""


def test_page_of_an_add_matches_the_kernel(own_cli: Cli) -> None:
    own_cli.configure(chain())

    own_cli.run("add", "pod1", "-p", "8080:80", "--record")
    page = explained(own_cli, "pod1")

    [it] = own_cli.pods()
    netns = it["netns"]
    veth = host_veth(own_cli, netns)
    facts = page.facts()
    assert (facts["container ID"], facts["network namespace"]) == (it["containerID"], netns)
    [address] = [each for each in own_cli.addresses(netns, "eth0") if "." in each]
    assert facts["network net"] == f"eth0: {address}, gateway 10.77.0.1"
    assert facts["executions"] == "bridge ADD, portmap ADD"
    assert " add pod1 -p 8080:80 --record" in facts["command"]
    # The sequence: lanes, and calls in their order.
    assert page.texts("text", "lane") == ["runtime", "bridge", "host-local", "portmap", "kernel"]
    sequence = page.sections["sequence"]
    order = ["make links", "ipam.ExecAdd", "reserve", "configure pod", "masquerade"]
    assert sorted(order, key=sequence.index) == order
    # The node.
    new = page.texts("li", "new")
    assert any(line.startswith(f"+ node: link {veth} (veth, port of net0") for line in new)
    assert any(line.startswith("+ pod1: link eth0 (veth") for line in new)
    assert any(f"+ pod1: address {address} dev eth0" in line for line in new)
    assert any("+ node: nft element inet cni_harness_portmap ports4" in line for line in new)
    before, after = (text for text in page.text.split('class="topology"')[1:])
    assert veth not in before
    assert veth in after.partition("</svg>")[0]
    assert json.loads(page.texts("pre")[-2]) == chain()
    assert "8080→80/tcp" in page.sections["node"]


def test_steps_of_the_timeline_match_the_trace(own_cli: Cli) -> None:
    own_cli.configure(chain())
    trace = own_cli.folder / "trace.json"

    own_cli.run("add", "pod1", "--record", "--trace-file", str(trace))
    page = explained(own_cli, "pod1")

    spans = [
        span
        for resource in json.loads(trace.read_text())["resourceSpans"]
        for span in resource["scopeSpans"][0]["spans"]
    ]
    lines = page.texts("span", "name")
    shown = [line.split()[0] for line in lines if not line.endswith(" times")]  # all that it folds follow such a line
    assert sorted(shown) == sorted(span["name"].split()[0] for span in spans)
    assert all(meaning_of(span["name"]) for span in spans)
    bars = [attributes["style"] for tag, attributes in page.tags if tag == "b"]
    assert len(bars) == len(lines)
    for style in bars:
        left, width = map(float, re.findall(r"[\d.]+", style))
        assert 0 <= left <= left + width <= 100.001
    assert "create veth" in page.sections["timeline"]


def test_a_command_of_the_page_can_be_pasted(own_cli: Cli) -> None:
    own_cli.configure(chain())
    own_cli.run("add", "pod1", "--record")
    [it] = own_cli.pods()
    page = explained(own_cli, "pod1")
    own_cli.run("del", "pod1")
    netns = Path(it["netns"]).name
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        command = next(each for each in page.commands() if "/bridge <<" in each)
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, cwd="/")

        [address] = [each["address"] for each in json.loads(ran.stdout)["ips"]]
        assert own_cli.addresses(it["netns"], "eth0") == {address}
    finally:
        subprocess.run(["ip", "netns", "delete", netns], check=True)


def test_chain_shows_the_changes_of_each_plugin(own_cli: Cli) -> None:
    own_cli.plugin("painter", _PAINTER)
    network = bridge_network("net")
    network["plugins"].append({"type": "painter"})
    own_cli.configure(network)

    own_cli.run("add", "pod1", "--record")
    page = explained(own_cli, "pod1")

    assert [line.strip() for line in page.texts("span", "new")] == ['+      "mac": "02:00:00:00:00:01"']
    assert "reports no inner steps" in page.sections["documents"]


_PAINTER = """\
config=$(cat)
if [ "$CNI_COMMAND" = ADD ]; then
    echo "$config" | jq '.prevResult | .interfaces[0].mac = "02:00:00:00:00:01"'
fi
"""


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_failed_add_has_a_page_with_the_reason(own_cli: Cli) -> None:
    own_cli.plugin("broken", _BROKEN)
    network = bridge_network("net")
    network["plugins"].append({"type": "broken"})
    own_cli.configure(network)

    ran = own_cli.run("add", "pod1", "--record", check=False)
    page = explained(own_cli, "pod1")

    assert ran.returncode == 1
    [error, *_] = page.texts("p", "error")
    assert "<script>alert(1)</script> \\x1b[31m" in error
    assert "<script" not in page.text.lower()
    assert "network net" not in page.facts()
    assert [tag for tag, _ in page.tags if tag in {"script", "iframe", "img", "object"}] == []
    outward = {each["href"] for tag, each in page.tags if tag == "a" and not each["href"].startswith("#")}
    assert 5 < len(outward & PAGES) == len(outward)
    assert json.loads(page.texts("pre")[-2])["name"] == "net"
    calls = [(text.split()[0], text.split()[1]) for text in page.texts("h3") if "ADD" in text or "DEL" in text]
    assert [call for call in calls if call[0] != "host-local"] == [
        ("bridge", "ADD"),
        ("broken", "ADD"),
        *[("broken", "DEL"), ("bridge", "DEL")] * 2,  # libcni's, and that of the runtime, which takes the pod back
    ]
    assert own_cli.pods() == []


_BROKEN = r"""
cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
printf '{"cniVersion": "1.0.0", "code": 100, "msg": "<script>alert(1)</script> \\u001b[31m"}'
exit 1
"""


def test_a_missing_plugin_is_on_record(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "absent"}]})

    own_cli.run("add", "pod1", "--record", check=False)
    page = explained(own_cli, "pod1")

    assert "Nobody was called." in page.sections["sequence"]
    assert "No plugin was executed." in page.sections["documents"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_explain_shows_the_del_and_on_request_the_add(own_cli: Cli) -> None:
    own_cli.configure(chain())
    own_cli.run("add", "pod1", "--record")
    [it] = own_cli.pods()
    veth = host_veth(own_cli, it["netns"])

    own_cli.run("del", "pod1", "--record")
    newest, added = explained(own_cli, "pod1"), explained(own_cli, "pod1", "--run", "add")

    assert newest.facts()["executions"] == "portmap DEL, bridge DEL"
    assert added.facts()["executions"] == "bridge ADD, portmap ADD"
    gone = newest.texts("li", "gone")
    assert any(line.startswith(f"- node: link {veth} ") for line in gone)
    assert any(line.startswith(f"- pod1: namespace {it['netns']}") for line in gone)
    assert newest.facts()["container ID"] == it["containerID"]
    missing = own_cli.run("explain", "pod1", "--run", "delete", check=False)
    assert "no `delete --record` of pod default/pod1" in missing.stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_pods_of_one_run_have_pages_of_their_own(own_cli: Cli) -> None:
    own_cli.configure(chain())

    own_cli.run("add", "pod1", "pod2", "--record")

    ids = {each["name"]: each["containerID"] for each in own_cli.pods()}
    for name, other in (("pod1", "pod2"), ("pod2", "pod1")):
        page = explained(own_cli, name)
        assert page.facts()["container ID"] == ids[name]
        assert ids[other] not in page.sections["documents"] + page.sections["timeline"]
        assert f"default/{other}" not in page.sections["timeline"]
        assert len(page.commands()) == 3
        places = {line.split()[1] for line in page.texts("li")}
        assert {f"{name}:", "node:"} <= places
        assert f"{other}:" not in places


def test_with_the_reference_plugins(reference_cli: Cli) -> None:
    reference_cli.configure(bridge_network("net"))

    reference_cli.run("add", "pod1", "--record")
    page = explained(reference_cli, "pod1")

    assert page.texts("text", "lane") == ["runtime", "bridge"]
    assert "reports no inner steps" in page.sections["documents"]
    [it] = reference_cli.pods()
    veth = host_veth(reference_cli, it["netns"])
    assert any(line.startswith(f"+ node: link {veth} ") for line in page.texts("li", "new"))


@pytest.mark.slow("a whole pod is recorded; the page of an add is in make test")
def test_a_pod_of_a_manifest(bridged: KubeletNode) -> None:
    manifest = bridged.write(pod("web"))

    bridged.run("run", "-f", str(manifest), "--record")
    started = explained(bridged, "web")
    bridged.run("delete", "web", "--record")
    ended = explained(bridged, "web")

    assert started.texts("text", "lane")[:3] == ["kubelet", "runtime", "loopback"]
    sequence = started.sections["sequence"]
    order = ["RunPodSandbox", "CreateContainer", "StartContainer"]
    assert sorted(order, key=sequence.index) == order
    for page in (started, ended):
        lines = [attributes for tag, attributes in page.tags if (tag, attributes.get("class")) == ("span", "name")]
        assert len(lines) > 20
        assert [line for line in lines if "title" not in line] == [], "each kind of step has a sentence"
    assert "bridge ADD" in started.facts()["executions"]
    assert any(line.startswith("+ web: link eth0 (veth") for line in started.texts("li", "new"))
    assert "bridge DEL" in ended.facts()["executions"]
    assert any(line.startswith("- web: namespace") for line in ended.texts("li", "gone"))
    assert " delete web" in started.texts("pre")[-1]
