"""ptp with the whole suite, macvlan as far as links matter, and ADDs and DELs that are killed or ended at any point."""

from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import PointUnit, kill_adds
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile
from tests.conformance.own import IPAM, LINK_CHECKS, WIDE, interface_plugin, with_uplink
from tests.conformance.subjects import run_check
from tests.samples import share
from tools.soak.soak import Soak, soak, survey

pytestmark = pytest.mark.sudo

CAPABILITIES = dict.fromkeys(("ips", "ipRanges", "mac"), True)
ROUTED = {**IPAM, "routes": [{"dst": "0.0.0.0/0"}]}
PLUGINS: dict[str, dict[str, Any]] = {
    "ptp": {
        "capabilities": CAPABILITIES,
        "ipMasq": True,
        "dns": {"nameservers": ["10.66.0.1"]},
        "ipam": ROUTED,
    },
    "macvlan": {
        "capabilities": CAPABILITIES,
        "master": "uplink0",
        "ipam": {**IPAM, "routes": [{"dst": "10.77.0.0/16"}]},
    },
}
KILLS = 60
"""A third of them in each run, all with `--all-rows`."""
KILLED = "killed-add"
"""Its ADDs are killed by a test of their own."""
PARALLEL = {"parallel-add", "parallel-delete", "parallel-add-and-delete"}
CHECKS = {
    "ptp": {check.id for check in all_checks()} - {KILLED},
    "macvlan": LINK_CHECKS | PARALLEL,
}


@pytest.fixture
def options(tmp_path: Path, pytestconfig: pytest.Config) -> CheckOptions:
    """On each node there is an uplink, for a master."""
    return with_uplink(tmp_path, kills=share(pytestconfig, KILLS, one_in=3), killers=2)


@pytest.mark.mostly_slow(16, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.one_row_in(3)  # `make matrix` runs all, without a server
@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{plugin}-{check.id}")
        for plugin in PLUGINS
        for check in all_checks()
        if Profile.INTERFACE in check.profiles and check.id in CHECKS[plugin]
    ],
)
def test_conformance(plugin: str, check: Check, bin_dir: Path, tmp_path: Path, options: CheckOptions) -> None:
    examined = interface_plugin(plugin, PLUGINS[plugin], bin_dir)

    finding = run_check(check, examined, state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_all_checks_are_there() -> None:
    assert {check.id for check in all_checks()} >= LINK_CHECKS | PARALLEL | {KILLED}


@pytest.mark.time_limit(600, "it kills an ADD at many points")
@pytest.mark.slow("kills at many points; test_pods_crash kills an add in make test")
@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("kind", ["direct", "served"])
def test_killed_adds_leave_nothing(
    plugin: str, kind: str, tmp_path: Path, options: CheckOptions, request: pytest.FixtureRequest
) -> None:
    bin_dir: Path = request.getfixturevalue(f"{kind}_bin_dir")

    chaos = kill_adds(interface_plugin(plugin, PLUGINS[plugin], bin_dir, WIDE), state_dir=tmp_path, options=options)

    assert len(chaos.kills) >= options.kills * 0.9
    assert chaos.leaks == []


@pytest.mark.slow("ends verbs at many points; test_pods_signals ends adds in make test")
@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_nothing_is_left_of_a_verb_that_sigterm_ends(
    plugin: str, verb: str, tmp_path: Path, direct_bin_dir: Path, options: CheckOptions
) -> None:
    """Of the second half: in the first one the interpreter starts."""
    examined = interface_plugin(plugin, PLUGINS[plugin], direct_bin_dir, WIDE)
    calls, _ = survey(examined, verb, tmp_path, options)
    points = tuple(range(calls // 2, calls + 1, max(1, calls // options.kills)))

    tally = soak(Soak("direct", examined, verb, PointUnit.CALLS, points, options), tmp_path, 2)

    assert tally.left == []
    assert tally.left_for_good == []
    assert tally.ended > 0
