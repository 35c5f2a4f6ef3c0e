"""Sandboxes: the network namespaces of pods, named and mounted as containerd does.

Nodes under test and their pods start with kernel parameters that are equal on every machine. The kernel copies the IPv4
parameters of the machine's first network namespace into each new one (devinet_init_net; for IPv6 see
net.core.devconf_inherit_init_net). On a machine with containers, forwarding is on; systemd turns on the reverse path
filter. A new node would inherit both. The values here are the kernel's defaults.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from netlink.namespace import NotANamespaceError, create_namespace, entered, open_namespace, remove_namespace
from netlink.sysctl import write_sysctl

NETNS_DIR: Final = Path("/run/netns")

_IPV4: Final = {
    # First: a change of it sets others, accept_redirects for one.
    "forwarding": "0",
    "accept_local": "0",
    "accept_redirects": "1",
    "arp_accept": "0",
    "arp_announce": "0",
    "arp_evict_nocarrier": "1",
    "arp_filter": "0",
    "arp_ignore": "0",
    "arp_notify": "0",
    "bc_forwarding": "0",
    "drop_gratuitous_arp": "0",
    "drop_unicast_in_l2_multicast": "0",
    "ignore_routes_with_linkdown": "0",
    "log_martians": "0",
    "medium_id": "0",
    "promote_secondaries": "0",
    "proxy_arp": "0",
    "proxy_arp_pvlan": "0",
    "route_localnet": "0",
    "rp_filter": "0",
    "secure_redirects": "1",
    "send_redirects": "1",
    "shared_media": "1",
    "src_valid_mark": "0",
}

_IPV6: Final = {
    "forwarding": "0",
    "disable_ipv6": "0",
    "accept_ra": "1",
    "accept_ra_defrtr": "1",
    "accept_ra_pinfo": "1",
    "accept_redirects": "1",
    "accept_source_route": "0",
    "addr_gen_mode": "0",
    "autoconf": "1",
    "dad_transmits": "1",
    "drop_unsolicited_na": "0",
    "keep_addr_on_down": "0",
    "ndisc_notify": "0",
    "optimistic_dad": "0",
    "proxy_ndp": "0",
    "router_solicitations": "-1",
    "use_tempaddr": "0",
}


def new_sandbox_path() -> str:
    """Return a path for a sandbox that does not exist yet: `/run/netns/cni-<uuid>`, containerd's form."""
    return str(NETNS_DIR / f"cni-{uuid.uuid4()}")


def create_sandbox(path: str, *, fixed: bool) -> None:
    """Make the network namespace at `path`, with `lo` up. Raises FileExistsError, OSError; then nothing is left.

    `fixed` gives it the kernel parameters of a node under test. Without `fixed` they come from the machine, as in a pod
    of a real runtime.
    """
    create_namespace(path)
    if not fixed:
        return
    try:
        fix_sysctls(path)
    except BaseException:
        remove_namespace(path)
        raise


def sandbox_exists(path: str) -> bool:
    """Tell whether `path` is a network namespace: after a reboot or a crash it may be a plain file, or missing."""
    try:
        open_namespace(path).close()
    except (FileNotFoundError, NotANamespaceError):
        return False
    return True


def _fixed() -> Iterator[tuple[str, str]]:
    for scope in ("all", "default", "lo"):
        for name, value in _IPV4.items():
            yield f"net/ipv4/conf/{scope}/{name}", value
        yield f"net/ipv4/conf/{scope}/accept_source_route", "0" if scope == "all" else "1"
    for scope in ("all", "default"):
        for name, value in _IPV6.items():
            yield f"net/ipv6/conf/{scope}/{name}", value
        yield f"net/ipv6/conf/{scope}/accept_dad", "0" if scope == "all" else "1"
    # Parameters of the module br_netfilter, which a node cannot unload. With 0 it has no effect.
    for family in ("arp", "ip", "ip6"):
        yield f"net/bridge/bridge-nf-call-{family}tables", "0"


FIXED_SYSCTLS: Final[Mapping[str, str]] = dict(_fixed())
"""Values by key, in the order in which they are written."""


def fix_sysctls(netns: str) -> None:
    """Write the fixed values into the network namespace at the path `netns`.

    A parameter that this kernel lacks is left out. Raises OSError.
    """
    with open_namespace(netns) as namespace, entered(namespace):
        for key, value in FIXED_SYSCTLS.items():
            with suppress(FileNotFoundError):
                write_sysctl(key, value)
