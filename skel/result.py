"""Results of plugins, typed once in the terms of spec 1.1.0 (SPEC.md section 5).

Older versions are shapes of the same facts. `Result.encode_as` prints the
shape that a configuration's version asks for, `Result.decode_any` reads all:

- 0.1.0, 0.2.0: one address a family, `ip4` and `ip6`, each with its routes;
- 0.3.0 to 0.4.0: lists, and each address carries its `version`, "4" or "6";
- 1.0.0, 1.1.0: the same without `version`; 1.1.0 adds mtu, socketPath, pciID of an interface.

1.1.0 adds keys of routes, too. They are printed from 0.3.0 on, as the Go library does: an IPAM plugin could not tell an
interface plugin a route's MTU otherwise.
"""

from fast_stdlib.typing import cast

from . import decoders as read
from .decoders import Address, Cidr, Network
from .record import Record, expected, field
from .versions import at_least

_UINT32 = read.integer_between(0, 2**32 - 1)
_IPV4 = 4
_SINCE_1_1 = ("mtu", "socketPath", "pciID")
"""Keys of an interface."""


class Interface(Record):
    """A network interface of an attachment; `sandbox` is empty for those on the host. `mtu` is in bytes."""

    name: str = field(read.string)
    mac: str = field(read.string, default="")
    mtu: int = field(_UINT32, default=0)
    sandbox: str = field(read.string, default="")
    socket_path: str = field(read.string, default="")
    pci_id: str = field(read.string, "pciID", default="")


class IPConfig(Record):
    """An address; `interface` is the index into the result's interfaces."""

    address: Cidr = field(read.cidr)
    gateway: Address | None = field(read.optional(read.address), default=None)
    interface: int | None = field(read.integer, default=None)


class Route(Record):
    """A route; `mtu` and `advmss` in bytes, `priority` the lower the better, `scope` 0, 253 or 254."""

    dst: Network = field(read.network)
    gw: Address | None = field(read.optional(read.address), default=None)
    mtu: int = field(_UINT32, default=0)
    advmss: int = field(_UINT32, "advmss", default=0)
    priority: int = field(_UINT32, default=0)
    table: int | None = field(_UINT32, default=None)
    scope: int | None = field(read.integer_between(0, 255), default=None)


class DNS(Record):
    """Settings for a resolver, as resolv.conf(5) has them."""

    nameservers: list[str] = field(read.list_of(read.string), default=list)
    domain: str = field(read.string, default="")
    search: list[str] = field(read.list_of(read.string), default=list)
    options: list[str] = field(read.list_of(read.string), default=list)

    def __bool__(self) -> bool:
        return bool(self.nameservers or self.domain or self.search or self.options)


class _Ip02(Record):
    """`ip4` and `ip6` of 0.2.0 and before."""

    ip: Cidr = field(read.cidr)
    gateway: Address | None = field(read.optional(read.address), default=None)
    routes: list[Route] = field(read.list_of(read.record(Route)), default=list)


class _Result02(Record):
    ip4: _Ip02 | None = field(read.record(_Ip02), default=None)
    ip6: _Ip02 | None = field(read.record(_Ip02), default=None)
    dns: DNS = field(read.record(DNS), default=DNS)


class Result(Record):
    """The result of an ADD: interfaces, addresses, routes and resolver settings."""

    interfaces: list[Interface] = field(read.list_of(read.record(Interface)), default=list)
    ips: list[IPConfig] = field(read.list_of(read.record(IPConfig)), default=list)
    routes: list[Route] = field(read.list_of(read.record(Route)), default=list)
    dns: DNS = field(read.record(DNS), default=DNS)

    def encode_as(self, version: str) -> dict[str, object]:
        """Return the result as a JSON object in the shape of `version`, which it carries.

        0.2.0 and before hold one address a family: the first counts, as with libcni.
        """
        if not at_least(version, "0.3.0"):
            return {"cniVersion": version or "0.1.0"} | self._as_02().encode()
        encoded = self.encode()
        if self.ips and not at_least(version, "1.0.0"):
            encoded["ips"] = [{"version": str(ip.address.version)} | ip.encode() for ip in self.ips]
        if self.interfaces and not at_least(version, "1.1.0"):
            for link in cast("list[dict[str, object]]", encoded["interfaces"]):
                for key in _SINCE_1_1:
                    link.pop(key, None)
        return {"cniVersion": version} | encoded

    def _as_02(self) -> _Result02:
        families: dict[int, _Ip02] = {}
        for ip in self.ips:
            families.setdefault(ip.address.version, _Ip02(ip=ip.address, gateway=ip.gateway))
        for route in self.routes:
            if route.dst.version in families:
                families[route.dst.version].routes.append(Route(dst=route.dst, gw=route.gw))
        return _Result02(ip4=families.get(_IPV4), ip6=families.get(6), dns=self.dns)

    @classmethod
    def decode_any(cls, value: object, path: str = "prevResult") -> "Result":
        """Read a result in the shape of any version. Raises CniError (7).

        As in libcni, an address may name an interface that is not there; `check_indices` is for who relies on them.
        """
        if not isinstance(value, dict):
            raise expected("an object", value, path)
        if not {key.lower() for key, item in value.items() if item is not None} & {"ip4", "ip6"}:
            return cls.decode(value, path)
        old = _Result02.decode(value, path)
        found = [ip for ip in (old.ip4, old.ip6) if ip is not None]
        return cls(
            ips=[IPConfig(address=ip.ip, gateway=ip.gateway) for ip in found],
            routes=[route for ip in found for route in ip.routes],
            dns=old.dns,
        )

    def check_indices(self, path: str = "prevResult") -> None:
        """Raise CniError (7) for an address of an interface that is not there; `path` is where the result was."""
        for index, ip in enumerate(self.ips):
            if ip.interface is not None and not 0 <= ip.interface < len(self.interfaces):
                what = f"an index into the {len(self.interfaces)} interfaces"
                raise expected(what, ip.interface, f"{path}.ips[{index}].interface")
