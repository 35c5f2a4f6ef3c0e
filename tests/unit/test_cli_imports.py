"""Imports of the command line: ordinary verbs do without the libraries that only some need."""

import subprocess
import sys

import pytest

from tests.cli import ROOT

SLOW = ("api", "difflib", "jinja2", "jsonschema", "markupsafe", "netaddr", "pyroute2", "referencing")


@pytest.mark.parametrize(
    "module",
    [
        "harness.runtime.pod_lifecycle",
        "harness.cli.defaults",
        "harness.cli.plan",
        "harness.runtime.pod_view",
        "harness.validation.validate",
        "harness.cli.add",
        "harness.cli.explain",
        "harness.views.tracing",
    ],
)
def test_ordinary_verbs_load_no_slow_library(module: str) -> None:
    script = f"import sys, {module}; print(*[name for name in {SLOW} if name in sys.modules])"

    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert run.stdout.split() == []
