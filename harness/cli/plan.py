"""The request to each network, from the options of `add` and cnitool's environment variables."""

import ipaddress
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from harness.libcni.networks import NetworkList
from harness.runtime.pod_networks import NetworkPlan
from skel.decoders import mac as decode_mac
from skel.environment import ifname_flaw, parse_cni_args
from skel.errors import CniError
from skel.strict_json import decode_json

_PORT: Final = re.compile(
    r"(?:(?P<host_ip>\[[0-9A-Fa-f:.]+\]|[0-9.]+):)?(?P<host_port>\d+):(?P<container_port>\d+)(?:/(?P<protocol>\w+))?"
)
_PROTOCOLS: Final = ("tcp", "udp", "sctp")
_HIGHEST_PORT: Final = 65535
_MULTICAST: Final = 1
"""The bit in the first byte of a hardware address (IEEE 802)."""


class PlanError(Exception):
    """The options cannot be satisfied: the message names the option and the value."""


@dataclass(frozen=True)
class AddOptions:
    """The options of `add`, as the user wrote them."""

    ifname: str = "eth0"
    ports: Sequence[str] = ()
    ips: Sequence[str] = ()
    mac: str | None = None
    cni_args: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


class Asked(TypedDict):
    """The options of `connect` that are fields of AddOptions."""

    ips: tuple[str, ...]
    mac: str | None
    cni_args: tuple[str, ...]
    capabilities: tuple[str, ...]


class AskedOfAdd(Asked):
    """The options of `add` that are fields of AddOptions."""

    ifname: str
    ports: tuple[str, ...]


def plan_networks(networks: Sequence[NetworkList], options: AddOptions) -> list[NetworkPlan]:
    """Return the interface and arguments of each network. Raises PlanError, NetworkError.

    The first network gets the named interface. It alone gets addresses, MAC and ports. The others get net1, net2 and so
    on, as multus numbers them. An address or MAC is passed as a capability if a plugin of the network declares it.
    Otherwise it is in CNI_ARGS, which IPAM plugins and bridge read, too. CNI_ARGS and CAP_ARGS in the environment apply
    to every network; options overrule them.
    """
    _check(options)
    try:
        shared_args = parse_cni_args(options.environ.get("CNI_ARGS", "")) | _pairs(options.cni_args)
    except CniError as error:
        raise PlanError(f"CNI_ARGS in the environment: {error}") from None
    shared_capabilities = _environment_capabilities(options.environ) | _capabilities(options.capabilities)
    plans = []
    for index, network in enumerate(networks):
        network.require_name()
        args, capabilities = dict(shared_args), dict(shared_capabilities)
        if index == 0:
            _ask_addresses(network, options, args, capabilities)
        ifname = f"net{index}" if index else options.ifname
        plans.append(NetworkPlan(network, ifname, args, capabilities))
    ifnames = [plan.ifname for plan in plans]
    if len(set(ifnames)) < len(ifnames):
        raise PlanError(f"--ifname {options.ifname}: that is the name of a later network's interface")
    return plans


def parse_port(text: str) -> dict[str, object]:
    """Read `[hostIP:]hostPort:containerPort[/protocol]` into an entry of the capability portMappings.

    An IPv6 address stands in brackets. Raises PlanError. CONVENTIONS.md, "Dynamic Plugin specific fields".
    """
    match = _PORT.fullmatch(text)
    if match is None:
        raise PlanError(f"-p {text}: wanted [hostIP:]hostPort:containerPort[/protocol], as in 8080:80/tcp")
    protocol = (match["protocol"] or "tcp").lower()
    if protocol not in _PROTOCOLS:
        raise PlanError(f"-p {text}: the protocol is one of {', '.join(_PROTOCOLS)}")
    ports = int(match["host_port"]), int(match["container_port"])
    if not all(1 <= port <= _HIGHEST_PORT for port in ports):
        raise PlanError(f"-p {text}: a port is from 1 to {_HIGHEST_PORT}")
    entry: dict[str, object] = {"hostPort": ports[0], "containerPort": ports[1], "protocol": protocol}
    if match["host_ip"]:
        address = match["host_ip"].strip("[]")
        try:
            entry["hostIP"] = str(ipaddress.ip_address(address))
        except ValueError:
            raise PlanError(f"-p {text}: {address} is not an IP address") from None
    return entry


def _check(options: AddOptions) -> None:
    if flaw := ifname_flaw(options.ifname):
        raise PlanError(f"--ifname {options.ifname}: {flaw}")
    for address in options.ips:
        try:
            ipaddress.ip_interface(address)
        except ValueError:
            raise PlanError(f"--ip {address}: wanted an IP address, with or without prefix length") from None
    if options.mac is not None:
        try:
            first = int(decode_mac(options.mac, "--mac")[:2], 16)
        except CniError as error:
            raise PlanError(str(error)) from None
        if first & _MULTICAST:
            raise PlanError(
                f"--mac {options.mac}: that is a multicast address: the first byte of an interface's is even"
            )


def _ask_addresses(
    network: NetworkList, options: AddOptions, args: dict[str, str], capabilities: dict[str, object]
) -> None:
    declared = frozenset[str]().union(*(plugin.capabilities for plugin in network.plugins))
    if options.ips and "ips" in declared:
        capabilities["ips"] = list(options.ips)
    elif options.ips:
        args["IP"] = ",".join(options.ips)
    if options.mac and "mac" in declared:
        capabilities["mac"] = options.mac
    elif options.mac:
        args["MAC"] = options.mac
    if options.ports:
        capabilities["portMappings"] = [parse_port(text) for text in options.ports]
        if "portMappings" not in declared:
            raise PlanError(
                f"-p {options.ports[0]}: no plugin of network {network.name} has the capability portMappings"
            )


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not key or not sign or any(char in value for char in ";="):
            raise PlanError(f"--arg {text}: wanted KEY=VALUE, without ';' or another '='")
        found[key] = value
    return found


def _capabilities(texts: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise PlanError(f"--cap {text}: wanted NAME=JSON")
        try:
            found[name] = decode_json(value)
        except json.JSONDecodeError:
            # The decoder's line and column are useless on a command line.
            string = f"; a string is written {name}='{json.dumps(value)}'" if value.isalnum() else ""
            raise PlanError(f"--cap {text}: wanted NAME=JSON, but {value} is not JSON{string}") from None
        except ValueError as error:
            raise PlanError(f"--cap {text}: {error}") from None
    return found


def _environment_capabilities(environ: Mapping[str, str]) -> dict[str, object]:
    where, text = "CAP_ARGS in the environment", environ.get("CAP_ARGS") or "{}"
    try:
        value = decode_json(text)
    except json.JSONDecodeError:
        raise PlanError(f"{where}: {text} is not JSON") from None
    except ValueError as error:
        raise PlanError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise PlanError(f"{where}: expected an object, got {text}")
    return value
