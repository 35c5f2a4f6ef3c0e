"""The verdict in one line: `CNI 1.1.0 core: pass; extended: 14 of 17`."""

from collections.abc import Sequence

from harness.conformance.features import standing_of_all
from harness.conformance.finding import Finding

__all__ = ["verdict"]


def verdict(findings: Sequence[Finding]) -> str:
    """Return the verdict on one plugin, or on several: the worst of them counts, in core and in each feature.

    `core` is "pass" or "fail". It is "partial" if nothing failed, but a MUST of the plugin's kind was not examined.
    `extended` counts the features that passed, and those that the plugins declare. The versions are those that the
    plugins were examined in.
    """
    if not findings:
        return "nothing was examined"
    found = standing_of_all(findings)
    versions = " to ".join(dict.fromkeys((found.versions[0], found.versions[-1])))
    extended = f"{len(found.passed)} of {len(found.extended)}" if found.extended else "none"
    return f"CNI {versions} core: {found.core}; extended: {extended}"
