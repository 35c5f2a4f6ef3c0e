"""The objects that ADD has made (addresses, routes, firewall entries, queues, processes), and their removal."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from harness.conformance.engine import expect
from harness.conformance.engine.kernel import Address, links
from harness.conformance.engine.outside_changes import command, succeeds
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.overload import once
from harness.runtime.site import NodeProcess
from skel.result import Result, Route

FirewallEntries: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Tables, rules and elements of sets and maps: each has a unique name, and the object that would delete it."""
_WITHOUT_PARENT: Final = ("ingress", "clsact")
_SECONDS: Final = 5.0
"""Time for a process to notice that the object of its work is gone."""
_PAUSE: Final = 0.05


def result_copy(trial: Trial) -> dict[str, Any]:
    """Return the result of the trial's container, which is attached, as a document for changes in exact spelling."""
    return Result.decode_any(trial.result_document()).encode_as(trial.version)


def own_interface(trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
    """Return the container's interface in a result, with its hardware address. Raises NotApplicableError."""
    for each in result.get("interfaces") or []:
        if each.get("name") == trial.container.ifname and each.get("sandbox") and each.get("mac"):
            found: dict[str, Any] = each
            return found
    raise NotApplicableError("the result has no hardware address of the container's interface")


def previous_result(trial: Trial, container: TrialContainer) -> Result:
    """Return the result of the plugins before the one under test, an empty one if it is the first."""
    given = trial.prev_result(container)
    return Result() if given is None else Result.decode_any(given)


def own_addresses(trial: Trial, container: TrialContainer) -> list[Address]:
    """Attach a container, and return the addresses that its interface has from the plugin under test.

    They are those of the result, as the kernel has them: a wrong index or prefix length in the result hides none.
    """
    result = trial.attach(container)
    told = {ip.address.ip for ip in result.ips} - {ip.address.ip for ip in previous_result(trial, container).ips}
    link = links(container.netns).get(container.ifname)
    return [each for each in link.addresses if each.ip in told] if link is not None else []


def own_routes(trial: Trial, container: TrialContainer) -> list[Route]:
    """Attach a container, and return the routes that the plugin under test has made."""
    result = trial.attach(container)
    earlier = [route.dst for route in previous_result(trial, container).routes]
    return [route for route in result.routes if route.dst not in earlier]


def remove_route(trial: Trial, container: TrialContainer, route: Route) -> bool:
    """Remove a route from the kernel without the plugin's knowledge; False if the kernel has no such route."""
    table = [] if route.table is None else ["table", str(route.table)]
    family = f"-{route.dst.version}"
    return succeeds(trial, container.netns, "ip", family, "route", "del", str(route.dst), *table)


def set_mac(trial: Trial, mac: str) -> None:
    """Give the interface of the trial's container another hardware address. Raises NotApplicableError if it stays."""
    container = trial.container
    if not succeeds(trial, container.netns, "ip", "link", "set", "dev", container.ifname, "address", mac):
        raise NotApplicableError("the hardware address of the interface cannot be changed")


def firewall_entries(trial: Trial) -> FirewallEntries:
    """Return the content of the node's firewall. Raises NotApplicableError if nft(8) fails."""
    if shutil.which("nft") is None:
        raise NotApplicableError("nft is not installed, and so no rule can be removed")
    listed = command(trial, trial.node_netns, "nft", "--json", "list", "ruleset")
    if listed.returncode != 0:
        raise NotApplicableError(f"nft: {listed.stderr.strip()}")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in json.loads(listed.stdout)["nftables"]:
        for kind, body in entry.items():
            for each in _deletable_entries(kind, body):
                found[json.dumps(each, sort_keys=True)] = each
    return found


def added_firewall_entries(before: FirewallEntries, after: FirewallEntries) -> list[Mapping[str, Any]]:
    """Return the additions; a new table stands for everything in it."""
    come = [after[name] for name in after if name not in before]
    tables = {_table_of(each) for each in come if "table" in each}
    return [each for each in come if "table" in each or _table_of(each) not in tables]


def remove_firewall_entries(trial: Trial, things: list[Mapping[str, Any]]) -> None:
    """Remove them, all at once. Raises NotApplicableError if nft(8) fails."""
    commands = json.dumps({"nftables": [{"delete": each} for each in things]})
    done = command(trial, trial.node_netns, "nft", "--json", "--file", "-", stdin=commands)
    if done.returncode != 0:
        raise NotApplicableError(f"nft cannot remove what ADD made: {done.stderr.strip()}")


def _deletable_entries(kind: str, body: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 -- JSON of any shape
    if kind == "table":
        yield {"table": {key: body[key] for key in ("family", "name")}}
    elif kind == "rule":
        yield {"rule": {key: body[key] for key in ("family", "table", "chain", "handle")}}
    elif kind in {"set", "map"}:
        place = {key: body[key] for key in ("family", "table", "name")}
        for element in body.get("elem", []):
            yield {"element": {**place, "elem": [_bare_element(element)]}}


def _bare_element(element: Any) -> Any:  # noqa: ANN401 -- JSON of any shape
    """Take counters, comments and times off an element."""
    if isinstance(element, list) and len(element) == 2:  # noqa: PLR2004 -- of a map: a key and a value
        return [_bare_element(element[0]), element[1]]
    return element["elem"]["val"] if isinstance(element, dict) and "elem" in element else element


def _table_of(thing: Mapping[str, Any]) -> tuple[str, str]:
    [(kind, body)] = thing.items()
    return body["family"], body["name" if kind == "table" else "table"]


class Qdisc(NamedTuple):
    """A queueing discipline, as a snapshot names it: "tbf dev eth0 root". `netns` is the place of its device."""

    netns: str
    name: str


def own_qdiscs(trial: Trial, container: TrialContainer, config: Mapping[str, object]) -> list[Qdisc]:
    """Attach a container, and return those that the plugin under test has made; none if tc(8) is not installed."""
    trial.prepare(container)
    before = trial.snapshot(container)
    expect.result(trial.add(container, config=config), trial.version)
    after = trial.snapshot(container)
    return [
        Qdisc(netns, name)
        for place, netns in (("node", trial.node_netns), ("pod", container.netns))
        for name in after.section(place, "qdiscs")
        if name not in before.section(place, "qdiscs")
    ]


def remove_qdisc(trial: Trial, _: TrialContainer, qdisc: Qdisc) -> bool:
    """Remove one of a container without the plugin's knowledge; False if it cannot be removed."""
    kind, _dev, device, *place = qdisc.name.split()
    where = [kind] if kind in _WITHOUT_PARENT else place
    return succeeds(trial, qdisc.netns, "tc", "qdisc", "del", "dev", device, *where)


def settled_processes(trial: Trial) -> list[NodeProcess]:
    """Return the trial's processes once two readings agree: one that was just started has not its own name yet."""

    def read() -> tuple[list[NodeProcess], list[NodeProcess]]:
        earlier = trial.site.processes()
        time.sleep(_PAUSE)
        return earlier, trial.site.processes()

    return once(read, lambda found: found[0] == found[1], _SECONDS)[1]


def added_processes(trial: Trial, before: Sequence[NodeProcess]) -> list[NodeProcess]:
    """Return the new processes of each program that more of them execute than before, after time for their end."""
    return once(lambda: _added(before, trial.site.processes()), lambda left: not left, _SECONDS)


def _added(before: Sequence[NodeProcess], now: Sequence[NodeProcess]) -> list[NodeProcess]:
    known = {(each.pid, each.started) for each in before}
    earlier, later = Counter(map(_program, before)), Counter(map(_program, now))
    return [
        each
        for each in now
        if (each.pid, each.started) not in known and later[_program(each)] > earlier[_program(each)]
    ]


def _program(process: NodeProcess) -> str:
    return process.command.partition(" ")[0]
