"""What a node needs beside routes and tunnels: forwarding, masquerading and the network list.

Each difference is a step with the sign and the words of `agent.kernel.Change`. Steps that change something of the node
itself are recorded in the agent's folder before, so that `take_back` knows the values that were there.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Final, NamedTuple

from agent.network_list import TemplateError, lists_before, network_list
from agent.options import Options
from agent.plan import Plan
from agent.record import Record
from firewall.admission import refuses_forwarding
from firewall.cluster_masquerade import TABLE, MasqueradeTable
from firewall.tables import Tables
from netlink.namespace import Namespace, entered, open_namespace
from netlink.netfilter import Netfilter
from netlink.rtnl import Rtnl
from netlink.sysctl import list_sysctls, read_sysctl, write_sysctl
from skel.state_file import write_whole
from skel.steps import Steps

_FORWARDING: Final = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}
_RTPROT_RA: Final = 9
_IPV6_MTU: Final = 1280


class Step(NamedTuple):
    """A difference, and the function that removes it. It raises OSError."""

    sign: str
    what: str
    take: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.sign} {self.what}"


class Surroundings:
    """The node's kernel parameters, table and list, in one network namespace. Not to be shared between threads."""

    def __init__(self, options: Options, namespace: Namespace | None = None) -> None:
        """Hold the namespace, by default the thread's own. Raises OSError."""
        self._options = options
        self._record = Record(options.state_dir)
        self._namespace = open_namespace(f"/proc/self/fd/{namespace.fd}") if namespace is not None else None

    def close(self) -> None:
        """Let the namespace go."""
        if self._namespace is not None:
            self._namespace.close()

    def compare(self, plan: Plan) -> tuple[list[Step], list[str]]:
        """Return the differences, in the order in which they are to be removed, and the problems. Raises OSError."""
        steps: list[Step] = []
        problems: list[str] = []
        with self._inside(), Rtnl() as rtnl:
            links = _LinksOfRoutes(rtnl)
            parts = {
                "forwarding": self._forwarding(plan, links),
                "iptables": _dropping(plan),
                "default routes": _default_routes(links),
                "masquerading": self._masquerading(plan),
                "network list": self._list(plan),
            }
            for name, part in parts.items():
                try:
                    for found in part:
                        if isinstance(found, Step):
                            steps.append(found)
                        else:
                            problems.append(found)
                except OSError as error:
                    problems.append(_failure(name, error))
        return steps, problems

    def apply(self, plan: Plan, say: Callable[[str], object], *, has_routes: bool) -> list[str]:
        """Remove the differences, and tell each by `say`. Return the problems that remain. Raises OSError.

        The network list is written only if the node has its routes.
        """
        steps, problems = self.compare(plan if has_routes else plan._replace(site=plan.site._replace(mtu=0)))
        with self._inside():
            for step in steps:
                try:
                    step.take()
                except OSError as error:
                    problems.append(_failure(step.what, error))
                else:
                    say(str(step))
        return problems

    def take_back(self, say: Callable[[str], object]) -> None:
        """Remove table and list, and put back kernel parameters that still have the agent's value.

        Raises OSError, or CniError for several errors, after all was tried.
        """
        with self._inside(), Steps() as steps:
            steps.take(_remove_table, say)
            steps.take(self._put_back_sysctls, say)
            steps.take(self._remove_lists, say)
            if not steps.failures:
                self._record.remove()

    def _put_back_sysctls(self, say: Callable[[str], object]) -> None:
        for key, changed in self._record.sysctls().items():
            # A link that went has taken its parameters along.
            with suppress(FileNotFoundError):
                if read_sysctl(key) != changed.own:
                    continue
                write_sysctl(key, changed.before)
                say(f"~ sysctl {_shown(key)} {changed.before}")
            for other, value in changed.along.items():
                with suppress(FileNotFoundError):
                    write_sysctl(other, value)

    def _remove_lists(self, say: Callable[[str], object]) -> None:
        for path in self._record.files():
            _remove_halves(path)
            content = _content(path)
            if content is not None and self._record.has_written(path, content):
                path.unlink()
                say(f"- file {path}")
            elif content is not None:
                say(f"  file {path} stays: it was changed after the agent had written it")

    def _inside(self) -> AbstractContextManager[None]:
        return entered(self._namespace) if self._namespace is not None else nullcontext()

    def _forwarding(self, plan: Plan, links: "_LinksOfRoutes") -> Iterator[Step | str]:
        for version in _versions(plan) if self._options.forwarding else ():
            is_off = read_sysctl(_FORWARDING[version]) == "0"
            # The kernel drops the default routes of router advertisements as soon as it forwards.
            cut = [] if version == 4 else [*self._cut(links)]  # noqa: PLR2004 -- the version's number
            if self._options.accept_ra:
                yield from (self._setting(f"net/ipv6/conf/{link}/accept_ra", "2", {}) for link in cut)
            elif cut and is_off:
                yield (
                    f"IPv6 is not forwarded: {', '.join(cut)} would lose the routes of its router advertisements"
                    " (--accept-ra keeps them)"
                )
                continue
            elif cut:
                yield f"{', '.join(cut)} takes no router advertisements while IPv6 is forwarded (--accept-ra)"
            if is_off:
                yield self._setting(_FORWARDING[version], "1", _along(version))

    def _cut(self, links: "_LinksOfRoutes") -> Iterator[str]:
        """Yield the links that take router advertisements only while IPv6 is not forwarded."""
        asked = links.advertised()
        if self._options.accept_ra:  # none may have come yet
            asked = sorted({*asked, *links.default(4), *links.default(6)})
        for link in asked:
            with suppress(FileNotFoundError):
                if read_sysctl(f"net/ipv6/conf/{link}/accept_ra") == "1":
                    yield link

    def _setting(self, key: str, value: str, along: Mapping[str, str]) -> Step:
        def take() -> None:
            with self._record.changing(key, read_sysctl(key), value, along):
                write_sysctl(key, value)

        return Step("~", f"sysctl {_shown(key)} {value}", take)

    def _masquerading(self, plan: Plan) -> Iterator[Step]:
        kept = (*self._options.cluster_cidrs, *self._options.non_masquerade)
        versions = {each.version for each in self._options.cluster_cidrs}
        ranges = [each for each in plan.site.node.pod_cidrs if each.version in versions]

        def take() -> None:
            with Netfilter() as netfilter:
                MasqueradeTable(netfilter).replace(ranges, kept)

        with Netfilter() as netfilter:
            sign = MasqueradeTable(netfilter).sign(ranges, kept)
        if sign:
            yield Step(sign, f"table inet {TABLE}", take)

    def _list(self, plan: Plan) -> Iterator[Step | str]:
        path, template, site = self._options.network_list, self._options.template, plan.site
        if path is None or not site.node.pod_cidrs or not site.mtu:
            return
        if site.mtu < _IPV6_MTU and 6 in _versions(plan):  # noqa: PLR2004 -- the version's number
            yield f"no network list: IPv6 needs packets of {_IPV6_MTU} bytes, and those of pods have {site.mtu}"
            return
        try:
            content = network_list(template.read_bytes(), site.node.pod_cidrs, site.mtu)
        except (OSError, TemplateError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            yield f"no network list: {template}: {reason}"
            return
        others = lists_before(path)
        if others:
            yield f"runtimes use {path.parent / others[0]}, which comes before {path.name}"
        present = _content(path)
        if present == content:
            return
        if present is not None and self._record.is_kept and not self._record.has_written(path, present):
            yield f"{path} is not as the agent wrote it, and stays: remove it to have it written"
            return

        def take() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_halves(path)
            with self._record.writing(path, content):
                write_whole(str(path), content, mode=0o644, renamed=True)

        yield Step("+" if present is None else "~", f"file {path}", take)


class _LinksOfRoutes:
    """The routes of the main table, by the names of their links."""

    def __init__(self, rtnl: Rtnl) -> None:
        names = {link.ifindex: link.name for link in rtnl.links()}
        self._routes = [
            (route, names[route.ifindex])
            for family in (AF_INET, AF_INET6)
            for route in rtnl.routes(family)
            if route.ifindex in names
        ]

    def advertised(self) -> list[str]:
        """Return the links with routes of router advertisements."""
        return sorted({name for route, name in self._routes if route.protocol == _RTPROT_RA})

    def default(self, version: int) -> list[str]:
        """Return the links with default routes."""
        found = (name for route, name in self._routes if (route.dst.version, route.dst.prefixlen) == (version, 0))
        return sorted(set(found))


def _versions(plan: Plan) -> list[int]:
    return sorted({each.version for each in plan.site.node.pod_cidrs})


def _along(version: int) -> dict[str, str]:
    """Return the kernel parameters that change along with forwarding, and that its end would leave changed."""
    folder = f"net/ipv{version}/conf"
    keys = {f"{folder}/{each}/forwarding" for each in list_sysctls(folder)} - {_FORWARDING[version]}
    kept = dict.fromkeys((key for key in keys if read_sysctl(key) == "1"), "1")
    if version == 4:  # noqa: PLR2004 -- the version's number
        key = f"{folder}/all/accept_redirects"
        kept[key] = read_sysctl(key)
    return kept


def _remove_table(say: Callable[[str], object]) -> None:
    with Netfilter() as netfilter:
        table = MasqueradeTable(netfilter)
        if table.sign((), ()):
            table.replace((), ())
            say(f"- table inet {TABLE}")


def _remove_halves(path: Path) -> None:
    """Remove what a killed agent has left of the file, before it had its name."""
    for each in path.parent.glob(f".{path.name}.*.tmp"):
        each.unlink(missing_ok=True)


def _failure(what: str, error: OSError) -> str:
    where = f" ({error.filename})" if error.filename and str(error.filename) not in what else ""
    return f"{what}: {error.strerror or error}{where}"


def _dropping(plan: Plan) -> Iterator[str]:
    """Yield a problem for each family whose packets between pods of two nodes may be dropped."""
    with Netfilter() as netfilter:
        tables = Tables(lambda: netfilter, os.environ)
        dropped = [version for version in _versions(plan) if refuses_forwarding(tables, version)]
    for version in dropped:
        yield f"the chain FORWARD of iptables drops IPv{version} packets that none of its rules accepts"


def _default_routes(links: _LinksOfRoutes) -> Iterator[str]:
    """Yield a problem for each family whose packets may leave by more than one link."""
    for version in (4, 6):
        names = links.default(version)
        if len(names) > 1:
            yield f"there are default routes for IPv{version} by {' and '.join(names)}"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _shown(key: str) -> str:
    """Return a key as sysctl(8) takes it: with slashes, if the name of a link has a dot."""
    return key if "." in key else key.replace("/", ".")
