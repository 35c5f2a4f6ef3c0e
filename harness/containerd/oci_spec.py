"""`config.json` of an OCI bundle, with containerd's defaults (pkg/oci/spec.go and mounts.go of containerd).

A container without limits gets no control group of its own if the machine forbids that
(harness.containerd.control_groups). No AppArmor profile is loaded, so only one of the type Localhost is applied.

The default profile of seccomp is the one that Podman and Buildah use on the same machine. Its format is Docker's, with
conditions for each rule. A profile of the type Localhost is a file in the OCI runtime's format (config-linux.md).
"""

import json
import os
import platform
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from harness.containerd.process_settings import ProcessSettings
from harness.containerd.sandbox_record import SandboxView
from harness.cri.hidden_paths import MASKED_PATHS, READONLY_PATHS
from harness.cri.messages import ContainerConfig, Mount, NamespaceMode, ProfileType, SecurityProfile
from harness.cri.service import RuntimeServiceError

_NAMESPACE_TYPES: Final = {"net": "network", "ipc": "ipc", "uts": "uts", "pid": "pid"}
_CGROUP2: Final = Path("/sys/fs/cgroup/cgroup.controllers")

_SAFE: Final = ["nosuid", "noexec", "nodev"]
_SHM: Final = ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]
_DEFAULT_MOUNTS: Final = (
    ("/proc", "proc", _SAFE),
    ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),  # the group tty
    ("/dev/shm", "tmpfs", _SHM),  # noqa: S108 -- the container's
    ("/dev/mqueue", "mqueue", _SAFE),
    ("/sys", "sysfs", [*_SAFE, "ro"]),
    ("/sys/fs/cgroup", "cgroup", [*_SAFE, "relatime", "ro"]),
)
_NODE_FILES: Final = ("/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/fd")  # noqa: S108 -- folders that are left out

DEFAULT_PROFILE: Final = Path("/usr/share/containers/seccomp.json")
_PROFILE_PACKAGE: Final = "golang-github-containers-common"
# Names of the same machine: uname(2), Go, libseccomp.
_ARCHITECTURES: Final = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
_KEPT_KEYS: Final = ("names", "action", "errnoRet", "args")


def oci_spec(
    config: ContainerConfig, sandbox: SandboxView, process: ProcessSettings, mounts: list[Mount], *, control_group: str
) -> dict[str, Any]:
    """Return the document (runtime-spec, config.md); `mounts` are all but those of the kernel's file systems.

    An empty `control_group` is none, then there are no limits. Raises RuntimeServiceError, OSError.
    """
    security = config.security
    linux: dict[str, Any] = {"namespaces": _namespaces(sandbox, privileged=security.privileged)}
    if control_group:
        linux["cgroupsPath"] = control_group
        linux["resources"] = _resources(config)
    if security.privileged:
        linux["devices"] = _node_devices()
    else:
        linux |= {"maskedPaths": MASKED_PATHS, "readonlyPaths": READONLY_PATHS}
        if seccomp := seccomp_profile(security.seccomp, process.capabilities):
            linux["seccomp"] = seccomp
    return {
        "ociVersion": "1.0.2",
        "process": process_document(config, process),
        "root": {"path": "rootfs", "readonly": security.readonly_rootfs},
        "mounts": _mounts(config, mounts),
        "linux": linux,
        "annotations": _annotations(config, sandbox),
    }


def process_document(config: ContainerConfig, process: ProcessSettings) -> dict[str, Any]:
    """Return `process` of the document, which is also that of a container without an image."""
    names = sorted(f"CAP_{name}" for name in process.capabilities)
    apparmor = None if config.security.privileged else config.security.apparmor
    return {
        "terminal": config.tty,
        "user": {
            "uid": process.user.uid,
            "gid": process.user.gid,
            "additionalGids": list(process.user.groups),
        },
        "args": process.arguments,
        "env": [f"{name}={value}" for name, value in process.environment.items()],
        "cwd": process.folder,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), names),
        "noNewPrivileges": config.security.no_new_privs,
        "oomScoreAdj": config.resources.oom_score_adj,
        # crun fails for an empty name, on a machine without AppArmor.
        **({"apparmorProfile": apparmor.localhost_ref} if apparmor and apparmor.localhost_ref else {}),
    }


def _namespaces(sandbox: SandboxView, *, privileged: bool) -> list[dict[str, str]]:
    joined = [{"type": _NAMESPACE_TYPES[name], "path": path} for name, path in sandbox.namespaces().items()]
    own = [{"type": "mount"}]
    if sandbox.config.pid is NamespaceMode.CONTAINER:
        own.append({"type": "pid"})
    if _CGROUP2.exists() and not privileged:
        own.append({"type": "cgroup"})
    return joined + own


def _mounts(config: ContainerConfig, asked: list[Mount]) -> list[dict[str, Any]]:
    taken = {mount.container_path.rstrip("/") for mount in asked}
    own = [
        {"destination": target, "type": kind, "source": kind, "options": _options(options, config)}
        for target, kind, options in _DEFAULT_MOUNTS
        if target not in taken and not ("/dev" in taken and target.startswith("/dev/"))
    ]
    return own + [_bind(mount) for mount in asked]


def _options(options: list[str], config: ContainerConfig) -> list[str]:
    if config.security.privileged:
        return [option for option in options if option != "ro"]
    return options


def _bind(mount: Mount) -> dict[str, Any]:
    """Return a bind mount; a source that is a symbolic link becomes its target, as in containerd."""
    return {
        "destination": mount.container_path,
        "type": "bind",
        "source": os.path.realpath(mount.host_path),
        "options": [
            "rbind",
            "rprivate" if mount.propagation == "private" else mount.propagation,
            "rro" if mount.recursive_read_only else "ro" if mount.readonly else "rw",
        ],
    }


def _resources(config: ContainerConfig) -> dict[str, Any]:
    wanted = config.resources
    cpu = {"period": wanted.cpu_period, "quota": wanted.cpu_quota, "shares": wanted.cpu_shares}
    memory = {"limit": wanted.memory_limit_in_bytes}
    resources: dict[str, Any] = {
        "cpu": {name: value for name, value in cpu.items() if value},
        "memory": {name: value for name, value in memory.items() if value},
        # It names no device, so it is for all; the OCI runtime allows /dev/null and its like by itself.
        "devices": [{"allow": config.security.privileged, "access": "rwm"}],
    }
    return {name: value for name, value in resources.items() if value}


def _node_devices() -> list[dict[str, Any]]:
    """Return all devices of the node, for a privileged container."""
    devices = []
    for folder, folders, names in os.walk("/dev"):
        folders[:] = [name for name in folders if f"{folder}/{name}" not in _NODE_FILES]
        for name in names:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            kind = "c" if stat.S_ISCHR(status.st_mode) else "b" if stat.S_ISBLK(status.st_mode) else ""
            if kind and path != "/dev/console":
                devices.append(
                    {
                        "path": path,
                        "type": kind,
                        "major": os.major(status.st_rdev),
                        "minor": os.minor(status.st_rdev),
                        "fileMode": stat.S_IMODE(status.st_mode),
                        "uid": status.st_uid,
                        "gid": status.st_gid,
                    }
                )
    return devices


def _annotations(config: ContainerConfig, sandbox: SandboxView) -> dict[str, str]:
    pod = sandbox.config.metadata
    prefix = "io.kubernetes.cri"
    return {
        f"{prefix}.container-type": "container",
        f"{prefix}.container-name": config.metadata.name,
        f"{prefix}.image-name": config.image,
        f"{prefix}.sandbox-id": sandbox.id,
        f"{prefix}.sandbox-namespace": pod.namespace,
        f"{prefix}.sandbox-uid": pod.uid,
        f"{prefix}.sandbox-name": pod.name,
    }


def seccomp_profile(profile: SecurityProfile, capabilities: Collection[str]) -> dict[str, Any] | None:
    """Return `linux.seccomp` of a bundle, None for no filter; `capabilities` are names without CAP_.

    Raises RuntimeServiceError if the file is missing or broken.
    """
    if profile.profile_type is ProfileType.UNCONFINED:
        return None
    if profile.profile_type is ProfileType.LOCALHOST:
        return _read_profile(Path(profile.localhost_ref), f'cannot load seccomp profile "{profile.localhost_ref}"')
    hint = f"no seccomp profile RuntimeDefault (Debian: apt-get install {_PROFILE_PACKAGE})"
    document = _read_profile(DEFAULT_PROFILE, hint)
    try:
        return _resolved_profile(document, {f"CAP_{name}" for name in capabilities})
    except (KeyError, TypeError, AttributeError) as error:
        raise RuntimeServiceError(f"{hint}: {DEFAULT_PROFILE}: {error!r}") from None


def _read_profile(path: Path, failure: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RuntimeServiceError(f"{failure}: {error}") from None
    return document


def _resolved_profile(document: dict[str, Any], capabilities: Collection[str]) -> dict[str, Any]:
    """Return a profile in Docker's format with the rules that hold for this machine and these capabilities."""
    name, own = _ARCHITECTURES[platform.machine()]
    architectures = next(
        [own, *(each.get("subArchitectures") or [])] for each in document["archMap"] if each["architecture"] == own
    )
    rules = [
        {key: rule[key] for key in _KEPT_KEYS if rule.get(key) is not None}
        for rule in document["syscalls"]
        if _rule_holds(rule, name, capabilities)
    ]
    profile = {"defaultAction": document["defaultAction"], "architectures": architectures, "syscalls": rules}
    if "defaultErrnoRet" in document:
        profile["defaultErrnoRet"] = document["defaultErrnoRet"]
    return profile


def _rule_holds(rule: dict[str, Any], architecture: str, capabilities: Collection[str]) -> bool:
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    if architecture in unwanted.get("arches", ()) or set(unwanted.get("caps", ())) & set(capabilities):
        return False
    return architecture in wanted.get("arches", [architecture]) and set(wanted.get("caps", ())) <= set(capabilities)
