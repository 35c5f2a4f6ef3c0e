"""How a plugin stands: whether it works, core and extended conformance.

A plugin works if no check fails whose failure has an effect (effects.yaml). Core are the MUSTs of its profile, also
those that are violated by their letter only. A feature is a set of checks; it has passed if none of its checks failed.
Each check belongs to core or to one feature. IPv6 alone shares its checks with others.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatch
from functools import cache
from ipaddress import IPv6Interface
from itertools import groupby
from typing import Final, NamedTuple

from harness.conformance.catalogue import Check
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.sentences import Level
from harness.conformance.subject import Subject
from harness.conformance.threshold import effects

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
"""A string in JSON, also one with escaped quotes."""


class FeatureState(StrEnum):
    """How core, or a feature, stands; the better one first."""

    PASS = "pass"  # noqa: S105 -- no password
    PARTIAL = "partial"
    """Nothing failed, but some of its checks were not run, or found out nothing."""
    FAIL = "fail"


class Feature(NamedTuple):
    """A feature. Its checks are those with these IDs, or with a first sentence of these documents and sections: globs.

    `declares` tells whether a plugin in its place, with its configuration, has the feature.
    """

    name: str
    title: str
    ids: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    takes_musts: bool = True
    """Whether a MUST among these checks belongs to the feature; otherwise it belongs to core."""
    declares: Callable[[Subject], bool] = lambda _: True

    def has(self, check: Check) -> bool:
        """Tell whether a check is one of this feature."""
        if check.level is Level.MUST and not self.takes_musts:
            return False
        sentence = check.enforced[0]
        place = f"{sentence.document}: {sentence.section}"
        return any(fnmatch(check.id, each) for each in self.ids) or any(fnmatch(place, each) for each in self.sections)


class Standing(NamedTuple):
    """Whether it works, the state of core and of each declared feature, and the versions of the examined lists."""

    works: FeatureState
    core: FeatureState
    extended: Mapping[str, FeatureState]
    versions: tuple[str, ...]

    @property
    def passed(self) -> list[str]:
        """The names of the features that passed."""
        return [name for name, state in self.extended.items() if state is FeatureState.PASS]


def _capability(name: str, check: str) -> Feature:
    def declares(subject: Subject) -> bool:
        return name in subject.plugin.capabilities

    return Feature(name, f'the capability "{name}"', ids=(check,), declares=declares)


def _has_ipv6(subject: Subject) -> bool:
    written = json.dumps([plugin.raw for plugin in (subject.plugin, *subject.before)])
    return any(map(_is_ipv6, _STRING.findall(written)))


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Interface(text)
    except ValueError:
        return False
    return True


IPV6: Final = Feature(
    "IPv6",
    "IPv6 addresses in the configuration",
    ids=(
        "add-addresses",
        "add-cidr-notation",
        "add-gateway",
        "add-routes",
        "check-address-missing",
        "check-route-missing",
        "del-undoes-add",
        "ipam-gives-addresses",
        "parallel-add",
        "prev-result-ips",
        "prev-result-routes",
    ),
    declares=_has_ipv6,
)
"""Its checks are those of a configuration with addresses; they also belong elsewhere."""

FEATURES: Final = (
    Feature(
        "delegation", "an IPAM plugin is executed", ids=("delegate-*",), declares=lambda subject: subject.delegate != ""
    ),
    Feature("CHECK", "the verb CHECK", ids=("check-*",), sections=("*/ CHECK",)),
    Feature("GC", "the verb GC", ids=("gc-*",), sections=("*/ GC",)),
    Feature("STATUS", "the verb STATUS", ids=("status-*",), sections=("*/ STATUS",)),
    Feature(
        "versions",
        "several versions of the specification",
        ids=("version-supported-*", "version-unsupported", "verb-before-*", "verbs-of-*"),
        sections=("*/ Version considerations",),
    ),
    _capability("ips", "capability-ips"),
    _capability("ipRanges", "capability-ip-ranges"),
    _capability("mac", "capability-mac"),
    _capability("dns", "capability-dns"),
    _capability("portMappings", "capability-port-mappings"),
    _capability("bandwidth", "capability-bandwidth"),
    Feature("ipMasq", "the key ipMasq", ids=("ip-masq",)),
    Feature("dns key", "the key dns", ids=("add-configured-dns",)),
    Feature("arguments", "CNI_ARGS, args and runtimeConfig", sections=("CONVENTIONS.md*", "skel: CNI_ARGS")),
    Feature(
        "clean-up",
        "nothing is left after DEL, or after a failure",
        ids=("*-leaves-nothing", "killed-*"),
        sections=("*/ DEL",),
        takes_musts=False,
    ),
    Feature(
        "errors",
        "errors as objects, with the library's codes",
        sections=("*/ Errors", "*/ Error", "skel: *"),
        takes_musts=False,
    ),
    Feature("containerd", "the habits of containerd", sections=("runtimes: containerd",), takes_musts=False),
    Feature("CRI-O", "the habits of CRI-O", sections=("runtimes: CRI-O",), takes_musts=False),
    Feature("Podman", "the habits of Podman", sections=("runtimes: Podman",), takes_musts=False),
    Feature("nerdctl", "the habits of nerdctl", sections=("runtimes: nerdctl",), takes_musts=False),
    Feature("robustness", "everything else that runtimes expect", ids=("*",), takes_musts=False),
    IPV6,
)
"""All features. A check belongs to the first that has it; what none has is core."""


@cache
def feature_of(check: Check) -> Feature | None:
    """Return the feature that a check belongs to, None for core."""
    return next((each for each in FEATURES if each is not IPV6 and each.has(check)), None)


def standing(findings: Sequence[Finding]) -> Standing:
    """Return how one plugin stands. The findings are all of this plugin.

    A check of the catalogue without a finding makes its feature, or core, partial.
    """
    subject = findings[0].subject
    found = {finding.check.id: finding for finding in findings}
    wanted = {check.id: check for check in all_checks() if subject.profile in check.profiles}
    every = {**wanted, **{finding.check.id: finding.check for finding in findings}}.values()
    works = _state([found.get(check.id) for check in every if check.id in effects()])
    core = _state([found.get(check.id) for check in every if feature_of(check) is None])
    extended = {}
    for feature in FEATURES:
        counts = IPV6.has if feature is IPV6 else lambda check, feature=feature: feature_of(check) is feature
        mine = [found.get(check.id) for check in every if counts(check)]
        if feature.declares(subject) and any(each and each.outcome is not Outcome.NOT_APPLICABLE for each in mine):
            extended[feature.name] = _state(mine)
    return Standing(works, core, extended, (subject.network.cni_version,))


def standing_of_all(findings: Sequence[Finding]) -> Standing:
    """Return how several plugins stand: as the worst of them, in each respect. There is a finding."""
    each = [standing(list(found)) for _, found in groupby(findings, lambda finding: finding.subject)]
    names = [feature.name for feature in FEATURES if any(feature.name in one.extended for one in each)]
    extended = {name: _worst(one.extended[name] for one in each if name in one.extended) for name in names}
    versions = {version for one in each for version in one.versions}
    works, core = _worst(one.works for one in each), _worst(one.core for one in each)
    return Standing(works, core, extended, tuple(sorted(versions)))


def _state(findings: Iterable[Finding | None]) -> FeatureState:
    return _worst(map(_contribution, findings))


def _contribution(finding: Finding | None) -> FeatureState:
    """Return what one check does to the state of its feature; a MAY that is not followed does nothing."""
    if finding is None:
        return FeatureState.PARTIAL
    if finding.outcome is Outcome.FAIL or (finding.outcome is Outcome.WARN and finding.check.level is not Level.MAY):
        return FeatureState.FAIL
    return FeatureState.PARTIAL if finding.outcome in {Outcome.ERROR, Outcome.NOT_EXAMINED} else FeatureState.PASS


def _worst(states: Iterable[FeatureState]) -> FeatureState:
    order = list(FeatureState)
    return max(states, key=order.index, default=FeatureState.PASS)
