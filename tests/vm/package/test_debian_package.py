"""The Debian package on a clean machine with systemd and Debian's containerd: from its installation to its end."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from launch import PLUGINS
from launch.installation import DEFAULT_SOCKET
from tests.debian_package import BIN_DIR, REMOVE, built_package, downgrades, files, install, older_package, version
from tests.nodes import BARE_PATH, HANG, until
from tests.runtime.oci import PAUSE, pause_archive

CONTAINERD = Path("/run/containerd/containerd.sock")
UNITS = ("cni-harness.socket", "cni-harness.service")


def run(command: Sequence[str], *, code: int = 0) -> str:
    """Run a command on this machine; return what it printed. Raises AssertionError with all of it for another code."""
    environment = {"PATH": BARE_PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    ran = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=HANG, check=False)
    assert ran.returncode == code, f"{command} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout if code == 0 else ran.stdout + ran.stderr


def states(what: str) -> list[str]:
    """A property of both units, as systemd has it."""
    return run(["systemctl", "show", f"--property={what}", "--value", *UNITS]).split()


def refuse_downgrade(folder: Path) -> None:
    """Downgrade to a version that cannot read the record of a pod, by dpkg and by apt, and then without the pod."""
    older, installed = older_package(folder), version(run)
    run(["cni-harness", "add", "bare"])
    by_dpkg, by_apt = downgrades(older)
    for command, code in ((by_dpkg, 2), (by_apt, 100)):
        assert "  cni-harness del -n default bare" in run(command, code=code).splitlines()
    assert version(run) == installed
    run(["cni-harness", "check", "bare"])
    run(["cni-harness", "del", "bare"])
    run(["dpkg", "--no-act", *by_dpkg[1:]])


@pytest.mark.time_limit(1500, "apt and containerd, on an emulated processor that shares two with three machines")
def test_a_pod_by_debians_containerd_and_no_trace_after_purge(tmp_path: Path) -> None:
    if os.environ.get("CNI_HARNESS_TEST_MACHINE") != "package":
        pytest.skip("this machine is not there to be changed; `make test-vm` makes one that is")
    from tests.runtime.cri import Cri

    before = files(run)
    run(install(built_package()))
    assert {path.name for path in Path(BIN_DIR).iterdir()} == set(PLUGINS)
    assert states("ActiveState") == ["active", "inactive"]
    assert run(["systemctl", "is-enabled", UNITS[0]]) == "enabled\n"
    run(["cni-harness", "install", f"--bin-dir={BIN_DIR}", "--conf"])
    # It brought a list, and no units beside those of the package.
    assert not any(Path("/etc/systemd/system", name).exists() for name in UNITS)

    until(CONTAINERD.is_socket)
    cri = Cri(CONTAINERD, cgroup_parent="/packaged")
    until(cri.is_ready)
    run(["ctr", "--namespace", "k8s.io", "images", "import", str(pause_archive(tmp_path))])
    [wanted] = re.findall(r'^ *sandbox_image = "(.+)"$', run(["containerd", "config", "dump"]), re.MULTILINE)
    run(["ctr", "--namespace", "k8s.io", "images", "tag", "--force", PAUSE, wanted])
    until(lambda: cri.has_image(wanted))
    pod = cri.run_pod("one")
    assert cri.addresses(pod) == ["10.86.0.2", "fd0d:6e1b:8b5c::2"]
    run(["ping", "-c", "1", "-W", "5", "10.86.0.2"])
    assert states("ActiveState") == ["active", "active"]
    cri.stop_pod(pod.id)
    cri.remove_pod(pod.id)

    refuse_downgrade(tmp_path)
    run(REMOVE)
    assert files(run) == before
    assert states("LoadState") == ["not-found", "not-found"]
    assert run(["systemctl", "--failed", "--no-legend", "--plain"]) == ""
    assert not Path(DEFAULT_SOCKET).parent.exists()
