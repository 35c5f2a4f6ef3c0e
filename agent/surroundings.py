"""What a node needs beside routes and tunnels: forwarding, masquerading and the network list.

Each difference is a step with the sign and the words of `agent.kernel.Change`. Steps that change something of the node
itself are recorded in the agent's folder before, so that `take_back` knows the values that were there.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Any, Final, NamedTuple

from agent.network_list import TemplateError, lists_before, network_list
from agent.options import Options
from agent.plan import Plan
from firewall.admission import refuses_forwarding
from firewall.cluster_masquerade import TABLE, MasqueradeTable
from firewall.tables import Tables
from netlink.namespace import Namespace, entered, open_namespace
from netlink.netfilter import Netfilter
from netlink.rtnl import Rtnl
from netlink.sysctl import read_sysctl, write_sysctl
from skel.state_file import write_whole

_FORWARDING: Final = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}
_RTPROT_RA: Final = 9
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


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
        self._record = _Record(options.state_dir)
        self._namespace = open_namespace(f"/proc/self/fd/{namespace.fd}") if namespace is not None else None

    def close(self) -> None:
        """Let the namespace go."""
        if self._namespace is not None:
            self._namespace.close()

    def compare(self, plan: Plan) -> tuple[list[Step], list[str]]:
        """Return the differences, in the order in which they are to be removed, and the problems. Raises OSError."""
        steps: list[Step] = []
        problems: list[str] = []
        with self._inside(), Rtnl() as rtnl, Netfilter() as netfilter:
            links = _LinksOfRoutes(rtnl)
            parts = {
                "forwarding": self._forwarding(plan, links),
                "iptables": _dropping(plan, netfilter),
                "default routes": _default_routes(links),
                "masquerading": self._masquerading(plan, netfilter),
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
                    problems.append(f"{name}: {error.strerror or error}")
        return steps, problems

    def apply(self, plan: Plan, say: Callable[[str], object]) -> list[str]:
        """Remove the differences, and tell each by `say`. Return the problems that remain. Raises OSError."""
        steps, problems = self.compare(plan)
        with self._inside():
            for step in steps:
                try:
                    step.take()
                except OSError as error:
                    problems.append(f"{step.what}: {error.strerror or error}")
                else:
                    say(str(step))
        return problems

    def take_back(self, say: Callable[[str], object]) -> None:
        """Remove table and list, and put back kernel parameters that still have the agent's value. Raises OSError."""
        with self._inside():
            with Netfilter() as netfilter:
                table = MasqueradeTable(netfilter)
                if table.sign((), ()):
                    table.replace((), ())
                    say(f"- table inet {TABLE}")
            for key, (before, own) in reversed(self._record.sysctls().items()):
                # A link that went has taken its parameters along.
                with suppress(FileNotFoundError):
                    if read_sysctl(key) == own:
                        write_sysctl(key, before)
                        say(f"~ sysctl {_dotted(key)} {before}")
        for text, digest in self._record.lists().items():
            with suppress(FileNotFoundError):
                if sha256(Path(text).read_bytes()).hexdigest() == digest:
                    Path(text).unlink()
                    say(f"- file {text}")
                else:
                    say(f"  file {text} stays: it was changed after the agent had written it")
        self._record.remove()

    def _inside(self) -> AbstractContextManager[None]:
        return entered(self._namespace) if self._namespace is not None else nullcontext()

    def _forwarding(self, plan: Plan, links: "_LinksOfRoutes") -> Iterator[Step | str]:
        for version in _versions(plan) if self._options.forwarding else ():
            if read_sysctl(_FORWARDING[version]) != "0":
                continue
            # The kernel drops the default routes of router advertisements as soon as it forwards.
            cut = [] if version == 4 else [*self._cut(links.advertised())]  # noqa: PLR2004 -- the version's number
            if cut and not self._options.accept_ra:
                yield (
                    f"IPv6 is not forwarded: {', '.join(cut)} would lose the routes of its router advertisements"
                    " (--accept-ra keeps them)"
                )
            else:
                yield from (self._setting(f"net/ipv6/conf/{link}/accept_ra", "2") for link in cut)
                yield self._setting(_FORWARDING[version], "1")

    def _cut(self, links: Sequence[str]) -> Iterator[str]:
        """Yield the links that take router advertisements only while IPv6 is not forwarded."""
        for link in links:
            with suppress(FileNotFoundError):
                if read_sysctl(f"net/ipv6/conf/{link}/accept_ra") == "1":
                    yield link

    def _setting(self, key: str, value: str) -> Step:
        def take() -> None:
            self._record.note_sysctl(key, read_sysctl(key), value)
            write_sysctl(key, value)

        return Step("~", f"sysctl {_dotted(key)} {value}", take)

    def _masquerading(self, plan: Plan, netfilter: Netfilter) -> Iterator[Step]:
        kept = (*self._options.cluster_cidrs, *self._options.non_masquerade)
        versions = {each.version for each in self._options.cluster_cidrs}
        ranges = [each for each in plan.site.node.pod_cidrs if each.version in versions]

        def take() -> None:
            with Netfilter() as own:
                MasqueradeTable(own).replace(ranges, kept)

        sign = MasqueradeTable(netfilter).sign(ranges, kept)
        if sign:
            yield Step(sign, f"table inet {TABLE}", take)

    def _list(self, plan: Plan) -> Iterator[Step | str]:
        path, template, site = self._options.network_list, self._options.template, plan.site
        if path is None or not site.node.pod_cidrs or not site.mtu:
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

        def take() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._record.note_list(path, content)
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


class _Record:
    """What the agent changed on the node, as JSON in its folder; without a folder it is forgotten."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / "changed.json" if folder is not None else None

    def sysctls(self) -> dict[str, tuple[str, str]]:
        """Return the value before, and the agent's own, by the key. None are older than the boot: it resets them."""
        told = self._read()
        return {key: (old, new) for key, (old, new) in told["sysctls"].items()} if told["boot"] == _boot() else {}

    def lists(self) -> dict[str, str]:
        """Return the hash of each list's content by its path."""
        return dict(self._read()["lists"])

    def note_sysctl(self, key: str, before: str, own: str) -> None:
        known = self.sysctls()
        first, _ = known.get(key, (before, own))
        self._write(boot=_boot(), sysctls={**known, key: (first, own)})

    def note_list(self, path: Path, content: bytes) -> None:
        self._write(lists={**self.lists(), str(path.absolute()): sha256(content).hexdigest()})

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"boot": "", "sysctls": {}, "lists": {}}
        content = _content(self._path) if self._path is not None else None
        return {**empty, **json.loads(content)} if content else empty

    def _write(self, **changed: object) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(self._path), json.dumps({**self._read(), **changed}).encode(), mode=0o600)


def _versions(plan: Plan) -> list[int]:
    return sorted({each.version for each in plan.site.node.pod_cidrs})


def _dropping(plan: Plan, netfilter: Netfilter) -> Iterator[str]:
    """Yield a problem for each family whose packets between pods of two nodes may be dropped."""
    tables = Tables(lambda: netfilter, os.environ)
    for version in _versions(plan):
        if refuses_forwarding(tables, version):
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


def _boot() -> str:
    return _BOOT_ID.read_text().strip()


def _dotted(key: str) -> str:
    return key.replace("/", ".")
