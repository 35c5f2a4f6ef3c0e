"""Messages about links that are written byte by byte, compared with pyroute2's of the same parameters."""

from collections.abc import Callable
from socket import AF_BRIDGE, AF_INET
from typing import Any

import pytest
from pyroute2.netlink import nla, nlmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from netlink import altnames, kinds, link, link_wire, links
from netlink.namespace import Namespace
from netlink.wire import attribute, items
from netlink.wire import values as values_of
from tests.unit.messages import TIMES, Case, Values, reference

NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE, RTM_GETNEIGH = 24, 25, 26, 30
NEW = NLM_F_CREATE | NLM_F_EXCL
SKIP_STATS = ("IFLA_EXT_MASK", 8)
IFF_UP, IFF_PROMISC, IFF_ALLMULTI = 0x1, 0x100, 0x200


def looked_up(values: Values) -> Case:
    name = values.text(40)
    attribute = "IFLA_IFNAME" if len(name.encode()) <= 15 else "IFLA_ALT_IFNAME"
    return link_wire.get_link(name), reference(ifinfmsg, RTM_GETLINK, [(attribute, name), SKIP_STATS])


def looked_up_by_index(values: Values) -> Case:
    index = values.number()
    return link_wire.get_link(index), reference(ifinfmsg, RTM_GETLINK, [SKIP_STATS], index=index)


def listed(values: Values) -> Case:
    master = values.perhaps(values.number)
    expected = reference(ifinfmsg, RTM_GETLINK, [("IFLA_MASTER", master), SKIP_STATS])
    return link_wire.get_links(master=master or 0), expected


def deleted(values: Values) -> Case:
    name = values.ifname()
    return link_wire.delete_link(name), reference(ifinfmsg, RTM_DELLINK, [("IFLA_IFNAME", name)])


def deleted_by_index(values: Values) -> Case:
    index = values.number()
    return link_wire.delete_link(index), reference(ifinfmsg, RTM_DELLINK, index=index)


def bridge(values: Values) -> Case:
    name, up, filtering = values.ifname(), values.flag(), values.flag()
    mtu, mac = values.perhaps(values.number), values.perhaps(values.mac)
    data = kinds.bridge(vlan_filtering=filtering)
    made = links.new_link("bridge", name, data=data, mtu=mtu or 0, mac=mac or "", up=up)
    linkinfo: list[Any] = [("IFLA_INFO_KIND", "bridge")]
    if filtering:
        linkinfo.append(("IFLA_INFO_DATA", {"attrs": [("IFLA_BR_VLAN_FILTERING", 1)]}))
    attributes = [
        ("IFLA_IFNAME", name),
        ("IFLA_MTU", mtu),
        ("IFLA_ADDRESS", mac),
        ("IFLA_LINKINFO", {"attrs": linkinfo}),
    ]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW, flags=int(up), change=int(up))


def veth(values: Values) -> Case:
    name, peer_name, up, descriptor = values.ifname(), values.ifname(), values.flag(), values.random.randint(1000, 9999)
    mtu, mac, peer_mac = values.perhaps(values.number), values.perhaps(values.mac), values.perhaps(values.mac)
    master = values.perhaps(values.number)
    namespace = Namespace("", descriptor)
    data = kinds.veth(peer_name=peer_name, peer_namespace=namespace, peer_mac=peer_mac or "", peer_mtu=mtu or 0)
    made = links.new_link("veth", name, data=data, mtu=mtu or 0, mac=mac or "", master=master or 0, up=up)
    namespace.fd = -1  # which was never open
    given = [("IFLA_IFNAME", peer_name), ("IFLA_MTU", mtu), ("IFLA_ADDRESS", peer_mac), ("IFLA_NET_NS_FD", descriptor)]
    peer = [each for each in given if each[1]]
    linkinfo = [
        ("IFLA_INFO_KIND", "veth"),
        ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", {"attrs": peer})]}),
    ]
    attributes = [
        ("IFLA_IFNAME", name),
        ("IFLA_MTU", mtu),
        ("IFLA_ADDRESS", mac),
        ("IFLA_MASTER", master),
        ("IFLA_LINKINFO", {"attrs": linkinfo}),
    ]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW, flags=int(up), change=int(up))


def macvlan(values: Values) -> Case:
    name, mode, descriptor = values.ifname(), values.random.choice([*kinds.MACVLAN_MODES]), values.random.randint(1, 99)
    below, mac = values.number(), values.perhaps(values.mac)
    namespace = Namespace("", descriptor)
    data = kinds.macvlan(mode=mode)  # pyroute2 does not know the length of the queue
    made = links.new_link("macvlan", name, data=data, link=below, mac=mac or "", namespace=namespace)
    namespace.fd = -1  # which was never open
    settings = [("IFLA_MACVLAN_MODE", mode)]
    linkinfo = [("IFLA_INFO_KIND", "macvlan"), ("IFLA_INFO_DATA", {"attrs": settings})]
    attributes = [
        ("IFLA_IFNAME", name),
        ("IFLA_ADDRESS", mac),
        ("IFLA_NET_NS_FD", descriptor),
        ("IFLA_LINK", below),
        ("IFLA_LINKINFO", {"attrs": linkinfo}),
    ]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW)


def ipvlan(values: Values) -> Case:
    name, mode, below = values.ifname(), values.random.choice([*kinds.IPVLAN_MODES]), values.number()
    made = links.new_link("ipvlan", name, data=kinds.ipvlan(mode=mode), link=below)
    settings = [("IFLA_IPVLAN_MODE", kinds.IPVLAN_MODES[mode])]
    linkinfo = [("IFLA_INFO_KIND", "ipvlan"), ("IFLA_INFO_DATA", {"attrs": settings})]
    attributes = [("IFLA_IFNAME", name), ("IFLA_LINK", below), ("IFLA_LINKINFO", {"attrs": linkinfo})]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW)


def vlan(values: Values) -> Case:
    name, vlan_id, below = values.ifname(), values.random.randint(0, 4094), values.number()
    made = links.new_link("vlan", name, data=kinds.vlan(vlan_id=vlan_id), link=below)
    linkinfo = [("IFLA_INFO_KIND", "vlan"), ("IFLA_INFO_DATA", {"attrs": [("IFLA_VLAN_ID", vlan_id)]})]
    attributes = [("IFLA_IFNAME", name), ("IFLA_LINK", below), ("IFLA_LINKINFO", {"attrs": linkinfo})]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW)


def dummy(values: Values) -> Case:
    name, mtu, mac = values.ifname(), values.perhaps(values.number), values.mac()
    attributes = [("IFLA_IFNAME", name), ("IFLA_MTU", mtu), ("IFLA_ADDRESS", mac)]
    attributes += [("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "dummy")]})]
    return links.new_link("dummy", name, mtu=mtu or 0, mac=mac), reference(ifinfmsg, RTM_NEWLINK, attributes, NEW)


class naming(nlmsg):  # type: ignore[misc]  # noqa: N801 - as pyroute2 names its classes
    """A link's alternative names as they are sent: pyroute2 does not set NLA_F_NESTED, which the kernel requires."""

    fields = ifinfmsg.fields
    nla_map = ((52 | 0x8000, "IFLA_PROP_LIST", "proplist"),)
    proplist = ifinfmsg.proplist


def named(values: Values) -> Case:
    index, name = values.number(), values.text(100)
    names = [("IFLA_PROP_LIST", {"attrs": [("IFLA_ALT_IFNAME", name)]})]
    return altnames.add_altname(index, name).message, reference(naming, 108, names, NEW | 0x800, index=index)


def unnamed(values: Values) -> Case:
    index, name = values.number(), values.text(100)
    names = [("IFLA_PROP_LIST", {"attrs": [("IFLA_ALT_IFNAME", name)]})]
    return altnames.delete_altname(index, name).message, reference(naming, 109, names, index=index)


def changed(values: Values) -> Case:
    index, up, promiscuous = values.number(), values.perhaps(values.flag), values.perhaps(values.flag)
    mac, mtu, alias = values.perhaps(values.mac), values.perhaps(values.number), values.perhaps(lambda: values.text(60))
    name, queue = values.perhaps(values.ifname), values.perhaps(values.number)
    allmulticast, master = values.perhaps(values.flag), values.perhaps(values.number)
    made = link_wire.change_link(
        index,
        up=up,
        promiscuous=promiscuous,
        allmulticast=allmulticast,
        mac=mac or "",
        mtu=mtu or 0,
        tx_queue_len=queue,
        alias=alias,
        name=name or "",
        master=master,
    )
    attributes = [
        ("IFLA_IFNAME", name),
        ("IFLA_MTU", mtu),
        ("IFLA_ADDRESS", mac),
        ("IFLA_TXQLEN", queue),
        ("IFLA_IFALIAS", alias),
        ("IFLA_MASTER", master),
    ]
    bits = {IFF_UP: up, IFF_PROMISC: promiscuous, IFF_ALLMULTI: allmulticast}
    change = sum(bit for bit, wanted in bits.items() if wanted is not None)
    flags = sum(bit for bit, wanted in bits.items() if wanted)
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, index=index, flags=flags, change=change)


def port(values: Values) -> Case:
    index, hairpin, isolated = values.number(), values.flag(), values.flag()
    settings = [("IFLA_BRPORT_MODE", int(hairpin)), ("IFLA_BRPORT_ISOLATED", int(isolated))]
    linkinfo = [("IFLA_INFO_SLAVE_KIND", "bridge"), ("IFLA_INFO_SLAVE_DATA", {"attrs": settings})]
    expected = reference(ifinfmsg, RTM_NEWLINK, [("IFLA_LINKINFO", {"attrs": linkinfo})], index=index)
    return links.change_port(index, hairpin=hairpin, isolated=isolated), expected


class changing(nlmsg):  # type: ignore[misc]  # noqa: N801 - as pyroute2 names its classes
    """A link with IFLA_AF_SPEC as it is sent (include/uapi/linux/ip.h); pyroute2 knows only what comes back."""

    fields = ifinfmsg.fields
    nla_map = ((26, "IFLA_AF_SPEC", "af_spec"),)

    class af_spec(nla):  # type: ignore[misc]  # noqa: N801 -- as pyroute2 names them
        nla_map = ((int(AF_INET), "AF_INET", "inet"),)

        class inet(nla):  # type: ignore[misc]  # noqa: N801 -- as pyroute2 names them
            nla_map = ((1, "IFLA_INET_CONF", "conf"),)

            class conf(nla):  # type: ignore[misc]  # noqa: N801 -- as pyroute2 names them
                nla_map = ((22, "IPV4_DEVCONF_ARP_NOTIFY", "uint32"),)


def notifying(values: Values) -> Case:
    index = values.number()
    conf = {"attrs": [("IPV4_DEVCONF_ARP_NOTIFY", 1)]}
    families = {"attrs": [("AF_INET", {"attrs": [("IFLA_INET_CONF", conf)]})]}
    return links.notify_by_arp(index), reference(changing, RTM_NEWLINK, [("IFLA_AF_SPEC", families)], index=index)


def fdb_entry(values: Values) -> Case:
    index, mac = values.number(), values.mac()
    attributes = [("NDA_LLADDR", mac), ("NDA_MASTER", index)]
    return link.get_fdb_entry(index, mac), reference(ndmsg, RTM_GETNEIGH, attributes, family=AF_BRIDGE)


@pytest.mark.parametrize(
    "case",
    [
        looked_up,
        looked_up_by_index,
        listed,
        deleted,
        deleted_by_index,
        bridge,
        veth,
        macvlan,
        ipvlan,
        vlan,
        dummy,
        named,
        unnamed,
        changed,
        port,
        notifying,
        fdb_entry,
    ],
)
def test_bytes_equal_the_bytes_of_pyroute2(case: Callable[[Values], Case]) -> None:
    values = Values()
    for _ in range(TIMES):
        ours, expected = case(values)

        assert expected.hex(" ", 4) == ours.hex(" ", 4)


def test_values_are_the_items_by_number() -> None:
    encoded = attribute(3, b"eth0\0") + attribute(2, b"") + attribute(3, b"eth1\0")

    assert dict(items(encoded)) == values_of(encoded) == {3: b"eth1\0", 2: b""}
