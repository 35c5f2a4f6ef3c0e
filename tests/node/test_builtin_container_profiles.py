"""Profiles of seccomp and AppArmor under the built-in runtime; the kernel tells a process's own in /proc."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import oci_spec
from harness.containerd.oci_spec import seccomp_profile
from harness.cri.messages import ContainerSecurity, ProfileType, SecurityProfile
from harness.cri.service import RuntimeServiceError
from tests.builtin_containers import Pod
from tests.markers import IMAGES

pytestmark = pytest.mark.sudo
with_image = pytest.mark.parametrize("make_pod", [pytest.param("image", marks=IMAGES)], indirect=True)
without_image = pytest.mark.parametrize("make_pod", ["node-files"], indirect=True)

_FILTERED: int = 2
_DEFAULT = SecurityProfile(profile_type=ProfileType.RUNTIME_DEFAULT)
_STATUS = ("awk", "/^Seccomp:/ { print $2 }", "/proc/self/status")
_NO_SWAP = ("sh", "-c", "swapoff /dev/null 2>&1 || :")


def _security(profile: SecurityProfile, **settings: object) -> ContainerSecurity:
    return ContainerSecurity(run_as_user=0, seccomp=profile, **settings)  # type: ignore[arg-type]  # of this record


@with_image
def test_no_profile_means_no_filter(pod: Pod) -> None:
    adds = ContainerSecurity(run_as_user=0, add_capabilities=["SYS_ADMIN"])

    assert pod.output(*_STATUS) == "0"
    assert "Invalid argument" in pod.output(*_NO_SWAP, name="other", security=adds)


@with_image
def test_the_default_profile_forbids_calls_in_spite_of_the_capability(pod: Pod) -> None:
    adds = _security(_DEFAULT, add_capabilities=["SYS_ADMIN"])

    assert pod.output(*_STATUS, security=_security(_DEFAULT)) == str(_FILTERED)
    assert "not permitted" in pod.output(*_NO_SWAP, name="other", security=adds)


@with_image
def test_the_default_profile_allows_calls_that_come_with_a_capability(pod: Pod) -> None:
    adds = _security(_DEFAULT, add_capabilities=["SYS_ADMIN"])

    assert pod.output("sh", "-c", "hostname other && hostname", security=adds) == "other"
    without, within = (_allowed(seccomp_profile(_DEFAULT, capabilities)) for capabilities in ((), ("SYS_ADMIN",)))
    assert "sethostname" in within - without
    assert not without - within


@with_image
def test_a_profile_of_the_node(pod: Pod, tmp_path: Path) -> None:
    file = tmp_path / "no-mkdir.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    profile = SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref=str(file))

    told = pod.output("sh", "-c", "mkdir /x 2>&1 || :", security=_security(profile))

    assert "No space left" in told


@with_image
def test_a_privileged_container_has_no_filter(pod: Pod) -> None:
    assert pod.output(*_STATUS, security=_security(_DEFAULT, privileged=True)) == "0"


@with_image
def test_missing_security_profile_is_a_start_error(pod: Pod, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oci_spec, "DEFAULT_PROFILE", tmp_path / "absent")
    of_node = SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref="/absent.json")

    for name, profile, words in (("a", _DEFAULT, "apt-get install"), ("b", of_node, '"/absent.json"')):
        container = pod.container("true", name=name, security=_security(profile))
        with pytest.raises(RuntimeServiceError, match=words):
            pod.containers.start_container(container)
        assert pod.containers.container_status(container).reason == "StartError"


@without_image
@pytest.mark.parametrize("key", ["seccomp", "apparmor"])
def test_without_an_image_a_profile_of_the_node_is_refused(pod: Pod, key: str) -> None:
    profile = SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref="mine")
    container = pod.container("true", security=ContainerSecurity(**{key: profile}))  # type: ignore[arg-type]  # one of two

    with pytest.raises(RuntimeServiceError, match='profile "mine": a container without an image gets none'):
        pod.containers.start_container(container)


def _allowed(profile: dict[str, Any] | None) -> set[str]:
    assert profile is not None
    rules = [rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    return {name for rule in rules for name in rule["names"]}
