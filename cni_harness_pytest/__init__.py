"""The project's pytest plugins: conformance checks as items, and the marker `sudo`.

They import nothing of the other rooms. A plugin author's own `plugins`, `conf` or `harness` may stand in sys.path
before ours, so the conformance suite works in a process of its own.
"""

from cni_harness_pytest.declaration import ConformanceWarning, conformance, write_launchers

__all__ = ["ConformanceWarning", "conformance", "write_launchers"]
