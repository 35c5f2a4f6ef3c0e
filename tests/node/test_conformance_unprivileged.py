"""`cni-harness conformance` by a user who is not root: in a user namespace, or refused in the kernel's words."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harness.conformance.checks import all_checks
from harness.runtime.user_namespace import refusing_settings
from netlink.own_namespaces import mount_points
from tests.cli import REFERENCE_BIN_DIR, ROOT, SYSTEM_PYTHON, bridge_network

pytestmark = pytest.mark.sudo

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
STEP = 20
"""Every 20th check is run, all with --all-rows."""


class Machine:
    """A folder that everybody may read, with the program as one file: the checkout may be where only root can go."""

    def __init__(self, folder: Path, one_file: Path) -> None:
        self.folder = folder
        self.program = Path(copy(one_file, folder))
        self.conf = folder / "net.conflist"
        self.conf.write_text(json.dumps({**bridge_network("net", ipMasq=True), "cniVersions": ["1.0.0", "1.1.0"]}))

    def run(self, *words: str | Path, prefix: Sequence[str] = AS_NOBODY) -> subprocess.CompletedProcess[str]:
        """Run the command line as nobody, whose home folder cannot exist."""
        environ = {"PATH": os.environ["PATH"], "HOME": "/dev/null/home"}
        command = [*prefix, SYSTEM_PYTHON, "-I", "-S", self.program, "conformance", *words, "--conf", self.conf]
        return subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture
def machine(one_file: Path, shared_folder: Path) -> Machine:
    return Machine(shared_folder, one_file)


@pytest.fixture
def _allowed() -> None:
    command = [*AS_NOBODY, "unshare", "--user", "--map-root-user", "--net", "ip", "link", "set", "lo", "up"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine's kernel gives its users no user namespaces: {tried.stderr.strip()}")


def document(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.time_limit(600, "it runs the suite twice")
@pytest.mark.slow("the suite twice; the message without privileges is in make test")
@pytest.mark.usefixtures("_allowed")
def test_our_plugins_pass_as_they_do_for_root(machine: Machine, pytestconfig: pytest.Config) -> None:
    step = 1 if pytestconfig.getoption("all_rows") else STEP
    named = [f"--check={check.id}" for check in all_checks()[::step]]
    run = machine.run("--output=json", *named)

    assert run.returncode == 0, run.stdout
    assert "Without root: the nodes are in a user namespace." in run.stderr
    found = document(run)
    assert [each for each in found["checks"] if each["outcome"] in {"fail", "error"}] == []
    passed = [each["plugin"] for each in found["checks"] if each["outcome"] == "pass"]
    assert min(passed.count("bridge"), passed.count("host-local")) >= 100 // step, passed


@pytest.mark.time_limit(600, "it runs the suite twice")
@pytest.mark.slow("the suite twice; the message without privileges is in make test")
@pytest.mark.usefixtures("_allowed")
def test_the_reference_gets_the_findings_that_it_gets_for_root(machine: Machine) -> None:
    named = [f"--check={name}" for name in ("del-netns-gone", "ip-masq", "killed-add")]
    words = (f"--bin-dir={REFERENCE_BIN_DIR}", "--output=json", "--plugin=bridge", *named)
    found = [document(machine.run(*words, prefix=prefix))["checks"] for prefix in (AS_NOBODY, ())]

    by_nobody, by_root = ({each["id"]: (each["outcome"], each["expected"]) for each in one} for one in found)
    assert by_nobody == by_root
    assert by_nobody["ip-masq"] == ("pass", "")
    assert by_nobody["del-netns-gone"] == ("fail", "a node as it was before, after DEL without the namespace")


@pytest.mark.usefixtures("_allowed")
def test_plugins_see_nothing_of_the_machine_that_they_could_change(machine: Machine) -> None:
    seen = machine.folder / "seen"
    seen.touch()
    os.chown(seen, NOBODY, NOBODY)
    looking = machine.folder / "look"
    marks = [f"/{folder}/cni-harness-test-mark" for folder in ("run", "var/lib", "etc", "var", "usr/local", "opt")]
    looking.write_text(
        f"#!/bin/sh\nexec >>{seen}\nid -u; cat /proc/self/uid_map; readlink /proc/self/ns/net\n"
        f"ls /run /var/lib/cni /var/lib/cni-harness; touch {' '.join(marks)} 2>&1 || :\n"
    )
    looking.chmod(0o755)
    run = machine.run("--check=add-prints-result", "--plugin=bridge", f"--prepare={looking}")

    assert run.returncode == 0, run.stderr
    user, mapped, netns, *listed = seen.read_text().splitlines()
    assert (user, mapped.split()) == ("0", ["0", str(NOBODY), "1"])
    assert netns != str(Path("/proc/self/ns/net").readlink())
    assert {"netns", "lock"} <= set(listed)
    assert "dbus" not in listed
    assert not [mark for mark in marks if Path(mark).exists()]
    # The kernel refuses overlays of folders with mounts of the machine in them.
    refused = [line for line in listed if line.startswith("touch: ")]
    has_mounts = [mark for mark in marks if any(each.startswith(f"{Path(mark).parent}/") for each in mount_points())]
    assert all(any(f"'{mark}': Read-only file system" in line for mark in has_mounts) for line in refused), refused


@pytest.mark.usefixtures("_allowed")
def test_a_mount_below_a_folder_that_the_user_cannot_enter_is_left_out(machine: Machine) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:  # of mode 0700
        (memory := Path(folder, "memory")).mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", memory], check=True)
        try:
            run = machine.run("--check=add-prints-result", "--plugin=bridge")
        finally:
            subprocess.run(["umount", memory], check=True)

    assert run.returncode == 0, run.stderr


@pytest.mark.slow("the suite once more; the message without privileges is in make test")
@pytest.mark.usefixtures("_allowed")
def test_a_plugin_that_needs_a_parameter_of_the_machine_is_not_blamed(machine: Machine) -> None:
    plugin = machine.folder / "bridge"
    plugin.write_text(
        '#!/bin/sh\nif [ "$CNI_COMMAND" = ADD ] && ! said=$( (: >/proc/sys/kernel/panic) 2>&1 ); then\n'
        """    printf '{"cniVersion":"1.0.0","code":5,"msg":"panic: %s"}' "${said##*: }"; exit 1\nfi\n"""
        f"exec {REFERENCE_BIN_DIR}/bridge\n"
    )
    plugin.chmod(0o755)
    bin_dir = f"--bin-dir={machine.folder}:{REFERENCE_BIN_DIR}"
    named = ("--plugin=bridge", "--profile=interface", "--check=add-prints-result", "--check=del-twice")
    by_nobody, by_root = (machine.run(bin_dir, "--output=json", *named, prefix=prefix) for prefix in (AS_NOBODY, ()))

    outcomes = {each["id"]: (each["outcome"], each["detail"]) for each in document(by_nobody)["checks"]}
    assert by_nobody.returncode == 1
    assert outcomes["del-twice"][0] == "not examined"
    assert outcomes["add-prints-result"][0] == "error"
    assert outcomes["add-prints-result"][1].startswith("needs real root: in a user namespace it says ")
    assert "panic: Permission denied" in outcomes["add-prints-result"][1]
    assert {each["outcome"] for each in document(by_root)["checks"]} == {"pass"}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("words", [(), ("matrix", f"--bin-dir={REFERENCE_BIN_DIR}")])
def test_the_message_names_the_setting_that_refuses_and_offers_sudo(machine: Machine, words: Sequence[str]) -> None:
    # Each user namespace has this parameter, so the machine's own stays.
    forbid = "echo 0 >/proc/sys/user/max_user_namespaces"
    without = "setpriv --bounding-set=-all --inh-caps=-all"
    prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{forbid} && exec {without} "$@"', "sh")
    run = machine.run(*words, prefix=prefix)

    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert "needs root (sudo), or a user namespace, which this kernel refuses: " in run.stderr
    assert run.stderr.endswith(": user.max_user_namespaces is 0\n")


@pytest.mark.parametrize(
    ("values", "refusing"),
    [
        ({"kernel/apparmor_restrict_unprivileged_userns": "1"}, ["kernel.apparmor_restrict_unprivileged_userns is 1"]),
        ({"kernel/apparmor_restrict_unprivileged_userns": "0", "user/max_user_namespaces": "96365"}, []),
        ({"kernel/unprivileged_userns_clone": "0"}, ["kernel.unprivileged_userns_clone is 0"]),
        ({}, []),
    ],
)
def test_settings_that_refuse(values: dict[str, str], refusing: list[str]) -> None:
    def read(key: str) -> str:
        if key not in values:
            raise FileNotFoundError(key)
        return values[key]

    assert refusing_settings(read) == refusing


@pytest.mark.parametrize(
    ("prefix", "environ", "privileges"),
    [
        (["unshare", "--user", "--map-root-user"], {}, "user namespace"),
        (["env"], {"SUDO_UID": "1000"}, "sudo"),
        (["env"], {}, "root"),
    ],
)
def test_privileges_of_a_run_are_named(prefix: list[str], environ: dict[str, str], privileges: str) -> None:
    program = "from harness.conformance.engine.examination import privileges; print(privileges())"
    command = [*prefix, sys.executable, "-c", program]
    ran = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True)

    assert ran.stdout == f"{privileges}\n"
