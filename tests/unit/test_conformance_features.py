"""Core and extended conformance: which check counts for what, and the verdict in one line."""

from dataclasses import replace

import pytest

from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.features import FEATURES, IPV6, FeatureState, feature_of, standing
from harness.conformance.report.outline import verdict
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile, Subject
from harness.libcni.networks import PluginConfig
from tests import findings

DUAL_STACK: dict[str, object] = {"type": "host-local", "ranges": [[{"subnet": "2001:db8::/64"}]]}


def bridge(version: str = "1.1.0", ipam: dict[str, object] | None = None, *capabilities: str) -> Subject:
    """A plugin that delegates, and declares capabilities."""
    network = replace(findings.NETWORK, cni_version=version)
    raw: dict[str, object] = {"type": "bridge", "ipam": ipam or {"type": "host-local"}}
    plugin = PluginConfig("bridge", frozenset(capabilities), raw, "host-local")
    return replace(findings.subject(network=network), plugin=plugin)


def every_finding(subject: Subject, *others: str, outcome: Outcome = Outcome.FAIL) -> list[Finding]:
    """Every check of the subject's profile: those named end with `outcome`, all others pass."""
    wanted = [check for check in all_checks() if subject.profile in check.profiles]
    assert set(others) <= {check.id for check in wanted}
    return [Finding(each, subject, outcome if each.id in others else Outcome.PASS, 0.1) for each in wanted]


def without(found: list[Finding], *prefixes: str) -> list[Finding]:
    """The findings as if the checks with these prefixes did not apply."""
    not_applicable = Outcome.NOT_APPLICABLE
    return [each._replace(outcome=not_applicable) if each.check.id.startswith(prefixes) else each for each in found]


def test_core_are_musts_and_each_feature_has_checks() -> None:
    owners = {check.id: feature_of(check) for check in all_checks()}

    core = [check for check in all_checks() if owners[check.id] is None]
    assert {check.level for check in core} == {Level.MUST}
    assert {"add-prints-result", "del-twice", "version-result", "parallel-add"} <= {check.id for check in core}
    assert [each.name for each in FEATURES if each is not IPV6 and each not in owners.values()] == []
    assert {each for each in IPV6.ids if each not in owners} == set()


@pytest.mark.parametrize(
    ("check", "feature"),
    [
        ("gc-keeps-valid", "GC"),
        ("gc-spelling-of-libcni", "GC"),
        ("delegate-gc", "delegation"),
        ("status-forwarded", "STATUS"),
        ("check-after-add", "CHECK"),
        ("version-supported-works", "versions"),
        ("capability-port-mappings", "portMappings"),
        ("del-undoes-add", "clean-up"),
        ("error-object", "errors"),
        ("crio-version", "CRI-O"),
        ("stdout-full", "robustness"),
    ],
)
def test_a_check_counts_for_one_feature(check: str, feature: str) -> None:
    found = feature_of(next(each for each in all_checks() if each.id == check))

    assert found is not None
    assert found.name == feature


def test_capabilities_ipv6_and_delegation_count_only_if_they_are_declared() -> None:
    plain = replace(bridge(), plugin=PluginConfig("bridge", frozenset(), {"type": "bridge"}))
    rich = bridge("1.1.0", DUAL_STACK, "ips", "portMappings")

    assert {"ips", "portMappings", "IPv6", "delegation"}.isdisjoint(standing(every_finding(plain)).extended)
    assert {"ips", "portMappings", "IPv6", "delegation"} <= standing(every_finding(rich)).extended.keys()
    assert "mac" not in standing(every_finding(rich)).extended
    quoting = bridge("1.1.0", {"note": 'a 6" rack', **DUAL_STACK})
    assert "IPv6" in standing(every_finding(quoting)).extended


def test_a_feature_without_a_check_that_applies_is_not_declared() -> None:
    found = without(every_finding(bridge("1.0.0")), "gc-", "status-")

    assert {"GC", "STATUS"}.isdisjoint(standing(found).extended)
    assert verdict(found) == "pass: CNI 1.0.0 works: pass; core: pass; extended: 13 of 13"


def test_a_plugin_without_faults_passes() -> None:
    assert (
        verdict(every_finding(bridge("1.1.0", DUAL_STACK)))
        == "pass: CNI 1.1.0 works: pass; core: pass; extended: 16 of 16"
    )


def test_a_must_of_a_feature_fails_the_feature_and_not_core() -> None:
    found = standing(every_finding(bridge(), "gc-keeps-valid", "check-address-missing"))

    assert found.core is FeatureState.PASS
    assert [name for name, state in found.extended.items() if state is FeatureState.FAIL] == ["CHECK", "GC"]


@pytest.mark.parametrize(
    ("check", "works", "core"),
    [
        ("variable-named", FeatureState.PASS, FeatureState.FAIL),  # a MUST by its letter
        ("del-undoes-add", FeatureState.FAIL, FeatureState.PASS),
        ("containerd-stops", FeatureState.FAIL, FeatureState.PASS),
        ("about", FeatureState.PASS, FeatureState.PASS),
    ],
)
def test_a_plugin_works_by_the_effects_of_its_failures(check: str, works: FeatureState, core: FeatureState) -> None:
    found = standing(every_finding(bridge(), check))

    assert (found.works, found.core) == (works, core)


def test_a_must_of_core_fails_core_and_no_feature() -> None:
    assert (
        verdict(every_finding(bridge(), "del-twice")) == "fail: CNI 1.1.0 works: fail; core: fail; extended: 15 of 15"
    )


def test_ipv6_shares_its_checks() -> None:
    found = standing(every_finding(bridge("1.1.0", DUAL_STACK), "add-addresses"))

    assert (found.core, found.extended["IPv6"]) == (FeatureState.FAIL, FeatureState.FAIL)


@pytest.mark.parametrize(
    ("check", "outcome", "state"),
    [
        ("containerd-stops", Outcome.WARN, FeatureState.FAIL),
        ("status-exhausted", Outcome.WARN, FeatureState.PASS),  # a MAY
        ("gc-keeps-valid", Outcome.NOT_EXAMINED, FeatureState.PARTIAL),
        ("gc-keeps-valid", Outcome.ERROR, FeatureState.PARTIAL),
        ("gc-keeps-valid", Outcome.NOT_APPLICABLE, FeatureState.PASS),
    ],
)
def test_outcome_of_a_check_sets_the_state_of_its_feature(check: str, outcome: Outcome, state: FeatureState) -> None:
    found = every_finding(bridge(), check, outcome=outcome)
    feature = next(feature_of(each.check) for each in found if each.check.id == check)

    assert feature is not None
    assert standing(found).extended[feature.name] is state


def test_core_is_partial_if_a_must_was_not_examined_or_not_run() -> None:
    whole = every_finding(bridge())
    blocked = every_finding(bridge(), "del-twice", outcome=Outcome.NOT_EXAMINED)

    assert verdict(blocked) == "pass: CNI 1.1.0 works: partial; core: partial; extended: 15 of 15"
    assert verdict(whole[:5]).startswith("pass: CNI 1.1.0 works: partial; core: partial; extended: 0 of ")
    assert verdict([each for each in whole if each.check.id != "stdout-full"]).endswith(
        "works: partial; core: pass; extended: 14 of 15"
    )


def test_of_several_plugins_the_worst_counts() -> None:
    ipam = replace(bridge("1.0.0"), profile=Profile.IPAM)
    sound = every_finding(bridge(), "check-interface-missing")
    spoilt = every_finding(ipam, "del-twice", "gc-keeps-valid")

    assert verdict([*sound, *spoilt]) == "fail: CNI 1.0.0 to 1.1.0 works: fail; core: fail; extended: 13 of 15"


def test_empty_run_is_no_pass() -> None:
    assert verdict([]) == "nothing was examined"


def test_failure_is_known_only_if_each_one_is() -> None:
    found = every_finding(bridge(), "del-twice", "version-result", outcome=Outcome.FAIL)
    known = [each._replace(known="reported") if each.outcome is Outcome.FAIL else each for each in found]
    in_part = [each._replace(known="") if each.check.id == "del-twice" else each for each in known]

    assert "pass: CNI 1.1.0 works: fail (known); core: fail (known);" in verdict(known)
    assert "fail: CNI 1.1.0 works: fail; core: fail;" in verdict(in_part)
