from collections.abc import Iterator
from typing import Any

import pytest

from netlink.kinds import MACVLAN_MODES, macvlan, veth
from netlink.link import find_link
from netlink.links import VlanFilteringUnsupportedError
from netlink.namespace import Namespace, entered, open_namespace
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.kernel import has_vlan_filtering
from tests.nodes import Node, until

pytestmark = pytest.mark.sudo


@pytest.fixture
def host(node: Node) -> Iterator[Rtnl]:
    # The thread is elsewhere, so that a handle that opened in the wrong place is seen, and does no harm.
    with (
        open_namespace(node.pod_namespace("elsewhere")) as elsewhere,
        entered(elsewhere),
        open_namespace(node.path) as namespace,
        Rtnl(namespace) as rtnl,
    ):
        yield rtnl


@pytest.fixture
def pod(node: Node) -> Iterator[Namespace]:
    with open_namespace(node.pod_namespace("pod")) as namespace:
        yield namespace


def bridge_index(host: Rtnl) -> int:
    host.create_bridge("br0")
    bridge = host.link("br0")
    assert bridge is not None
    return bridge.ifindex


def shown(node: Node, name: str, netns: str | None = None) -> dict[str, Any]:
    (link,) = node.ip("-d", "link", "show", name, netns=netns)
    return dict(link)


def test_create_bridge_sets_mtu_and_mac(node: Node, host: Rtnl) -> None:
    assert host.create_bridge("br0", mtu=1400, mac="02:00:00:00:00:01") is True

    link = shown(node, "br0")
    assert (link["mtu"], link["address"], link["linkinfo"]["info_kind"]) == (1400, "02:00:00:00:00:01", "bridge")
    assert "UP" not in link["flags"]


def test_create_bridge_leaves_an_existing_link_alone(node: Node, host: Rtnl) -> None:
    host.create_bridge("br0", mac="02:00:00:00:00:01")

    assert host.create_bridge("br0", mtu=1300, mac="02:00:00:00:00:02") is False

    assert (shown(node, "br0")["address"], shown(node, "br0")["mtu"]) == ("02:00:00:00:00:01", 1500)


def test_a_given_bridge_mac_stays_when_ports_come_and_go(node: Node, host: Rtnl, pod: Namespace) -> None:
    host.create_bridge("br0", mac="0a:00:00:00:00:01")
    index = bridge_index(host)

    host.create_veth("v0", peer_name="eth0", peer_namespace=pod, mac="02:00:00:00:00:01", master=index)
    assert shown(node, "br0")["address"] == "0a:00:00:00:00:01"

    host.delete_link("v0")
    assert shown(node, "br0")["address"] == "0a:00:00:00:00:01"


def test_vlan_filtering_is_set_or_refused_by_name(node: Node, host: Rtnl) -> None:
    if has_vlan_filtering(node):
        assert host.create_bridge("br0", vlan_filtering=True) is True
        assert shown(node, "br0")["linkinfo"]["info_data"]["vlan_filtering"] == 1
    else:
        with pytest.raises(VlanFilteringUnsupportedError, match=r"'br0'.*CONFIG_BRIDGE_VLAN_FILTERING"):
            host.create_bridge("br0", vlan_filtering=True)
        assert [link["ifname"] for link in node.ip("link")] == ["lo"]


def test_create_veth_makes_both_ends_in_their_places(node: Node, host: Rtnl, pod: Namespace) -> None:
    master = bridge_index(host)

    link = host.create_veth(
        "veth0",
        peer_name="eth0",
        peer_namespace=pod,
        mtu=1400,
        mac="02:00:00:00:00:01",
        peer_mac="02:00:00:00:00:02",
        master=master,
        alias="net/container/eth0",
        hairpin=True,
        isolated=True,
    )

    here, there = shown(node, "veth0"), shown(node, "eth0", pod.path)
    assert (link.ifindex, "veth", "br0", 1400, "02:00:00:00:00:01", "net/container/eth0") == (
        here["ifindex"],
        here["linkinfo"]["info_kind"],
        here["master"],
        here["mtu"],
        here["address"],
        here["ifalias"],
    )
    assert "UP" in here["flags"]
    assert (
        here["linkinfo"]["info_slave_data"]["hairpin"],
        here["linkinfo"]["info_slave_data"]["isolated"],
    ) == (True, True)
    assert (link.peer_ifindex, 1400, "02:00:00:00:00:02") == (there["ifindex"], there["mtu"], there["address"])
    assert "UP" not in there["flags"]
    # The operational state follows in the kernel's own time.
    found = host.link("veth0")
    assert found is not None
    assert found._replace(oper_state="") == link._replace(oper_state="")


def test_create_veth_defaults(node: Node, host: Rtnl, pod: Namespace) -> None:
    host.create_veth("veth0", peer_name="eth0", peer_namespace=pod, up=False)

    here = shown(node, "veth0")
    assert here["mtu"] == 1500
    assert "UP" not in here["flags"]
    assert not {"master", "ifalias"} & here.keys()


@pytest.mark.parametrize(("name", "peer_name"), [("taken", "eth0"), ("veth0", "taken")])
def test_a_taken_name_is_eexist_and_changes_nothing(
    node: Node, host: Rtnl, pod: Namespace, name: str, peer_name: str
) -> None:
    host.create_veth("taken", peer_name="taken", peer_namespace=pod, alias="first")
    until(lambda: shown(node, "taken")["operstate"] != "UNKNOWN")
    before = node.ip("-d", "link"), node.ip("-d", "link", netns=pod.path)

    with pytest.raises(NetlinkError, match=f"create veth '{name}' with peer '{peer_name}': File exists"):
        host.create_veth(name, peer_name=peer_name, peer_namespace=pod, alias="second", hairpin=True)

    assert before == (node.ip("-d", "link"), node.ip("-d", "link", netns=pod.path))


def test_a_veth_that_cannot_be_finished_is_taken_back(node: Node, host: Rtnl, pod: Namespace) -> None:
    # Settings of a port for an interface that is none.
    with pytest.raises(NetlinkError):
        host.create_veth("veth0", peer_name="eth0", peer_namespace=pod, hairpin=True)

    assert [link["ifname"] for link in node.ip("link")] == ["lo"]
    assert [link["ifname"] for link in node.ip("link", netns=pod.path)] == ["lo"]


@pytest.mark.parametrize("mode", MACVLAN_MODES)
def test_create_link_makes_a_macvlan_in_the_pod(node: Node, host: Rtnl, pod: Namespace, mode: str) -> None:
    host.create_bridge("below", mtu=1400, up=True)
    below = shown(node, "below")

    made = host.create_link(
        "macvlan",
        "pod0",
        data=macvlan(mode=mode, bcqueuelen=77),
        link=below["ifindex"],
        mtu=1300,
        mac="" if mode == "passthru" else "02:00:00:00:00:09",
        namespace=pod,
    )

    assert made is True
    (link,) = node.ip("-d", "link", "show", "pod0", netns=pod.path)
    settings = link["linkinfo"]["info_data"]
    assert ("macvlan", mode, 77) == (link["linkinfo"]["info_kind"], settings["mode"], settings["bcqueuelen"])
    expected = below["address"] if mode == "passthru" else "02:00:00:00:00:09"
    assert (below["ifindex"], 1300, expected) == (link["link_index"], link["mtu"], link["address"])
    assert "UP" not in link["flags"]
    assert sorted(link["ifname"] for link in node.ip("link")) == ["below", "lo"]
    with Rtnl(pod) as inside:
        ours = inside.link("pod0")
    assert ours is not None
    assert (mode, below["ifindex"]) == (ours.details.macvlan_mode, ours.peer_ifindex)


def test_create_link_leaves_an_existing_link_alone(node: Node, host: Rtnl) -> None:
    host.create_bridge("br0", mtu=1400)
    before = node.ip("link")
    found = find_link("br0")

    assert host.create_link("bridge", "br0", mtu=1300, looks=[found]) is False

    assert before == node.ip("link")
    assert found.answer == host.link("br0") is not None


def test_a_kind_that_the_kernel_lacks_is_an_error(host: Rtnl) -> None:
    with pytest.raises(NetlinkError, match=r"create nonsense 'new0': .*(not supported|Unknown device type)"):
        host.create_link("nonsense", "new0")


def test_rename(node: Node, host: Rtnl) -> None:
    index = bridge_index(host)

    host.rename(index, "br1")

    assert shown(node, "br1")["ifindex"] == index
    assert host.link("br0") is None
    with pytest.raises(NetlinkError, match=f"rename link {index} to 'lo': File exists"):
        host.rename(index, "lo")


@pytest.mark.parametrize(("wanted", "name"), [("", "veth0"), ("eth1", "eth1")])
def test_move_link(node: Node, host: Rtnl, pod: Namespace, wanted: str, name: str) -> None:
    data = veth(peer_name="eth0", peer_namespace=pod)
    host.create_link("veth", "veth0", data=data, mac="02:00:00:00:00:01", up=True)
    index = shown(node, "veth0")["ifindex"]

    host.move_link(index, pod, wanted)

    moved = shown(node, name, pod.path)
    assert moved["address"] == "02:00:00:00:00:01"
    assert "UP" not in moved["flags"]
    assert [link["ifname"] for link in node.ip("link")] == ["lo"]


def test_a_link_that_cannot_move_stays(node: Node, host: Rtnl, pod: Namespace) -> None:
    index = host.create_veth("taken", peer_name="taken", peer_namespace=pod).ifindex

    with pytest.raises(NetlinkError, match=f"move link {index} to {pod.path}: File exists"):
        host.move_link(index, pod)

    assert shown(node, "taken")["ifindex"] == index


def test_link_is_found_by_name_index_and_alternative_name(node: Node, host: Rtnl) -> None:
    index = bridge_index(host)
    node.run(["ip", "link", "property", "add", "dev", "br0", "altname", "a-name-longer-than-15-bytes"])

    by_name = host.link("br0")

    assert by_name is not None
    assert by_name.altnames == ("a-name-longer-than-15-bytes",)
    assert by_name == host.link(index) == host.link("a-name-longer-than-15-bytes")
    assert host.link("nope") is None
    assert host.link("nope-longer-than-15-bytes") is None
    assert host.link(4242) is None


def test_links_of_a_bridge_are_its_ports_only(node: Node, host: Rtnl, pod: Namespace) -> None:
    master = bridge_index(host)
    for number in range(3):
        host.create_veth(f"port{number}", peer_name=f"eth{number}", peer_namespace=pod, master=master)
    host.create_veth("other", peer_name="eth9", peer_namespace=pod)

    assert sorted(link.name for link in host.links_of(master)) == ["port0", "port1", "port2"]
    assert sorted(link["ifname"] for link in node.ip("link")) == sorted(link.name for link in host.links())


def test_changing_a_link(node: Node, host: Rtnl, pod: Namespace) -> None:
    index = host.create_veth("veth0", peer_name="eth0", peer_namespace=pod, up=False).ifindex

    host.set_mac(index, "02:00:00:00:00:03")
    host.set_mtu(index, 1280)
    host.set_promiscuous(index, True)
    host.set_up(index)

    link = shown(node, "veth0")
    assert (link["address"], link["mtu"]) == ("02:00:00:00:00:03", 1280)
    assert {"UP", "PROMISC"} <= set(link["flags"])
    ours = host.link(index)
    assert ours is not None
    assert (ours.up, ours.promiscuous, ours.mac, ours.mtu) == (True, True, "02:00:00:00:00:03", 1280)


def test_changing_a_link_back(node: Node, host: Rtnl, pod: Namespace) -> None:
    index = host.create_veth("veth0", peer_name="eth0", peer_namespace=pod).ifindex
    host.set_promiscuous(index, True)

    host.set_promiscuous(index, False)
    host.set_down(index)

    assert not {"UP", "PROMISC"} & set(shown(node, "veth0")["flags"])


@pytest.mark.parametrize(("hairpin", "isolated"), [(False, False), (True, False), (False, True)])
def test_settings_of_a_port(node: Node, host: Rtnl, pod: Namespace, *, hairpin: bool, isolated: bool) -> None:
    master = bridge_index(host)

    host.create_veth("veth0", peer_name="eth0", peer_namespace=pod, master=master, hairpin=hairpin, isolated=isolated)

    port = shown(node, "veth0")["linkinfo"]["info_slave_data"]
    assert (port["hairpin"], port["isolated"], port["learning"]) == (hairpin, isolated, True)
    ours = host.link("veth0")
    assert ours is not None
    assert (hairpin, isolated) == (ours.details.hairpin, ours.details.isolated)


def test_delete_link_takes_the_peer_and_tells_whether_it_was_there(node: Node, host: Rtnl, pod: Namespace) -> None:
    host.create_veth("veth0", peer_name="eth0", peer_namespace=pod)

    assert host.delete_link("veth0") is True

    assert [link["ifname"] for link in node.ip("link", netns=pod.path)] == ["lo"]
    assert host.delete_link("veth0") is False
    assert host.delete_link(4242) is False


def test_error_for_a_missing_link_names_its_index(host: Rtnl) -> None:
    with pytest.raises(NetlinkError, match="set link 4242 up: No such device"):
        host.set_up(4242)


def test_vlans_of_a_port_are_kept_or_refused_by_name(node: Node, host: Rtnl, pod: Namespace) -> None:
    filtering = has_vlan_filtering(node)
    host.create_bridge("br0", vlan_filtering=filtering)
    index = host.create_veth("veth0", peer_name="eth0", peer_namespace=pod, master=bridge_index(host)).ifindex
    if filtering:
        host.add_vlan(index, 5, pvid=True, untagged=True)
        host.add_vlans(index, [12, 20, 10, 11])
        host.delete_vlan(index, 1)

        assert host.vlans(index) == ([5, 10, 11, 12, 20], 5)
        assert "PVID Egress Untagged" in node.run(["bridge", "vlan", "show", "dev", "veth0"]).stdout
    else:
        for verb in (
            lambda: host.add_vlan(index, 5),
            lambda: host.add_vlans(index, [5, 6]),
            lambda: host.vlans(index),
        ):
            with pytest.raises(VlanFilteringUnsupportedError, match="CONFIG_BRIDGE_VLAN_FILTERING"):
                verb()


def test_a_handle_stays_in_its_namespace(node: Node, host: Rtnl, pod: Namespace) -> None:
    with Rtnl(pod) as inside:
        inside.create_bridge("inside")

    assert host.link("inside") is None
    assert "inside" in [link["ifname"] for link in node.ip("link", netns=pod.path)]
