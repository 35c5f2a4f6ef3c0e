"""The suite for runtimes: our libcni passes it, and each check catches a runtime with the fault that it names."""

from pathlib import Path

import pytest

from harness.conformance.finding import Outcome
from harness.conformance.runtime_checks.catalogue import judge, runtime_checks
from harness.conformance.runtime_checks.driver import drive_libcni
from harness.conformance.threshold import without_effect
from tests.conformance.faulty_runtimes import operations, requests
from tests.conformance.faulty_runtimes.fault import Fault, records_of

FAULTS = [*operations.FAULTS, *requests.FAULTS]

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("faulty runtimes one by one; test_cli_conformance_runtime judges one in make test"),
]


def test_our_libcni_passes_each_check(tmp_path: Path) -> None:
    findings = judge(drive_libcni(tmp_path))

    assert {finding.check.id: finding.breaches for finding in findings if finding.outcome is not Outcome.PASS} == {}


def test_each_check_has_a_fault() -> None:
    assert sorted({fault.check for fault in FAULTS}) == sorted(check.id for check in runtime_checks())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.check)
def test_a_fault_is_caught(fault: Fault, tmp_path: Path) -> None:
    findings = judge(records_of(fault, tmp_path))

    failed = {finding.check.id for finding in findings if finding.breaches}
    assert failed == {fault.check} | fault.also
    counted = {finding.check.id for finding in findings if finding.outcome is Outcome.FAIL}
    assert counted == failed - without_effect("runtimes").keys()
