"""Imports of the command line: ordinary verbs do without the libraries that only some need."""

import subprocess
import sys

import pytest

from tests.cli import ROOT

OF_A_REMOTE_RUNTIME = ("google.protobuf", "grpc", "websockets")
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
        "harness.views.trace_formats",
    ],
)
def test_ordinary_verbs_load_no_slow_library(module: str) -> None:
    script = f"import sys, {module}; print(*[name for name in {SLOW} if name in sys.modules])"

    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert run.stdout.split() == []


@pytest.mark.parametrize("verb", ["add", "run", "get"])
def test_without_a_remote_runtime_neither_grpc_nor_protobuf_is_loaded(verb: str) -> None:
    # `run` loads the others in its functions.
    modules = f"harness.cli.{verb}, harness.cli.kubelet_node, harness.cli.manifest_pods, harness.containerd.service"
    script = f"import sys, {modules}; print(*[name for name in {OF_A_REMOTE_RUNTIME} if name in sys.modules])"

    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert run.stdout.split() == []
