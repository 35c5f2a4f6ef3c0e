"""Findings of the conformance suite as of a run, for tests of their reports."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.conformance.catalogue import ALL, Check
from harness.conformance.engine.examination import Examination, ExaminedFile
from harness.conformance.engine.run import ConformanceRun
from harness.conformance.finding import Finding, KeptNode, Outcome
from harness.conformance.sentences import Level, load
from harness.conformance.subject import Profile, Subject
from harness.libcni.execute import Execution
from harness.libcni.networks import NetworkList, PluginConfig, parse_network_list

NETWORK: NetworkList = parse_network_list(
    b'{"cniVersion": "1.0.0", "name": "testnet", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}'
)
RULE = next(each for each in load().values() if each.document == "SPEC.md" and each.side == "plugin")
"""A sentence that is quoted."""
HABIT = next(each for each in load().values() if each.document == "runtimes")
"""One in our own words."""
HOSTILE = (
    "</script><b>`x`</b>\x1b[2J\x00\x9b\u202edrawkcab\u2066 | # & \ud800\uffff\u2028]]>\n...\nok 99 - forged\n"
    "--- '\"\n```\n## forged"
)
"""The worst that a plugin may say."""


KEPT = KeptNode(
    "conformance-1a2b", Path("/state dir"), "/run/netns/conformance-1a2b-1", ("/run/netns/conformance-1a2b-2",), ("in",)
)
"""A node that nobody made."""


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


def execution(stdout: str = "{}", **fields: Any) -> Execution:
    """An execution of the plugin with this output."""
    facts: dict[str, Any] = {
        "plugin": "bridge",
        "path": "/nowhere/bridge",
        "verb": "ADD",
        "environ": {"CNI_COMMAND": "ADD", "SECRET": "not to be told"},
        "stdin": b'{"cniVersion":"1.0.0"}',
        "stderr": b"",
        "exit_code": 1,
        "seconds": 0.125,
        "timed_out": False,
    }
    return Execution(stdout=stdout.encode(errors="surrogatepass"), **(facts | fields))


def examination(*findings: Finding, **fields: Any) -> Examination:
    """The record of a run with these findings."""
    facts: dict[str, Any] = {
        "files": (ExaminedFile("bridge", Path("/nowhere/bridge"), "ab" * 32, "CNI bridge plugin v1.2.3"),),
        "kernel": "6.1.0-test",
        "began": datetime.fromisoformat("2026-11-23T09:30:00+01:00"),
        "command": ("cni-harness", "conformance", "--conf", "my net.conflist"),
        "privileges": "root",
        "source": "cni-harness 0.1.0, commit 1a2b3c4",
    }
    return Examination(findings=findings, **(facts | fields))


def examine(subject: Subject, checks: Sequence[Check], **fields: Any) -> list[Finding]:
    """Have a run with these fields examine one plugin by these checks, and return the findings."""
    found: list[Finding] = []
    ConformanceRun(networks=(), checks=checks, **fields).examine(subject, fields["options"], found)
    return found
