"""The verdict in one line: `CNI 1.1.0 core: pass; extended: 14 of 17`."""

from collections.abc import Sequence

from harness.conformance.features import feature_of, standing_of_all
from harness.conformance.finding import Finding, Outcome


def verdict(findings: Sequence[Finding]) -> str:
    """Return the verdict on one plugin, or on several: the worst of them counts, in core and in each feature.

    `core` is "pass" or "fail"; "fail (known)" if each of its failures is known. It is "partial" if nothing failed, but
    a MUST of the plugin's kind was not examined. `extended` counts the features that passed, and those that the
    plugins declare. The versions are those that the plugins were examined in.
    """
    if not findings:
        return "nothing was examined"
    found = standing_of_all(findings)
    versions = " to ".join(dict.fromkeys((found.versions[0], found.versions[-1])))
    extended = f"{len(found.passed)} of {len(found.extended)}" if found.extended else "none"
    failed = [each for each in findings if each.outcome is Outcome.FAIL and feature_of(each.check) is None]
    known = " (known)" if failed and all(each.known for each in failed) else ""
    return f"CNI {versions} core: {found.core}{known}; extended: {extended}"
