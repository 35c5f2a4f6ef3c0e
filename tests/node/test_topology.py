"""`topology`: links, what they lead to, and their owners, held against what `ip` says."""

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network
from tests.nodes import Node

pytestmark = pytest.mark.sudo

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
LOST = "c0ffee" * 10 + "dead"
SVG = "{http://www.w3.org/2000/svg}"
MERMAID_LINE = re.compile(
    r"flowchart LR|  subgraph s\d+\[\"[^\"]*\"\]|    [lp]\d+\[\"[^\"\n]*\"\]|  end|  l\d+ (---|-\.-) l\d+"
)


def furnished(cli: Cli) -> list[dict[str, str]]:
    """Make two pods on a bridge, one with a second interface on a macvlan, and one on ptp; return name and netns."""
    bridge = bridge_network("net", ipMasq=True)
    bridge["plugins"].append(PORTMAP)
    ptp = {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.78.0.0/24"}}
    macvlan = {"type": "macvlan", "master": "up0", "ipam": {"type": "host-local", "subnet": "10.79.0.0/24"}}
    others = [
        {"cniVersion": "1.0.0", "name": "direct", "plugins": [ptp]},
        {"cniVersion": "1.0.0", "name": "flat", "plugins": [macvlan]},
    ]
    cli.configure(bridge, *others)
    cli.add("pod1", "-p", "8080:80")
    cli.ip("link", "add", "up0", "type", "veth", "peer", "name", "up1")
    cli.ip("link", "set", "up0", "up")
    cli.add("pod2", "--network", "net", "--network", "flat")
    cli.add("pod3", "--network", "direct")
    return cli.pods()


def by_ip(cli: Cli, places: dict[str, str]) -> set[tuple[str, str, str, str]]:
    """Return place, link, and place and name of its other end, as `ip` and its numbers of namespaces say."""
    names: dict[tuple[str, int], str] = {}
    found = set()
    for label, netns in places.items():
        for link in cli.ip("-d", "link", "show", netns=netns):
            names[label, link["ifindex"]] = link["ifname"]
    for label, netns in places.items():
        listed = {entry["nsid"]: entry.get("name", "") for entry in cli.ip("netns", "list-id", netns=netns)}
        labels = {Path(path).name: other for other, path in places.items()}
        for link in cli.ip("-d", "link", "show", netns=netns):
            if link["ifname"] == "lo":
                continue
            there = ("", "")
            if "link_netnsid" in link:
                other = labels[listed[link["link_netnsid"]]]
                there = (other, names[other, link["link_index"]])
            elif link.get("link"):
                there = (label, link["link"])
            found.add((label, link["ifname"], *there))
    return found


def test_links_and_their_other_ends_are_the_kernels(cli: Cli) -> None:
    pods = furnished(cli)
    places = {"node": f"/run/netns/{cli.node}"} | {pod["name"]: pod["netns"] for pod in pods}

    document = cli.json("topology")

    shown = {
        (place["label"], link["name"], *((link["peer"]["place"], link["peer"]["name"]) if link["peer"] else ("", "")))
        for place in document["places"]
        for link in place["links"]
    }
    assert shown == by_ip(cli, places)
    ports = {place["label"]: {link["name"]: link["bridge"] for link in place["links"]} for place in document["places"]}
    masters = {link["ifname"]: link.get("master", "") for link in cli.ip("link", "show") if link["ifname"] != "lo"}
    assert ports["node"] == masters


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_owners_addresses_and_ports(cli: Cli) -> None:
    furnished(cli)

    document = cli.json("topology")

    links = {(place["label"], link["name"]): link for place in document["places"] for link in place["links"]}
    owners = {key: link["owner"] and (link["owner"]["kind"], link["owner"]["name"]) for key, link in links.items()}
    ends = {key: (link["peer"]["place"], link["peer"]["name"]) for key, link in links.items() if link["peer"]}
    assert owners["node", "net0"] == ("network", "net")
    assert owners["node", "up0"] is None
    for pod, ifname in (("pod1", "eth0"), ("pod2", "eth0"), ("pod3", "eth0")):
        assert owners[pod, ifname] == owners[ends[pod, ifname]] == ("attachment", pod)
    assert owners["pod2", "net1"] == ("attachment", "pod2")
    assert ends["pod2", "net1"] == ("node", "up0")
    for label, ifname in links:
        if label != "node":
            netns = next(place["netns"] for place in document["places"] if place["label"] == label)
            assert set(links[label, ifname]["addresses"]) == cli.addresses(netns, ifname)
    [port] = document["portMappings"]
    assert (port["host_port"], port["protocol"], port["address"], port["port"]) == (8080, "tcp", "10.77.0.2", 80)
    [pod1] = [pod for pod in cli.pods() if pod["name"] == "pod1"]
    assert port["container_id"] == pod1["containerID"]


def test_topology_prints_a_tree_of_links_with_owners(own_cli: Cli) -> None:
    furnished(own_cli)

    lines = own_cli.run("topology").stdout.splitlines()

    depth = {line.lstrip("│├└ ").split()[0]: len(line) - len(line.lstrip("│├└ ")) for line in lines}
    assert lines[0].startswith(f"node  /run/netns/{own_cli.node}")
    [pod1] = [line for line in lines if line.endswith("[net/pod1/eth0] in pod1")]
    assert "eth0  veth  10.77.0.2/16  mtu 1500" in pod1
    assert pod1.startswith(("│ │ └ ", "  │ └ "))
    assert depth["net0"] < len(pod1) - len(pod1.lstrip("│├└ "))
    assert any("port 8080→80/tcp" in line for line in lines)
    assert any(line.lstrip("│├└ ").startswith("net1  macvlan  10.79.0.2/24") for line in lines)


def test_a_foreign_namespace_is_shown_by_its_link(own_cli: Cli) -> None:
    """As Docker's or a hand-made one: no record and no cache names it."""
    own_cli.configure(bridge_network("net"))
    own_cli.add("pod1")
    name = f"foreign-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        own_cli.ip("link", "add", "far0", "type", "veth", "peer", "name", "near0", "netns", name)
        subprocess.run(["ip", "-n", name, "address", "add", "192.0.2.9/24", "dev", "near0"], check=True)

        document = own_cli.json("topology")
        text = own_cli.run("topology").stdout
    finally:
        remove_namespace(f"/run/netns/{name}")

    [place] = [place for place in document["places"] if place["label"] == name]
    assert (place["netns"], place["pods"]) == (f"/run/netns/{name}", [])
    assert [(link["name"], link["addresses"], link["peer"]) for link in place["links"]] == [
        ("near0", ["192.0.2.9/24"], {"place": "node", "name": "far0"})
    ]
    assert f"in {name} (/run/netns/{name}, no known pod)" in text


def test_a_namespace_of_a_process_alone_is_shown(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    own_cli.add("pod1")
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 900"], stdout=subprocess.PIPE) as it:
        try:
            assert it.stdout is not None
            assert it.stdout.readline() == b"ready\n"
            own_cli.ip("link", "add", "far0", "type", "veth", "peer", "name", "near0", "netns", str(it.pid))

            places = {place["label"]: place for place in own_cli.json("topology")["places"]}
        finally:
            it.kill()

    [label] = [label for label in places if f"[{it.pid}]" in label]
    assert [link["name"] for link in places[label]["links"]] == ["near0"]


def test_a_pod_of_another_runtime_is_shown_with_its_name(node: Node, direct_bin_dir: Path, own_cli: Cli) -> None:
    """The cache of a runtime is all that is known of its pods."""
    own_cli.configure(bridge_network("net"))
    [pod] = own_cli.add("pod1")
    [path] = (own_cli.var_lib_cni / "results").iterdir()
    entry = json.loads(path.read_text())
    entry["cniArgs"] = [["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "cart-0"]]
    path.write_text(json.dumps(entry))
    record = own_cli.node_dir / "pods" / "default_pod1" / "pod.json"
    kept = record.read_text()
    record.unlink()

    document = own_cli.json("topology")

    record.write_text(kept)  # for `close`
    assert [(place["label"], place["pods"]) for place in document["places"][1:]] == [("shop/cart-0", ["shop/cart-0"])]
    assert document["places"][1]["netns"] == pod["netns"]


def test_a_veth_of_an_unknown_container(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    own_cli.add("pod1")
    own_cli.ip("link", "add", "veth77", "type", "veth", "peer", "name", "veth78")
    own_cli.ip("link", "set", "veth77", "alias", f"net/{LOST}/eth0")

    assert "[container c0ffeec0ffee of network net, unknown to every runtime]" in own_cli.run("topology").stdout


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_node_without_pods(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    own_cli.run("add", "pod1")
    own_cli.run("del", "--all")
    own_cli.ip("link", "del", "net0")

    assert [place["links"] for place in own_cli.json("topology")["places"]] == [[]]
    assert own_cli.run("topology").stdout.strip() == f"node  /run/netns/{own_cli.node}"
    assert ET.fromstring(own_cli.run("topology", "--format", "svg").stdout).tag == f"{SVG}svg"  # noqa: S314 -- our own drawing


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_graphs_have_each_link_and_each_connection(own_cli: Cli) -> None:
    furnished(own_cli)

    dot = own_cli.run("topology", "--format", "dot").stdout
    mermaid = own_cli.run("topology", "--format", "mermaid").stdout.splitlines()

    assert all(MERMAID_LINE.fullmatch(line) for line in mermaid), mermaid
    boxes = {line.split("[")[0].strip() for line in mermaid if re.match(r"    l\d", line)}
    ends = {end for line in mermaid if re.match(r"  l\d", line) for end in re.findall(r"l\d+", line)}
    assert ends <= boxes
    assert dot.count(" -- ") == sum(bool(re.match(r"  l\d", line)) for line in mermaid) == 7
    assert dot.count("subgraph cluster") == 4
    places = re.split(r"^  subgraph", "\n".join(mermaid), flags=re.MULTILINE)
    on_node = set(re.findall(r"^    (l\d+)", next(each for each in places if '["node' in each), re.MULTILINE))
    pairs = [re.findall(r"l\d+", line) for line in mermaid if re.match(r"  l\d", line)]
    assert [left for left, right in pairs if left not in on_node] == [], "links of the node are left of the pods'"


def test_the_drawing_has_a_box_for_each_pod_with_its_interfaces(own_cli: Cli) -> None:
    furnished(own_cli)

    first = own_cli.run("topology", "--format", "svg").stdout
    root = ET.fromstring(first)  # noqa: S314 -- our own drawing

    assert own_cli.run("topology", "--format", "svg").stdout == first
    kinds = [rect.attrib["class"] for group in root.findall(f"{SVG}g") for rect in group.findall(f"{SVG}rect")[:1]]
    assert [kinds.count(kind) for kind in ("frame", "pod", "inside", "link")] == [1, 3, 4, 6]
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"pod1", "pod2", "pod3", "net0", "port 8080→80/tcp"} <= texts
    assert "http" not in first.replace("http://www.w3.org/2000/svg", "")
