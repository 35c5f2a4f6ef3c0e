"""portmap: ports of the host lead to the pod, as the runtime asks for them in `runtimeConfig.portMappings`."""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import firewall_of, kept_rtnl, owner_of, pod_ips, required_result, valid_owners
from skel import (
    Address,
    Args,
    Cidr,
    CniError,
    Code,
    Config,
    Plugin,
    Record,
    Result,
    Undo,
    address,
    boolean,
    choice,
    expected,
    field,
    integer_between,
    list_of,
    optional,
    record,
    string,
)
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firewall.port_mapping import Forwarding

_NFTABLES, _IPTABLES = "nftables", "iptables"
_PORT = integer_between(1, 65535, "a port")
_DEFAULT_MARK_BIT = 13
_IPV4 = 4
_EARLIER = (
    "warning: rules of an earlier version: with bridge-nf-call-iptables=1, pods do not reach their own host ports; the "
    "next ADD, or `cni-harness repair`, completes them"
)


def _protocol(value: object, path: str) -> str:
    return choice("tcp", "udp", "sctp")(value.lower() if isinstance(value, str) else value, path)


def _condition(value: object, path: str) -> str:
    text = string(value, path)
    if any(character in text for character in "\n\0;"):
        raise expected("a condition on one line, without a semicolon", value, path)
    return text


class PortMappingConfig(Record):
    """One mapping, as a runtime sends it."""

    host_port: int = field(_PORT)
    container_port: int = field(_PORT)
    protocol: str | None = field(optional(_protocol), default=None)
    """None: TCP."""
    host_ip: Address | None = field(optional(address), "hostIP", default=None)
    """0.0.0.0 and :: stand for all addresses of their families, None for all."""


class _RuntimeConfig(Record):
    port_mappings: list[PortMappingConfig] = field(list_of(record(PortMappingConfig)), default=list)


class PortmapConfig(Config):
    """Keys of the reference plugin, with its defaults but for `backend`."""

    backend: str | None = field(optional(choice(_NFTABLES, _IPTABLES)), default=None)
    """None: nftables, unless a key is for iptables alone."""
    snat: bool = field(boolean, default=True)
    masq_all: bool = field(boolean, default=False)
    mark_masq_bit: int | None = field(integer_between(0, 31, "a bit"), default=None)
    external_set_mark_chain: str | None = field(optional(string), default=None)
    conditions_v4: list[str] = field(list_of(_condition), default=list)
    conditions_v6: list[str] = field(list_of(_condition), default=list)
    runtime_config: _RuntimeConfig = field(record(_RuntimeConfig), default=_RuntimeConfig)

    def chosen_backend(self) -> str:
        """Return the backend for ADD."""
        return self.backend or (_IPTABLES if _IPTABLES in self._needed_backends().values() else _NFTABLES)

    def backend_of_reference(self, environ: "Mapping[str, str]") -> str:
        """Return the backend of the reference's ADD: iptables, or nftables if its programs are missing."""
        from firewall.iptables_program import find

        return self.backend or (_IPTABLES if find(_IPTABLES, environ) else _NFTABLES)

    def check_for_add(self) -> None:
        """Raise CniError (7) for keys that contradict each other."""
        if self.mark_masq_bit is not None and self.external_set_mark_chain is not None:
            other = f'externalSetMarkChain is "{self.external_set_mark_chain}"'
            raise CniError(Code.INVALID_CONFIG, f"markMasqBit: expected no value, as {other}, got {self.mark_masq_bit}")
        backend = self.chosen_backend()
        for key, needed in self._needed_backends().items():
            if needed != backend:
                values = {"externalSetMarkChain": self.external_set_mark_chain}
                value = values.get(key) or (self.conditions_v4 if key == "conditionsV4" else self.conditions_v6)
                raise expected(f'no value for {needed}, as backend is "{backend}"', value, key)
        self._check_mappings()

    def programs(self) -> tuple[str, ...]:
        """Return the programs that ADD runs."""
        if self.chosen_backend() == _IPTABLES:
            return ("iptables", "iptables-save", "iptables-restore")
        return ("nft",) if self._conditions() else ()

    def forwarding(self, args: Args["PortmapConfig"]) -> "Forwarding":
        """Return the ports for the pod's addresses in prevResult: the first of each family, as with the reference."""
        from firewall.port_mapping import ForwardedPort, Forwarding

        pod: dict[int, Cidr] = {}
        for ip in pod_ips(args.prev_result, args.ifname, args.netns):
            pod.setdefault(ip.address.version, ip.address)
        mappings = [
            ForwardedPort(each.protocol or "tcp", each.host_port, own.ip, each.container_port, _specific(each.host_ip))
            for own in pod.values()
            for each in self.runtime_config.port_mappings
            if each.host_ip is None or each.host_ip.version == own.version
        ]
        return Forwarding(
            mappings=list(dict.fromkeys(mappings)),
            asked=[(each.protocol or "tcp", each.host_port) for each in self.runtime_config.port_mappings],
            pod=list(pod.values()),
            snat=self.snat,
            masquerade_all=self.masq_all,
            mark_bit=_DEFAULT_MARK_BIT if self.mark_masq_bit is None else self.mark_masq_bit,
            set_mark_chain=self.external_set_mark_chain,
            conditions=self._conditions(),
        )

    def _conditions(self) -> dict[int, list[str]]:
        conditions = {4: self.conditions_v4, 6: self.conditions_v6}
        return {
            version: words for version, listed in conditions.items() if (words := [each for each in listed if each])
        }

    def _needed_backends(self) -> dict[str, str]:
        """Return the backend for each key that is for one alone."""
        needed = {}
        if self.external_set_mark_chain is not None:
            needed["externalSetMarkChain"] = _IPTABLES
        for version, words in self._conditions().items():
            # Arguments of iptables begin with a hyphen or an exclamation mark, words of nft(8) do not.
            needed[f"conditionsV{version}"] = _IPTABLES if words[0][0] in "-!" else _NFTABLES
        return needed

    def _check_mappings(self) -> None:
        """Raise CniError (7) if one port of the host is to lead to two ports of the pod."""
        targets: dict[tuple[str, int, Address | None, int], int] = {}
        for index, each in enumerate(self.runtime_config.port_mappings):
            for version in (4, 6) if each.host_ip is None else (each.host_ip.version,):
                port = (each.protocol or "tcp", each.host_port, _specific(each.host_ip), version)
                if targets.setdefault(port, each.container_port) != each.container_port:
                    path = f"runtimeConfig.portMappings[{index}].hostPort"
                    raise expected(f"a port that no mapping before has ({port[0]})", each.host_port, path)


def _specific(host_ip: Address | None) -> Address | None:
    return None if host_ip is None or host_ip.is_unspecified else host_ip


def add(args: Args[PortmapConfig]) -> Result:
    """Lead the ports to the pod and return the result of the plugins before. Raises CniError, OSError."""
    config, result = args.config, required_result(args)
    config.check_for_add()
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return result
    from firewall import port_mappings

    owner, tables = owner_of(args), firewall_of(args)
    with Undo(args.log, args.interruption) as undo:
        _route_localnet(forwarding)
        undo.add(port_mappings.remove, tables, owner, forwarding)
        port_mappings.apply(tables, owner, forwarding, config.chosen_backend())
    return result


def delete(args: Args[PortmapConfig]) -> None:
    """Remove all ports of the attachment, and end the UDP flows through them. Raises CniError, OSError."""
    from firewall import port_mappings

    port_mappings.remove(firewall_of(args), owner_of(args), args.config.forwarding(args))


def check(args: Args[PortmapConfig]) -> None:
    """Raise CniError (999) for a port that does not lead to the pod.

    Rules of an earlier version of ours count, with a warning: an upgrade breaks no pod.
    """
    config = args.config
    required_result(args)
    config.check_for_add()
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return
    from firewall import port_mappings

    missing = port_mappings.missing(firewall_of(args), owner_of(args), forwarding)
    if missing is not None and port_mappings.held_by_earlier_rules(firewall_of(args), owner_of(args), forwarding):
        args.log(_EARLIER)
        missing = None
    if missing:
        ports = ", ".join(mapping.described() for mapping in missing)
        raise CniError(Code.INTERNAL, f"host ports do not lead to the pod: {ports}")
    if missing is not None:
        raise CniError(Code.INTERNAL, "host ports do not lead to the pod: rules that all ports share are missing")
    from netlink.sysctl import read_sysctl

    for interface in _localnet_interfaces(forwarding):
        if read_sysctl(_localnet(interface)) == "0":
            raise CniError(Code.INTERNAL, f"{_localnet(interface)} is 0: the ports do not work from 127.0.0.1")


def gc(args: Args[PortmapConfig]) -> None:
    """Remove the ports of attachments of this network that are no longer valid. Raises CniError, OSError."""
    from firewall import port_mappings

    valid = valid_owners(args)
    if valid is not None:
        port_mappings.collect(firewall_of(args), args.config.name, valid)


def status(args: Args[PortmapConfig]) -> None:
    """Raise CniError (7) for keys that contradict each other, and (50) if the backend's programs are missing."""
    args.config.check_for_add()
    names = args.config.programs()
    if not names:
        return
    from firewall.iptables_program import find

    for name in names:
        if find(name, args.environ) is None:
            raise CniError(Code.NOT_AVAILABLE, f'no program "{name}" on PATH, which this configuration needs')


def repair(args: Args[PortmapConfig]) -> None:
    """Put back what is missing; for an attachment of the reference suite, in its form. Raises CniError, OSError."""
    from firewall import port_mappings
    from plugins.attach.host_veth import is_of_reference

    required_result(args)
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return
    _route_localnet(forwarding)
    config, by_reference = args.config, is_of_reference(args)
    backend = config.backend_of_reference(args.environ) if by_reference else config.chosen_backend()
    port_mappings.repair(firewall_of(args), owner_of(args), forwarding, backend, by_reference=by_reference)


def _with_interfaces(args: Args[PortmapConfig]) -> "Forwarding":
    """Return the ports with the host's interfaces towards the pod, as its routes are now. Raises OSError."""
    forwarding = args.config.forwarding(args)
    if not forwarding.mappings:
        return forwarding
    interfaces = {}
    with kept_rtnl(args) as host:
        for own in forwarding.pod:
            route = host.route_to(own.ip)
            link = host.link(route.ifindex) if route and route.ifindex else None
            if link is not None:
                interfaces[own.ip] = link.name
    return forwarding._replace(interfaces=interfaces)


def _localnet_interfaces(forwarding: "Forwarding") -> list[str]:
    """Return the interfaces that must pass packets from 127.0.0.0/8."""
    return [name for own, name in forwarding.interfaces.items() if forwarding.snat and own.version == _IPV4]


def _localnet(interface: str) -> str:
    return f"net/ipv4/conf/{interface}/route_localnet"


def _route_localnet(forwarding: "Forwarding") -> None:
    """Let packets from 127.0.0.0/8 reach the pod. Other pods may rely on it, so it stays. Raises OSError."""
    from netlink.sysctl import write_sysctl

    for interface in _localnet_interfaces(forwarding):
        write_sysctl(_localnet(interface), "1")


PLUGIN = Plugin(
    "portmap",
    config=PortmapConfig,
    add=add,
    delete=delete,
    check=check,
    gc=gc,
    status=status,
    repair=repair,
    version=REFERENCE_RELEASE,
)
