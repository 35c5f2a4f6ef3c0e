"""Files of the kernel that containers of an image do not see, or may not write: a look from inside."""

from pathlib import Path

import pytest

from harness.cri.hidden_paths import MASKED_PATHS, READONLY_PATHS
from harness.cri.messages import ContainerSecurity
from tests.builtin_containers import Pod
from tests.markers import IMAGES

pytestmark = [pytest.mark.sudo, IMAGES, pytest.mark.parametrize("make_pod", ["image"], indirect=True)]

_ROOT = ContainerSecurity(run_as_user=0)
_PRIVILEGED = ContainerSecurity(run_as_user=0, privileged=True)
# An empty file is the null device here; a folder has no entries.
_LOOK = 'for path; do test -d $path && set -- $(ls $path) || set -- $(stat -c %t:%T $path); echo "$path $*"; done'
# Opened for writing, and nothing is written: a failed test would change the machine.
_TRY = 'for path; do (: >> $path) 2> /dev/null && echo "$path is writable"; done; :'
_FILES = ("/proc/sysrq-trigger", "/proc/sys/kernel/domainname", "/proc/sys/net/ipv4/ip_forward", "/proc/irq")


def _seen(pod: Pod, security: ContainerSecurity, name: str = "app") -> dict[str, str]:
    """Major and minor number of each masked file, and the entries of each masked folder, which exist on the node."""
    paths = [path for path in MASKED_PATHS if Path(path).exists()]
    lines = pod.output("sh", "-c", _LOOK, "sh", *paths, security=security, name=name).splitlines()
    return {path: rest for path, _, rest in (line.partition(" ") for line in lines)}


def _writable(pod: Pod, security: ContainerSecurity, name: str = "app") -> set[str]:
    existing = [path for path in _FILES if Path(path).is_file()]
    told = pod.output("sh", "-c", _TRY, "sh", *existing, security=security, name=name)
    return {line.split()[0] for line in told.splitlines()}


def test_masked_paths_are_empty_for_a_container(pod: Pod) -> None:
    found = _seen(pod, _ROOT)

    assert {"/proc/interrupts", "/sys/firmware"} <= found.keys()
    assert {path: seen for path, seen in found.items() if seen not in {"", "1:3"}} == {}
    files = [path for path in found if Path(path).is_file()]
    assert pod.output("cat", *files, name="reader", security=_ROOT) == ""


def test_masked_paths_are_there_for_a_privileged_container(pod: Pod) -> None:
    assert _seen(pod, _PRIVILEGED)["/proc/interrupts"] == "0:0"


def test_paths_of_the_kernel_are_read_only_for_a_container(pod: Pod) -> None:
    mounts = pod.output("cat", "/proc/self/mountinfo", security=_ROOT).splitlines()
    options = {line.split()[4]: line.split()[5].split(",") for line in mounts}

    assert _writable(pod, _ROOT, name="writer") == set()
    assert [path for path in READONLY_PATHS if Path(path).exists() and "ro" not in options.get(path, [])] == []


def test_paths_of_the_kernel_are_writable_for_a_privileged_container(pod: Pod) -> None:
    # A kernel may lack sysrq-trigger.
    assert {path for path in _FILES if Path(path).is_file()} == _writable(pod, _PRIVILEGED)
