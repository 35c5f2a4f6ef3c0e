"""The wheel, in an environment that has nothing but Debian's own Python: no compiler, no PATH, no HOME."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.nodes import Node

PYTHON = "/usr/bin/python3"
WHEELS = ROOT / "build" / "wheels"
"""The wheels of the project and its dependencies; `make test-runtimes` puts them there, since tests have no network."""
NETWORK = {
    "cniVersion": "1.1.0",
    "name": "packaged",
    "type": "bridge",
    "bridge": "pk0",
    "isGateway": True,
    "ipMasq": True,
    "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"},
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("packaged") / "venv"
    subprocess.run([PYTHON, "-m", "venv", folder], check=True)
    install: list[str | Path] = [
        folder / "bin" / "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        WHEELS,
        "cni-harness",
    ]
    subprocess.run(install, env={"PATH": f"{folder}/bin"}, check=True)
    return folder


@pytest.fixture
def bin_dir(environment: Path, tmp_path: Path) -> Path:
    """Where `cni-harness install` of that environment puts the plugins."""
    folder = tmp_path / "bin"
    command: list[str | Path] = [
        environment / "bin" / "cni-harness",
        "install",
        "--bin-dir",
        folder,
        "--state-dir",
        tmp_path / "state",
    ]
    subprocess.run(command, env={}, check=True, capture_output=True)
    return folder


def executed(node: Node, bin_dir: Path, verb: str, netns: str) -> dict[str, object]:
    """Execute the bridge plugin with no environment but the protocol's, and return its output."""
    variables = {"CNI_COMMAND": verb, "CNI_CONTAINERID": "p", "CNI_IFNAME": "eth0", "CNI_NETNS": netns}
    variables["CNI_PATH"] = str(bin_dir)
    given = [f"{name}={value}" for name, value in variables.items()]
    bare = ["/usr/bin/env", "-i", *given, str(bin_dir / "bridge")]
    run = node.run(bare, stdin=json.dumps(NETWORK))
    printed: dict[str, object] = json.loads(run.stdout or "{}")
    return printed


def test_the_wheel_is_for_every_python_and_has_its_launcher() -> None:
    [wheel] = WHEELS.glob("cni_harness-*.whl")

    assert f"-py3-none-linux_{os.uname().machine}" in wheel.name
    assert "launch/_launcher" in zipfile.ZipFile(wheel).namelist()


def test_plugins_of_the_wheel_need_neither_compiler_nor_path_nor_home(node: Node, bin_dir: Path) -> None:
    pod, before = node.pod_namespace("pod"), node.state()

    result = executed(node, bin_dir, "ADD", pod)

    assert result["ips"] == [{"address": "192.0.2.2/24", "gateway": "192.0.2.1", "interface": 2}]
    [eth0] = node.ip("address", "show", "dev", "eth0", netns=pod)
    assert [address["local"] for address in eth0["addr_info"] if address["family"] == "inet"] == ["192.0.2.2"]
    assert executed(node, bin_dir, "DEL", pod) == {}
    node.assert_same_state(before, ignore=["node/*/*pk0*", "node/sysctl/*", "files/*"])
    assert not (node.var_lib_cni / "networks" / "packaged" / "192.0.2.2").exists()


def test_what_was_installed_is_all_there_is(environment: Path, bin_dir: Path) -> None:
    """Without the checkout: what runs is the wheel's."""
    where = "import harness, sys; print(harness.__file__)"
    python = environment / "bin" / "python"
    run = subprocess.run([python, "-I", "-c", where], env={}, capture_output=True, text=True, check=True)

    assert Path(run.stdout.strip()).is_relative_to(environment)
    assert (bin_dir / "bridge").read_bytes()[:4] == b"\x7fELF"
