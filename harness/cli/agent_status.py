"""The state of a running agent: its problems as lines, a document for `agent status`, metrics for Prometheus."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from agent.agent import Agent
from agent.plan import TUNNEL, Ways
from agent.sources import NodeSource
from harness.output import say


class ToldProblems:
    """The problems of an agent as they were told last: each is a line when it begins, and when it ends."""

    def __init__(self, beginning: str = "") -> None:
        """`beginning` is that of each line."""
        self.problems: list[str] = []
        self._beginning = beginning

    def tell(self, problems: list[str]) -> bool:
        """Tell the differences; False if there are none."""
        before, self.problems = self.problems, problems
        for problem in problems:
            if problem not in before:
                say(f"{self._beginning}{problem}")
        for problem in before:
            if problem not in problems:
                say(f"{self._beginning}No longer: {problem}")
        return before != problems


def status_of(agent: Agent, source: NodeSource) -> dict[str, Any]:
    """Return the state as a document: the node, its ways to each peer, and the problems. Times are RFC 3339."""
    plan, tally = agent.plan, agent.tally
    site = plan.site if plan is not None else None
    return {
        "node": agent.options.node,
        "backend": agent.options.backend.value,
        "podCIDRs": [str(each) for each in site.node.pod_cidrs] if site is not None else [],
        "mtu": site.mtu if site is not None else 0,
        "peers": [
            {"name": name, "routes": _routes(ways), "problems": [each.text for each in ways.problems]}
            for name, ways in sorted(plan.ways.items() if plan is not None else ())
        ],
        "problems": [*source.problems, *agent.problems],
        "lastComparison": _moment(tally.compared),
        "lastChange": _moment(tally.changed),
        "comparisons": tally.comparisons,
        "changes": tally.changes,
    }


def _routes(ways: Ways) -> list[dict[str, str]]:
    ends = [str(end) for end in ways.ends.values()]
    return [
        {"to": str(dst), "via": str(hop.gateway)}
        | ({"way": "direct"} if hop.ifindex else {"way": "tunnel", "dev": TUNNEL, "end": ", ".join(ends)})
        for dst, hop in ways.hops.items()
    ]


def metrics_of(agent: Agent, source: NodeSource, version: str) -> str:
    """Return the metrics, in version 0.0.4 of the format."""
    plan, tally = agent.plan, agent.tally
    hops = [hop for ways in plan.ways.values() for hop in ways.hops.values()] if plan is not None else []
    direct = sum(hop.ifindex != 0 for hop in hops)
    lines = [
        *_metric("build_info", "gauge", "The version of the agent.", {f'version="{version}"': 1}),
        *_metric("peers", "gauge", "Other nodes that are known.", {"": len(plan.ways) if plan is not None else 0}),
        *_metric(
            "routes",
            "gauge",
            "Planned routes to ranges of pods, by their way.",
            {'way="direct"': direct, 'way="tunnel"': len(hops) - direct},
        ),
        *_metric("problems", "gauge", "Problems that keep nodes from being reached.", {"": len(agent.problems)}),
        *_metric("source_problems", "gauge", "Reasons why the Nodes may be old.", {"": len(source.problems)}),
        *_metric("comparisons_total", "counter", "Comparisons of all state with the plan.", {"": tally.comparisons}),
        *_metric("changes_total", "counter", "Changes made in the node.", {"": tally.changes}),
        *_metric(
            "last_comparison_timestamp_seconds", "gauge", "Time of the last comparison.", {"": round(tally.compared, 3)}
        ),
        *_metric("last_change_timestamp_seconds", "gauge", "Time of the last change.", {"": round(tally.changed, 3)}),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, words: str, values: dict[str, float]) -> Iterator[str]:
    whole = f"cni_harness_agent_{name}"
    yield f"# HELP {whole} {words}"
    yield f"# TYPE {whole} {kind}"
    for labels, value in values.items():
        yield f"{whole}{{{labels}}} {value}" if labels else f"{whole} {value}"


def _moment(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None
