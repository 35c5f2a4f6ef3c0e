"""Messages that are written here byte by byte, compared with those that pyroute2 makes of the same parameters."""

import random
import struct
from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Any

import pytest
from pyroute2.netlink import nla, nlmsg
from pyroute2.netlink.nfnetlink.nfctsocket import nfct_msg
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from netlink import addresses as address_verbs
from netlink import altnames, conntrack, kinds, link, link_wire, links, route_copies, routes, rules
from netlink import traffic_control as tc
from netlink import traffic_filters as filters
from netlink.codec import Attributes, build
from netlink.namespace import Namespace
from netlink.wire import Frame

TIMES = 300
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE, RTM_GETNEIGH = 24, 25, 26, 30
RTM_NEWRULE, RTM_DELRULE = 32, 33
RTM_NEWQDISC, RTM_DELQDISC = 36, 37
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
NEW = NLM_F_CREATE | NLM_F_EXCL
SKIP_STATS = ("IFLA_EXT_MASK", 8)
IFF_UP, IFF_PROMISC, IFF_ALLMULTI = 0x1, 0x100, 0x200
RTPROT_BOOT, RTN_UNICAST = 3, 1

Case = tuple[bytes, bytes]


class Values:
    """Parameters of messages, the same ones in every run."""

    def __init__(self) -> None:
        self.random = random.Random(20261122)  # noqa: S311 - nothing is kept secret by them

    def number(self) -> int:
        return self.random.choice([1, 2, 255, 256, 65_535, 65_536, self.random.randrange(1, 2**31)])

    def perhaps(self, value: Callable[[], Any], otherwise: Any = None) -> Any:
        return value() if self.random.random() < 0.5 else otherwise

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def text(self, longest: int) -> str:
        return "".join(self.random.choices("abcäxyz019-_.€", k=self.random.randint(1, longest)))

    def ifname(self) -> str:
        return "".join(self.random.choices("abcxyz019-_.", k=self.random.randint(1, 15)))

    def mac(self) -> str:
        return self.random.randbytes(6).hex(":")

    def address(self, version: int) -> Any:
        return ip_address(self.random.randbytes(4 if version == 4 else 16))

    def version(self) -> int:
        return self.random.choice([4, 6])

    def interface(self) -> Any:
        version = self.version()
        return ip_interface((self.address(version), self.random.randint(0, 32 if version == 4 else 128)))

    def network(self, version: int) -> Any:
        length = self.random.choice([0, 1, 8, 24, 31, 32] if version == 4 else [0, 1, 48, 64, 127, 128])
        return ip_network((self.address(version), length), strict=False)


def reference(cls: Any, kind: int, attributes: Attributes = (), nlm_flags: int = 0, **fields: int) -> bytes:
    present = [(name, value) for name, value in attributes if value is not None]
    return build(cls, kind, present, nlm_flags=nlm_flags, **fields)


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
    return altnames.new_altname(index, name), reference(naming, 108, names, NEW | 0x800, index=index)


def unnamed(values: Values) -> Case:
    index, name = values.number(), values.text(100)
    names = [("IFLA_PROP_LIST", {"attrs": [("IFLA_ALT_IFNAME", name)]})]
    return altnames.old_altname(index, name), reference(naming, 109, names, index=index)


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


def addresses(values: Values) -> Case:
    index, family = values.number(), values.random.choice([0, AF_INET, AF_INET6])
    expected = reference(ifaddrmsg, RTM_GETADDR, family=family, index=index)
    return address_verbs.get_addresses(index, family), expected


def of_interface(index: int, interface: Any, *others: tuple[str, Any]) -> tuple[list[Any], dict[str, int]]:
    attributes = [("IFA_LOCAL", str(interface.ip)), ("IFA_ADDRESS", str(interface.ip)), *others]
    family = AF_INET if interface.version == 4 else AF_INET6
    return attributes, {"family": family, "prefixlen": interface.network.prefixlen, "index": index}


def new_address(values: Values) -> Case:
    index, interface, nodad = values.number(), values.interface(), values.flag()
    noprefixroute = values.flag()
    broadcast = None
    if interface.version == 4 and interface.network.prefixlen < 31:
        broadcast = str(interface.network.broadcast_address)
    attributes, fields = of_interface(
        index, interface, ("IFA_FLAGS", 2 * nodad + 0x200 * noprefixroute), ("IFA_BROADCAST", broadcast)
    )
    expected = reference(ifaddrmsg, RTM_NEWADDR, attributes, NEW, **fields)
    return address_verbs.new_address(index, interface, nodad=nodad, noprefixroute=noprefixroute), expected


def deleted_address(values: Values) -> Case:
    index, interface = values.number(), values.interface()
    attributes, fields = of_interface(index, interface)
    return address_verbs.delete_address(index, interface), reference(ifaddrmsg, RTM_DELADDR, attributes, **fields)


def route(values: Values) -> Case:
    index, version = values.number(), values.version()
    dst, gateway = values.network(version), values.perhaps(lambda: values.address(version))
    mtu, advmss, priority = (values.perhaps(values.number) for _ in range(3))
    table, scope = values.perhaps(values.number), values.perhaps(lambda: values.random.choice([0, 200, 253]))
    made = routes.new_route(
        index,
        dst,
        gateway=gateway,
        mtu=mtu or 0,
        advmss=advmss or 0,
        priority=priority or 0,
        table=table,
        scope=scope,
    )
    metrics = [(name, value) for name, value in (("RTAX_MTU", mtu), ("RTAX_ADVMSS", advmss)) if value]
    number = 254 if table is None else table
    attributes = [
        ("RTA_DST", str(dst.network_address) if dst.prefixlen else None),
        ("RTA_OIF", index),
        ("RTA_PRIORITY", priority),
        ("RTA_GATEWAY", str(gateway) if gateway else None),
        ("RTA_METRICS", {"attrs": metrics} if metrics else None),
        ("RTA_TABLE", number),
    ]
    expected = reference(
        rtmsg,
        RTM_NEWROUTE,
        attributes,
        NLM_F_CREATE,
        family=AF_INET if version == 4 else AF_INET6,
        dst_len=dst.prefixlen,
        table=number if number <= 254 else 252,
        proto=RTPROT_BOOT,
        scope=scope or 0,
        type=RTN_UNICAST,
    )
    return made, expected


def vrf(values: Values) -> Case:
    name, table, up = values.ifname(), values.number(), values.flag()
    made = links.new_link("vrf", name, data=kinds.vrf(table=table), up=up)
    linkinfo = [("IFLA_INFO_KIND", "vrf"), ("IFLA_INFO_DATA", {"attrs": [("IFLA_VRF_TABLE", table)]})]
    attributes = [("IFLA_IFNAME", name), ("IFLA_LINKINFO", {"attrs": linkinfo})]
    return made, reference(ifinfmsg, RTM_NEWLINK, attributes, NEW, flags=int(up), change=int(up))


def of_rule(src: Any, table: int, priority: int | None, kind: int, nlm_flags: int) -> bytes:
    attributes = [("FRA_SRC", str(src.network_address)), ("FRA_PRIORITY", priority), ("FRA_TABLE", table)]
    return reference(
        fibmsg,
        kind,
        attributes,
        nlm_flags,
        family=AF_INET if src.version == 4 else AF_INET6,
        src_len=src.prefixlen,
        table=table if table <= 254 else 252,
        action=1,
    )


def new_rule(values: Values) -> Case:
    src, table = values.network(values.version()), values.number()
    return rules.new_rule(src, table), of_rule(src, table, None, RTM_NEWRULE, NEW)


def old_rule(values: Values) -> Case:
    src, table, priority = values.network(values.version()), values.number(), values.perhaps(values.number)
    made = rules.old_rule(rules.Rule(src, table, priority or 0))
    return made, of_rule(src, table, priority, RTM_DELRULE, 0)


def copied_route(values: Values) -> Case:
    """As the kernel describes a route, with attributes and flags of its own, and as it is asked for in a table."""
    index, version, table = values.number(), values.version(), values.number()
    dst, gateway = values.network(version), values.perhaps(lambda: values.address(version))
    old, new = values.perhaps(lambda: values.address(version)), values.perhaps(lambda: values.address(version))
    fixed = {"family": AF_INET if version == 4 else AF_INET6, "dst_len": dst.prefixlen, "proto": 2, "type": RTN_UNICAST}
    first = [("RTA_DST", str(dst.network_address)), ("RTA_OIF", index), ("RTA_GATEWAY", gateway and str(gateway))]
    described = [("RTA_TABLE", 254), *first, ("RTA_PREFSRC", old and str(old))]
    copy = route_copies.route_copy(reference(rtmsg, RTM_NEWROUTE, described, table=254, flags=0x10 | 4, **fixed))
    source = new or old
    asked = [*first, ("RTA_PREFSRC", source and str(source)), ("RTA_TABLE", table)]
    number = table if table <= 254 else 252
    expected = reference(rtmsg, RTM_NEWROUTE, asked, NLM_F_CREATE, table=number, flags=4, **fixed)
    return copy.written(RTM_NEWROUTE, NLM_F_CREATE, table, new), expected


def route_looked_up(values: Values) -> Case:
    version = values.version()
    address = values.address(version)
    family, length = (AF_INET, 32) if version == 4 else (AF_INET6, 128)
    expected = reference(rtmsg, RTM_GETROUTE, [("RTA_DST", str(address))], family=family, dst_len=length)
    return routes.get_route_to(address), expected


def connections(values: Values) -> Case:
    version, port = values.version(), values.random.randrange(1, 65_536)
    protocol = values.random.choice([6, 17, 132])
    parts = [("CTA_PROTO_NUM", protocol), ("CTA_PROTO_DST_PORT", port)]
    tuple_ = {"attrs": [("CTA_TUPLE_PROTO", {"attrs": parts})]}
    # pyroute2 does not know CTA_FILTER: 12 bytes behind the rest.
    made = conntrack.list_connections(version, protocol, port)
    flags = (20, 25 | 0x8000, 8, 1, 1 << 3 | 1 << 5, 8, 2, 0)
    attributes = [("CTA_TUPLE_ORIG", tuple_)]
    expected = bytearray(
        reference(nfct_msg, 1 << 8 | 1, attributes, nfgen_family=AF_INET if version == 4 else AF_INET6)
    )
    expected += struct.pack("=HHHHIHHI", *flags)
    struct.pack_into("=I", expected, 0, len(expected))
    return made, bytes(expected)


def traffic(kind: int, name: str, options: Any = None, flags: int = 0, **fields: int) -> bytes:
    attributes = [("TCA_KIND", name), ("TCA_OPTIONS", {"attrs": options} if options else None)]
    return reference(tcmsg, kind, attributes, flags, **fields)


def classes(values: Values) -> Case:
    index, default, waiting = values.number(), values.number(), values.number()
    made = tc.new_qdisc(index, "htb", tc.htb(default, waiting), handle=0x10000)
    options = [
        ("TCA_HTB_INIT", {"version": 3, "rate2quantum": 10, "defcls": default}),
        ("TCA_HTB_DIRECT_QLEN", waiting),
    ]
    return made, traffic(RTM_NEWQDISC, "htb", options, NEW, index=index, handle=0x10000, parent=tc.ROOT)


def removed_qdisc(values: Values) -> Case:
    index, handle = values.number(), values.number()
    made = tc.delete_qdisc(index, "ingress", parent=tc.INGRESS, handle=handle).message
    return made, traffic(RTM_DELQDISC, "ingress", index=index, handle=handle, parent=tc.INGRESS)


@pytest.mark.parametrize(
    "case",
    [
        classes,
        removed_qdisc,
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
        addresses,
        new_address,
        deleted_address,
        route,
        vrf,
        new_rule,
        old_rule,
        copied_route,
        route_looked_up,
        connections,
    ],
)
def test_bytes_are_those_of_pyroute2(case: Callable[[Values], Case]) -> None:
    values = Values()
    for _ in range(TIMES):
        ours, expected = case(values)

        assert expected.hex(" ", 4) == ours.hex(" ", 4)


def test_a_route_is_read_as_it_was_written() -> None:
    values = Values()
    for _ in range(TIMES):
        index, version, table = values.number(), values.version(), values.number()
        dst, gateway = values.network(version), values.address(version) if values.flag() else None
        (read,) = routes.routes_in(routes.new_route(index, dst, gateway=gateway, mtu=9000, table=table))

        assert (dst, gateway, index, 9000, 0) == (read.dst, read.gateway, read.ifindex, read.mtu, read.advmss)
        assert table == read.table


def test_a_rule_is_read_as_it_was_written() -> None:
    values = Values()
    for _ in range(TIMES):
        rule = rules.Rule(values.network(values.version()), values.number(), values.number())

        assert rule == rules.rule_in(rules.old_rule(rule))


def test_a_filter_is_read_as_it_was_written() -> None:
    values = Values()
    for _ in range(TIMES):
        index, class_id, priority = values.number(), values.number(), values.random.randint(1, 65_535)
        keys = tuple(
            filters.Key(values.number(), values.number(), 4 * number) for number in range(values.random.randint(1, 4))
        )
        made = filters.new_u32_filter(index, parent=1, priority=priority, protocol=0x86DD, class_id=class_id, keys=keys)
        redirecting = filters.new_redirection(index, parent=1, priority=priority, protocol=3, target=index)

        assert filters.filter_in(Frame(44, 0, 0, made)) == (priority, 0x86DD, class_id, keys, 0)
        assert filters.filter_in(Frame(44, 0, 0, redirecting)) == (priority, 3, 0, (), index)
