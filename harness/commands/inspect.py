"""`cni-harness inspect`: one pod, as it was made and as the kernel has it now."""

from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING

import click

from harness.options import Settings, complete_pod, global_options, namespace_option, needs_root, pass_settings
from harness.output import Table, emit

if TYPE_CHECKING:
    from harness.pods import Pod
    from netlink.rtnl import Link, Rtnl

__all__ = ["command"]


@click.command("inspect")
@click.argument("pod", shell_complete=complete_pod)
@namespace_option
@global_options()
@pass_settings
def command(settings: Settings, *, pod: str, namespace: str) -> None:
    """Show a pod: its identity, the result of each network, and the links, addresses and routes that it has now."""
    from harness.pod_view import pod_document

    needs_root("inspect", "looks into a network namespace")
    store = settings.open_node().pods
    record = store.read(namespace, pod)
    if record is None:
        raise click.ClickException(f"there is no pod {namespace}/{pod}")
    kernel = _kernel(record)
    links, routes = kernel["links"], kernel["routes"]
    resolv_conf = store.resolv_conf(record)
    document = pod_document(record) | {"resolvConf": str(resolv_conf) if resolv_conf.exists() else None}
    rows = [[title, str(document[key])] for title, key in _IDENTITY]
    rows += [["network", f"{network.name} as {network.ifname}"] for network in record.networks]
    rows += [["link", _link_line(link)] for link in links]
    rows += [["route", _route_line(route)] for route in routes]
    emit(settings.output, document | {"kernel": kernel}, Table(("", pod), rows))


_IDENTITY = (
    ("namespace", "namespace"),
    ("state", "state"),
    ("container ID", "containerID"),
    ("UID", "uid"),
    ("netns", "netns"),
    ("resolv.conf", "resolvConf"),
    ("created", "created"),
)


def _kernel(pod: "Pod") -> dict[str, list[dict[str, object]]]:
    """Return what there is in the pod's network namespace; nothing where that is gone."""
    from netlink.namespace import NotANamespaceError, open_namespace
    from netlink.rtnl import Rtnl

    try:
        with open_namespace(pod.netns) as netns, Rtnl(netns) as rtnl:
            links = rtnl.links()
            routes = _routes(rtnl, {link.index: link.name for link in links})
            return {"links": [_link(rtnl, link) for link in links], "routes": routes}
    except (FileNotFoundError, NotANamespaceError):
        return {"links": [], "routes": []}


def _link(rtnl: "Rtnl", link: "Link") -> dict[str, object]:
    return {
        "name": link.name,
        "index": link.index,
        "kind": link.kind,
        "mac": link.mac,
        "mtu": link.mtu,
        "up": link.up,
        "operState": link.oper_state,
        "addresses": [str(address.interface) for address in rtnl.addresses(link.index)],
    }


def _routes(rtnl: "Rtnl", names: dict[int, str]) -> list[dict[str, object]]:
    found = []
    for family in (AF_INET, AF_INET6):
        for route in sorted(rtnl.routes(family), key=lambda route: (route.dst.prefixlen, str(route.dst))):
            entry: dict[str, object] = {"dst": str(route.dst), "dev": names.get(route.index, "")}
            if route.gateway is not None:
                entry["gw"] = str(route.gateway)
            optional = {"mtu": route.mtu, "advmss": route.advmss, "priority": route.priority}
            found.append(entry | {key: value for key, value in optional.items() if value})
    return found


def _link_line(link: dict[str, object]) -> str:
    addresses = link["addresses"]
    listed = ", ".join(map(str, addresses)) if isinstance(addresses, list) else ""
    return (
        f"{link['name']}: {'up' if link['up'] else 'down'}, {link['mac']}, mtu {link['mtu']}: {listed or 'no address'}"
    )


def _route_line(route: dict[str, object]) -> str:
    via = f" via {route['gw']}" if "gw" in route else ""
    return f"{route['dst']}{via} dev {route['dev']}"
