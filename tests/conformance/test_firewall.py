"""An ADD's part of the firewall, told from the rest, and taken out again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.added_objects import added_firewall_entries, firewall_entries, remove_firewall_entries
from harness.conformance.engine.outside_changes import command
from harness.conformance.engine.trial import Trial
from harness.conformance.subject import Profile
from harness.runtime.site import Site
from tests.conformance.subjects import subject

pytestmark = pytest.mark.sudo

OLD = """
table inet old {
    map verdicts { type ipv4_addr : verdict; elements = { 192.0.2.1 comment "one" : accept } }
    set names { type ipv4_addr; elements = { 192.0.2.1 } }
    chain input { counter accept; }
}
"""
NEW = """
add element inet old verdicts { 192.0.2.2 comment "two" : drop }
add element inet old names { 192.0.2.2 }
add rule inet old input counter drop
table ip new {
    chain output { accept; }
}
"""


@pytest.fixture
def trial(sound_bin_dir: Path, tmp_path: Path) -> Iterator[Trial]:
    with Site(tmp_path / "state", "firewall") as site:
        yield Trial(subject(Profile.INTERFACE, sound_bin_dir), site, CheckOptions())


def nft(trial: Trial, *words: str, stdin: str = "") -> str:
    done = command(trial, trial.node_netns, "nft", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_removal_of_added_rules_leaves_older_rules(trial: Trial) -> None:
    nft(trial, "-f", "-", stdin=OLD)
    listed, before = nft(trial, "list", "ruleset"), firewall_entries(trial)
    nft(trial, "-f", "-", stdin=NEW)

    come = added_firewall_entries(before, firewall_entries(trial))
    remove_firewall_entries(trial, come)

    assert sorted(kind for each in come for kind in each) == ["element", "element", "rule", "table"]
    assert nft(trial, "list", "ruleset") == listed


def test_equal_rulesets_have_no_additions(trial: Trial) -> None:
    nft(trial, "-f", "-", stdin=OLD)
    ruleset = firewall_entries(trial)

    assert added_firewall_entries(ruleset, firewall_entries(trial)) == []
