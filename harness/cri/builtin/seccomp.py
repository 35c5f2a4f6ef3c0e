"""Seccomp profiles of containers with an image, as the OCI runtime reads them (runtime-spec, config-linux.md).

The default profile is the one that Podman and Buildah use on the same machine. Its format is Docker's, with conditions
for each rule. A profile of the type Localhost is a file in the OCI runtime's format.
"""

import json
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from harness.cri.messages import ProfileType, SecurityProfile
from harness.cri.service import RuntimeServiceError

DEFAULT_FILE: Final = Path("/usr/share/containers/seccomp.json")
_PACKAGE: Final = "golang-github-containers-common"
# Names of the same machine: uname(2), Go, libseccomp.
_ARCHITECTURES: Final = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
_KEPT: Final = ("names", "action", "errnoRet", "args")


def seccomp_profile(profile: SecurityProfile, capabilities: Collection[str]) -> dict[str, Any] | None:
    """Return `linux.seccomp` of a bundle, None for no filter; `capabilities` are names without CAP_.

    Raises RuntimeServiceError if the file is missing or broken.
    """
    if profile.profile_type is ProfileType.UNCONFINED:
        return None
    if profile.profile_type is ProfileType.LOCALHOST:
        return _read(Path(profile.localhost_ref), f'cannot load seccomp profile "{profile.localhost_ref}"')
    hint = f"no seccomp profile RuntimeDefault (Debian: apt-get install {_PACKAGE})"
    document = _read(DEFAULT_FILE, hint)
    try:
        return _resolved(document, {f"CAP_{name}" for name in capabilities})
    except (KeyError, TypeError, AttributeError) as error:
        raise RuntimeServiceError(f"{hint}: {DEFAULT_FILE}: {error!r}") from None


def _read(path: Path, failure: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RuntimeServiceError(f"{failure}: {error}") from None
    return document


def _resolved(document: dict[str, Any], capabilities: Collection[str]) -> dict[str, Any]:
    """Return a profile in Docker's format with the rules that hold for this machine and these capabilities."""
    name, own = _ARCHITECTURES[platform.machine()]
    architectures = next(
        [own, *(each.get("subArchitectures") or [])] for each in document["archMap"] if each["architecture"] == own
    )
    rules = [
        {key: rule[key] for key in _KEPT if rule.get(key) is not None}
        for rule in document["syscalls"]
        if _holds(rule, name, capabilities)
    ]
    profile = {"defaultAction": document["defaultAction"], "architectures": architectures, "syscalls": rules}
    if "defaultErrnoRet" in document:
        profile["defaultErrnoRet"] = document["defaultErrnoRet"]
    return profile


def _holds(rule: dict[str, Any], architecture: str, capabilities: Collection[str]) -> bool:
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    if architecture in unwanted.get("arches", ()) or set(unwanted.get("caps", ())) & set(capabilities):
        return False
    return architecture in wanted.get("arches", [architecture]) and set(wanted.get("caps", ())) <= set(capabilities)
