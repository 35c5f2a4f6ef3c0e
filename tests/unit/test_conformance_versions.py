"""Checks in earlier versions of SPEC.md, which lack some demands and make others less bindingly."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.conformance.catalogue import Check, check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine import attempt as module
from harness.conformance.engine.attempt import attempt
from harness.conformance.finding import Finding, Outcome, ViolationError
from harness.conformance.report.features import feature_of
from harness.conformance.report.listing import catalogue_document, checks_table
from harness.conformance.report.wording import facts
from harness.conformance.sentences import Level, load
from harness.conformance.subject import Subject
from harness.conformance.threshold import FailOn, Threshold
from harness.libcni.networks import parse_network_list
from tests.findings import examine, subject

CHECKS = {check.id: check for check in all_checks()}


def bridge(version: str) -> Subject:
    document = {"cniVersion": version, "name": "testnet", "plugins": [{"type": "bridge"}]}
    return subject(network=parse_network_list(json.dumps(document).encode()))


class FakeTrial:
    """A trial without a node."""

    def __init__(self, tested: Subject) -> None:
        self.subject = tested
        self.executions: list[Any] = []
        self.options = CheckOptions()
        self.delegate_recorded = False
        self.site = SimpleNamespace(is_kept=False)

    @classmethod
    @contextmanager
    def on_new_node(cls, tested: Subject, _: Path, __: CheckOptions) -> Iterator["FakeTrial"]:
        yield cls(tested)


def violated(name: str, version: str, fail_on: FailOn, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """The finding of a check that every plugin violates."""

    def violate(_: object) -> None:
        raise ViolationError("this", "that")

    monkeypatch.setattr(module, "Trial", FakeTrial)
    options = CheckOptions(threshold=Threshold(fail_on))
    return attempt(replace(CHECKS[name], run=violate), bridge(version), state_dir=Path("/nowhere"), options=options)


@pytest.mark.parametrize(
    ("name", "version", "since"),
    [
        ("container-id-invalid", "0.3.1", "0.4.0"),
        ("variable-named", "0.4.0", "1.0.0"),
        ("add-existing-interface", "0.4.0", "1.0.0"),
        ("unsupported-field-named", "0.1.0", "0.2.0"),
        ("check-after-add", "0.3.1", "0.4.0"),  # the verb came later
        ("parallel-check", "0.3.1", "0.4.0"),
        ("gc-then-del", "1.0.0", "1.1.0"),
    ],
)
def test_check_does_not_apply_before_its_sentence(name: str, version: str, since: str) -> None:
    tested = bridge(version)

    found = attempt(CHECKS[name], tested, state_dir=Path("/nowhere"), options=CheckOptions())

    assert found.outcome is Outcome.NOT_APPLICABLE
    assert found.detail == f"the configuration is of version {version}, and this came with {since}"


@pytest.mark.parametrize(
    ("name", "version", "fail_on", "level", "outcome"),
    [
        ("del-twice", "1.0.0", FailOn.MUST, Level.MUST, Outcome.FAIL),
        ("del-twice", "0.4.0", FailOn.MUST, Level.SHOULD, Outcome.WARN),
        ("del-twice", "0.3.1", FailOn.MUST, Level.SHOULD, Outcome.WARN),
        ("del-twice", "0.3.1", FailOn.WORKS, Level.SHOULD, Outcome.FAIL),  # it has an effect
        ("del-twice", "0.2.0", FailOn.SHOULD, Level.CONVENTION, Outcome.FAIL),
        ("del-twice", "0.2.0", FailOn.MUST, Level.CONVENTION, Outcome.WARN),
        ("prev-result-ips", "0.3.1", FailOn.MUST, Level.SHOULD, Outcome.WARN),
        ("container-id-invalid", "0.4.0", FailOn.MUST, Level.MUST, Outcome.FAIL),
        ("add-netns-gone", "0.1.0", FailOn.MUST, Level.MUST, Outcome.FAIL),
    ],
)
def test_finding_has_the_level_of_its_version(
    name: str, version: str, fail_on: FailOn, level: Level, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = violated(name, version, fail_on, monkeypatch)

    assert (found.check.level, found.outcome) == (level, outcome)
    assert found.violates_must is (level is Level.MUST)


def test_report_names_a_weaker_level(monkeypatch: pytest.MonkeyPatch) -> None:
    told = facts(violated("del-twice", "0.3.1", FailOn.WORKS, monkeypatch))
    later = facts(violated("del-twice", "1.0.0", FailOn.WORKS, monkeypatch))

    assert next(told) == ("version", "SHOULD in 0.3.1, and MUST since 1.0.0")
    assert "version" not in dict(later)


def test_weaker_check_is_not_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    weaker = violated("del-twice", "0.3.1", FailOn.WORKS, monkeypatch).check
    feature = feature_of(weaker)

    assert feature_of(CHECKS["del-twice"]) is None
    assert feature is not None
    assert feature.name == "clean-up"


def test_weaker_check_is_left_out_if_only_more_binding_ones_are_wanted(tmp_path: Path) -> None:
    options = CheckOptions(threshold=Threshold(level=Level.MUST))

    assert examine(bridge("0.3.1"), [CHECKS["del-twice"]], state_dir=tmp_path, options=options) == []


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("gc-keeps-node", {"1.1.0": Level.SHOULD}),  # of a MAY
        ("check-without-prev-result", {"0.4.0": Level.CONVENTION}),  # of a MUST
        ("add-second-interface", {"0.4.0": Level.MAY}),
        ("parallel-check", {"0.4.0": Level.SHOULD, "1.0.0": Level.MUST}),
        ("containerd-stops", {"0.1.0": Level.CONVENTION}),
    ],
)
def test_levels_of_a_check_by_version(name: str, levels: dict[str, Level]) -> None:
    assert CHECKS[name].levels == levels


def test_redundant_version_of_a_check_is_refused() -> None:
    with pytest.raises(ValueError, match=r"came with 0\.4\.0, so since=0\.4\.0 says nothing"):

        @check("another", "check-probes", since="0.4.0")
        def another(_: object) -> None:
            """Nothing."""


def test_catalogue_has_the_levels_by_version() -> None:
    chosen: list[Check] = [CHECKS["del-twice"], CHECKS["gc-keeps-valid"]]
    document: Any = catalogue_document(chosen, load().values())
    rows = checks_table(chosen).rows

    assert [each["since"] for each in document["checks"]] == ["0.1.0", "1.1.0"]
    assert document["checks"][0]["levels"] == {"0.1.0": "CONVENTION", "0.3.0": "SHOULD", "1.0.0": "MUST"}
    assert [row[1:3] for row in rows] == [["MUST", "1.0.0 (0.1.0)"], ["MUST", "1.1.0"]]
