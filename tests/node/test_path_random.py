"""`path` against the kernel: random packets, what nftables traces of them, and where they are delivered.

`--path-pairs 200` sends more of them, `--path-seed 7` others. A verdict "unsure" counts as wrong here.
"""

import random
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from harness.views.nft_values import PROTOCOLS, Packet
from harness.views.path import PathResult, find_path
from tests.cli import Cli
from tests.nft_trace import TraceEvent
from tests.node.path_node import Flow, Furnished, furnished

pytestmark = [pytest.mark.sudo, pytest.mark.slow("random packets; test_path sends single ones in make test")]

OWN_TABLES = (" tracer ", " witness ")
ANY = ip_address("0.0.0.0")
SENT = 30
"""Datagrams of exactly the smallest MTU, at most."""
SLACK = 5
"""Bytes. A veth takes four bytes more than its MTU, for a VLAN tag: is_skb_forwardable()."""


def predicted(node: Furnished, flow: Flow) -> PathResult:
    packet = Packet(ANY, ip_address(flow.destination), PROTOCOLS[flow.protocol], flow.port)
    return find_path(node.namespaces, node.namespaces.places[flow.origin], packet)


def rules_met(node: Furnished, result: PathResult) -> list[TraceEvent]:
    """The rules in the words of the trace: a rejection is a drop."""
    verdicts = {"reject": "drop"}
    return told(
        [
            TraceEvent(rule.chain, rule.handle, verdicts.get(rule.verdict, rule.verdict))
            for place, rule in result.rules
            if place == node.namespaces.places["node"].label
        ]
    )


def told(events: list[TraceEvent]) -> list[TraceEvent]:
    """Rules of others than this test, and policies that drop.

    Chains that translate nothing have no certain order: only the kernel knows which of equal priority is the older.
    """
    return [event for event in events if not is_own(event.chain) and (event.handle or event.verdict == "drop")]


def is_own(chain: str) -> bool:
    return any(name in f" {chain} " for name in OWN_TABLES)


def test_random_packets_meet_the_rules_and_ends_that_path_names(
    pytestconfig: pytest.Config, make_cli: Callable[[Path], Cli], direct_bin_dir: Path
) -> None:
    pairs, seed = (int(pytestconfig.getoption(name)) for name in ("path_pairs", "path_seed"))
    wrong = []
    with furnished(make_cli(direct_bin_dir), random.Random(seed)) as node:  # noqa: S311 -- reproducible
        flows = [node.flow() for _ in range(pairs)]
        sizes: list[tuple[Flow, Flow, PathResult]] = []
        results = {}
        for flow in flows:
            results[flow] = predicted(node, flow)
            node.send(flow)
            node.trace.read()
        node.settle_all()
        for flow in flows:
            result = results[flow]
            if flow.protocol == "udp" and result.verdict == "delivered" and result.mtu and len(sizes) < SENT:
                sizes.append((node.again(flow), node.again(flow), result))
        for exact, larger, result in sizes:
            node.send(exact, result.mtu)
            node.send(larger, result.mtu + SLACK)
            node.trace.read()
        node.settle_all()
        witnessed = node.witnessed()

        for flow, result in results.items():
            places = witnessed.get((flow.protocol, flow.source_port), [])
            expected = [result.place] if result.verdict == "delivered" else []
            traced = told(node.trace.events.get(flow.source_port, []))
            if flow.protocol == "udp":
                assert node.received(flow) == places, flow
            if (places, traced) != (expected, rules_met(node, result)) or result.verdict == "unsure":
                wrong.append(
                    f"{flow}\n  {result.verdict} {result.reason}\n  {places} {traced}\n  {rules_met(node, result)}"
                )
        for exact, larger, result in sizes:
            if (node.received(exact), node.received(larger)) != ([result.place], []):
                wrong.append(
                    f"{exact} of {result.mtu} bytes ({result.mtu_at}): {node.received(exact)} {node.received(larger)}"
                )

    verdicts = Counter(result.verdict for result in results.values())
    assert min(verdicts["delivered"], verdicts["dropped"]) > pairs // 5, verdicts
    assert wrong == [], "\n".join(wrong)
