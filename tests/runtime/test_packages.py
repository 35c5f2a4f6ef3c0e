"""The wheel, in an environment that has nothing but Debian's own Python: no compiler, no PATH, no HOME."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.cli import ROOT, VERSION
from tests.nodes import Node

PYTHON = "/usr/bin/python3"
WHEELS = ROOT / "build" / "wheels"
"""The project's wheel and those of what it needs; `make test-runtimes` puts them there, since tests have no network."""
EMULATORS = {"x86_64": "qemu-x86_64-static", "aarch64": "qemu-aarch64-static"}
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


def test_wheels_are_for_every_python_and_for_each_kind_of_machine() -> None:
    names = {wheel.name.removeprefix(f"cni_harness-{VERSION}-") for wheel in WHEELS.glob("cni_harness-*.whl")}

    assert names == {
        "py3-none-manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
        "py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
    }


@pytest.mark.parametrize("machine", EMULATORS)
def test_the_launcher_of_a_wheel_runs_on_its_kind_of_machine(tmp_path: Path, machine: str) -> None:
    [wheel] = WHEELS.glob(f"cni_harness-*_{machine}.whl")
    launcher = Path(zipfile.ZipFile(wheel).extract("launch/_launcher", tmp_path))
    launcher.chmod(0o755)

    ran = subprocess.run([EMULATORS[machine], launcher], env={}, capture_output=True, text=True, check=False)

    # Installed it would have its settings.
    assert (ran.returncode, ran.stdout) == (121, "")
    assert ran.stderr == "_launcher: `cni-harness install` makes plugins of this\n"


@pytest.mark.parametrize("machine", EMULATORS)
def test_the_launcher_of_a_wheel_wants_no_library(tmp_path: Path, machine: str) -> None:
    """Its wheel says that it runs with any C library."""
    [wheel] = WHEELS.glob(f"cni_harness-*_{machine}.whl")
    launcher = zipfile.ZipFile(wheel).extract("launch/_launcher", tmp_path)

    headers = subprocess.run(["readelf", "--program-headers", launcher], capture_output=True, text=True, check=True)

    assert " LOAD " in headers.stdout
    assert " INTERP " not in headers.stdout


def test_plugins_of_the_wheel_need_neither_compiler_nor_path_nor_home(node: Node, bin_dir: Path) -> None:
    pod, before = node.pod_namespace("pod"), node.state()

    result = executed(node, bin_dir, "ADD", pod)

    assert result["ips"] == [{"address": "192.0.2.2/24", "gateway": "192.0.2.1", "interface": 2}]
    [eth0] = node.ip("address", "show", "dev", "eth0", netns=pod)
    assert [address["local"] for address in eth0["addr_info"] if address["family"] == "inet"] == ["192.0.2.2"]
    assert executed(node, bin_dir, "DEL", pod) == {}
    node.assert_same_state(before, ignore=["node/*/*pk0*", "node/sysctl/*", "files/*"])
    assert not (node.var_lib_cni / "networks" / "packaged" / "192.0.2.2").exists()


def test_installed_wheel_runs_without_the_checkout(environment: Path, bin_dir: Path) -> None:
    """Without the checkout: what runs is the wheel's."""
    where = "import harness, sys; print(harness.__file__)"
    python = environment / "bin" / "python"
    run = subprocess.run([python, "-I", "-c", where], env={}, capture_output=True, text=True, check=True)

    assert Path(run.stdout.strip()).is_relative_to(environment)
    assert (bin_dir / "bridge").read_bytes()[:4] == b"\x7fELF"
