"""Findings of the conformance suite as of a run, for tests of their reports."""

from pathlib import Path
from typing import Any

from harness.conformance.catalogue import ALL, Check, Level
from harness.conformance.finding import Finding, Outcome
from harness.conformance.profile import Profile
from harness.conformance.sentences import load
from harness.conformance.subject import Subject
from harness.libcni.networks import NetworkList, PluginConfig, parse_network_list

__all__ = ["HABIT", "NETWORK", "RULE", "check", "finding", "subject"]

NETWORK: NetworkList = parse_network_list(
    b'{"cniVersion": "1.0.0", "name": "testnet", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}'
)
RULE = next(each for each in load().values() if each.document == "SPEC.md" and each.side == "plugin")
"""A sentence that is quoted."""
HABIT = next(each for each in load().values() if each.document == "runtimes")
"""One in our own words."""


def check(name: str, *, level: Level = Level.MUST, sentence: str = RULE.id) -> Check:
    """A check that nobody will run."""
    return Check(name, f"The demand of {name}.", (sentence,), level, ALL, "0.1.0", lambda _: None)


def subject(type: str = "bridge", profile: Profile = Profile.INTERFACE, network: NetworkList = NETWORK) -> Subject:
    """A plugin that nobody will execute."""
    return Subject(network, (), PluginConfig(type, frozenset(), {"type": type}), (Path("/nowhere"),), profile)


def finding(name: str, outcome: Outcome = Outcome.PASS, **fields: Any) -> Finding:
    """The finding of a check called `name`; `level`, `sentence` and `subject` may be given besides its fields."""
    level = fields.pop("level", Level.MUST)
    of = fields.pop("subject", subject())
    made = check(name, level=level, sentence=fields.pop("sentence", RULE.id))
    return Finding(made, of, outcome, fields.pop("seconds", 0.25), **fields)
