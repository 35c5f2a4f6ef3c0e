"""The machines: tests of the kernel from this checkout, one provisioned as by `vagrant up`, one for the package."""

import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tools.vm.debian import OF_CONTAINERD, OF_RELEASES, debian_root, pack_checkout, pytest_folder, wheels
from tools.vm.former import former_packages
from tools.vm.initramfs import make_initramfs
from tools.vm.kernel import Kernel
from tools.vm.machine import Machine

BUILD: Final = Path(__file__).parents[2] / "build"

_CHECKOUT: Final = BUILD.parent
_CACHE: Final = BUILD / "vm" / "cache"
# They need a driver that small kernels lack, or network cards. Tests without such a need are in `make test-all` only.
_TESTS: Final = (
    *("vm/test_vrf", "node/test_dummy", "node/test_ipvlan", "node/test_vlan", "node/test_sublinks"),
    "node/test_agent_subnets",
    *(
        f"node/test_conf::test_a_list_gives_a_pod_its_network_and_takes_it_back[served-{each}-1.1.0]"
        for each in ("51-ipvlan", "52-vlan", "55-dummy", "65-vrf")
    ),
    *("vm/test_host_device_hardware", "vm/test_sctp"),
    *("vm/test_bridge_vlan", "vm/test_bridge_vlan_repair", "vm/test_machine_with_containers"),
    "node/test_bridge_keys::test_vlans_need_a_kernel_that_knows_them",
    "node/test_netlink_links::test_vlan_filtering_is_set_or_refused_by_name",
    "node/test_netlink_links::test_vlans_of_a_port_are_kept_or_refused_by_name",
)
# Netkit is in Linux from 6.7 on. The others pass on either kernel: here, so that both machines end at the same time.
_TESTS_OF_6_12: Final = ("node/test_netkit", "conformance/test_own_sublinks")
_CONFORMANCE: Final = ("vm/conformance/test_every_check",)
# Of the ways to execute a plugin the one through the server, which is bearable on an emulated processor.
_SELECTED: Final = "not direct and not reference"
_JOB_OF_SYSTEMD: Final = 'systemd.run="/bin/bash /vm/job" systemd.show_status=0'
# tests/vm/test_host_device_hardware.py knows them by their MAC addresses.
_NETWORK_CARDS: Final = {"52:54:00:00:00:01": "virtio-net-pci", "52:54:00:00:00:02": "e1000"}
_PYTEST: Final = ("--verbose", "--color=no", "--override-ini=timeout=600")


def _tests(kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """The host's root, with Debian's kernel: pytest runs from the host's environment."""
    return _testing("tests", _TESTS, kernel, arguments)._replace(network_cards=_NETWORK_CARDS)


def _tests_of_6_12(kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """The same with the newer kernel that Debian has for this release."""
    return _testing("tests-6.12", _TESTS_OF_6_12, kernel, arguments)


def _conformance(kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """Every check of the conformance suite, for the plugins whose links small kernels lack."""
    return _testing("conformance", _CONFORMANCE, kernel, arguments)


def _testing(name: str, tests: Sequence[str], kernel: Kernel, arguments: Sequence[str]) -> Machine:
    named = [each.partition("::") for each in tests]
    paths = [f"tests/{path}.py{separator}{test}" for path, separator, test in named]
    machine = _machine(name, kernel, Path("/"), "/bin/bash /vm/job")
    _write_job(machine, "tests.sh", sys.executable, str(_CHECKOUT), *_PYTEST, "-k", _SELECTED, *paths, *arguments)
    return machine


def _node(kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """A Debian of its own, booted by systemd."""
    machine = _machine("node", kernel, debian_root(_CACHE), "/sbin/init")
    shutil.copytree(wheels(_CACHE, _CHECKOUT), machine.exchange / "wheels")
    shutil.copytree(pytest_folder(_CACHE), machine.exchange / "pytest")
    pack_checkout(_CHECKOUT, machine.exchange / "checkout.tar")
    # Where the Vagrantfile has it.
    _write_job(machine, "node.sh", "/opt/cni-harness", *_PYTEST, "tests/vm/node", *arguments)
    return machine._replace(parameters=_JOB_OF_SYSTEMD)


def _package(kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """A Debian with its containerd, where nothing of the project is but the package: tests install and remove it."""
    machine = _machine("package", kernel, debian_root(_CACHE, *OF_CONTAINERD), "/sbin/init")
    project = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text())["project"]
    client = project["optional-dependencies"]["cri"]
    shutil.copytree(pytest_folder(_CACHE, *project["dependencies"], *client), machine.exchange / "pytest")
    [package] = BUILD.glob("cni-harness_*.deb")
    shutil.copy2(package, machine.exchange)
    pack_checkout(_CHECKOUT, machine.exchange / "checkout.tar")
    _write_job(machine, "package.sh", "/root/cni-harness", *_PYTEST, "tests/vm/package", *arguments)
    return machine._replace(parameters=_JOB_OF_SYSTEMD)


def _release(debian: str, python: str, kernel: Kernel, arguments: Sequence[str]) -> Machine:
    """A Debian where nothing of the project is: tests install each of its artefacts, use it and remove it."""
    machine = _machine(f"release-{debian}", kernel, debian_root(_CACHE, *OF_RELEASES, release=debian), "/sbin/init")
    required = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    shutil.copytree(pytest_folder(_CACHE, *required, python=python), machine.exchange / "pytest")
    artefacts = machine.exchange / "artefacts"
    shutil.copytree(wheels(_CACHE, _CHECKOUT, python=python), artefacts / "wheels")
    [wheel] = BUILD.glob("wheels/cni_harness-*x86_64.whl")
    shutil.copy2(wheel, artefacts / "wheels")
    for pattern in ("cni_harness-*.tar.gz", "cni-harness.pyz", "cni-harness_*.deb"):
        [artefact] = BUILD.glob(pattern)
        shutil.copy2(artefact, artefacts)
    shutil.copytree(former_packages(_CACHE, _CHECKOUT), artefacts / "former")
    pack_checkout(_CHECKOUT, machine.exchange / "checkout.tar")
    _write_job(machine, "release.sh", "/root/cni-harness", *_PYTEST, "tests/vm/release", *arguments)
    return machine._replace(parameters=_JOB_OF_SYSTEMD)


def _machine(name: str, kernel: Kernel, root: Path, command: str) -> Machine:
    folder = BUILD / "vm" / name
    shutil.rmtree(folder, ignore_errors=True)
    exchange = folder / "exchange"
    exchange.mkdir(parents=True)
    return Machine(
        name=name,
        kernel=kernel,
        initramfs=make_initramfs(kernel, folder, command),
        root=root,
        exchange=exchange,
        console=BUILD / "vm" / f"{name}.log",
    )


def _write_job(machine: Machine, script: str, *arguments: str) -> None:
    for name in (script, "debian.sh"):  # which the jobs of systemd source
        shutil.copy2(Path(__file__).with_name(name), machine.exchange)
    command = shlex.join(["bash", f"/vm/{script}", *arguments])
    (machine.exchange / "job").write_text(f"exec {command}\n")


MACHINES: Final[dict[str, Callable[[Kernel, Sequence[str]], Machine]]] = {
    "tests": _tests,
    "tests-6.12": _tests_of_6_12,
    "node": _node,
    "package": _package,
    "conformance": _conformance,
    "release-bookworm": partial(_release, "bookworm", "3.11"),
    "release-trixie": partial(_release, "trixie", "3.13"),
}
"""The function that makes each machine, given further arguments of pytest."""

ON_REQUEST: Final = {"conformance", "release-bookworm", "release-trixie"}
"""Machines that take more than an hour, and those of `make release-check`: they run only if they are named."""

KERNELS: Final = {"tests-6.12": "linux-image-6.12-amd64", "release-trixie": "linux-image-6.12-amd64"}
"""Packages of kernels, for machines with another kernel than the release's own."""
