"""Messages compared with pyroute2's of the same parameters.

They are about addresses, routes, rules, neighbours, connections and traffic.
"""

import struct
from collections.abc import Callable
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Any

import pytest
from pyroute2.netlink.nfnetlink.nfctsocket import nfct_msg
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from netlink import addresses as address_verbs
from netlink import conntrack, kinds, links, neighbours, route_copies, routes, rules
from netlink import traffic_control as tc
from netlink import traffic_filters as filters
from netlink.wire import Frame
from tests.unit.messages import TIMES, Case, Values, reference

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH = 28, 29
RTM_NEWRULE, RTM_DELRULE = 32, 33
RTM_NEWQDISC, RTM_DELQDISC = 36, 37
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
NEW = NLM_F_CREATE | NLM_F_EXCL
RTPROT_BOOT, RTN_UNICAST = 3, 1


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
    return rules.add_rule(src, table).message, of_rule(src, table, None, RTM_NEWRULE, NEW)


def old_rule(values: Values) -> Case:
    src, table, priority = values.network(values.version()), values.number(), values.perhaps(values.number)
    made = rules.delete_rule(rules.Rule(src, table, priority or 0)).message
    return made, of_rule(src, table, priority, RTM_DELRULE, 0)


def neighbour(values: Values) -> Case:
    index, mac, protocol = values.number(), values.mac(), values.perhaps(lambda: values.random.randrange(1, 256))
    dst = values.address(values.version())
    fields = {"family": AF_INET if dst.version == 4 else AF_INET6, "ifindex": index, "state": 0x80}
    if values.flag():
        expected = reference(ndmsg, RTM_DELNEIGH, [("NDA_DST", str(dst))], **fields)
        return neighbours.delete_neighbour(index, dst).message, expected
    attributes = [("NDA_DST", str(dst)), ("NDA_LLADDR", mac), ("NDA_PROTOCOL", protocol)]
    made = neighbours.set_neighbour(index, dst, mac, protocol=protocol or 0).message
    return made, reference(ndmsg, RTM_NEWNEIGH, attributes, NLM_F_CREATE | NLM_F_REPLACE, **fields)


def forwarding(values: Values) -> Case:
    index, mac, dst = values.number(), values.mac(), values.address(values.version())
    is_new, flags = values.flag(), NLM_F_CREATE | (NLM_F_APPEND if int(mac[:2], 16) % 2 else NLM_F_REPLACE)
    made = (neighbours.set_forwarding if is_new else neighbours.delete_forwarding)(index, mac, dst).message
    expected = reference(
        ndmsg,
        RTM_NEWNEIGH if is_new else RTM_DELNEIGH,
        [("NDA_DST", str(dst)), ("NDA_LLADDR", mac)],
        flags if is_new else 0,
        family=AF_BRIDGE,
        ifindex=index,
        state=0x80,
        flags=2,
    )
    return made, expected


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
    # pyroute2 lacks CTA_FILTER: 12 bytes behind the rest.
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
        addresses,
        new_address,
        deleted_address,
        route,
        vrf,
        new_rule,
        old_rule,
        neighbour,
        forwarding,
        copied_route,
        route_looked_up,
        connections,
    ],
)
def test_bytes_equal_the_bytes_of_pyroute2(case: Callable[[Values], Case]) -> None:
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

        assert rule == rules.rule_in(rules.delete_rule(rule).message)


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
