"""The version of the suite: that of the specification, and a number that grows with every change of the checks."""

from typing import Final

SPEC_VERSION: Final = "1.1.0"
"""The version of SPEC.md whose sentences the checks enforce."""
SUITE_VERSION: Final = f"{SPEC_VERSION}-3"
"""The suite's own version. A check that is added, removed or stricter makes the number behind the hyphen grow."""
