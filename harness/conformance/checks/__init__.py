"""The checks, a module for each subject."""

import sys
from collections.abc import Sequence

from harness.conformance.catalogue import Check, import_modules, registered


def all_checks() -> Sequence[Check]:
    """Return every check, in the order of the modules and of the functions in them."""
    import_modules(sys.modules[__name__])
    return registered()
