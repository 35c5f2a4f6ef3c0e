"""The process of a container: command, environment, folder, user and capabilities, of the request and of the image."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from harness.containerd.images import ImageConfig
from harness.cri.messages import ContainerConfig, ContainerSecurity
from harness.cri.service import RuntimeServiceError
from harness.files import read_regular

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LARGEST: Final = 1 << 20  # bytes of /etc/passwd and /etc/group of an image
_PASSWD_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4

_CAPABILITIES: Final = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
"""All capabilities by number (include/uapi/linux/capability.h)."""

_DEFAULT_CAPABILITIES: Final = 0xA80425FB
"""The default of containerd (pkg/oci/spec.go, defaultUnixCaps), a bit for each number."""
_PROCESS_STATUS: Final = Path("/proc/thread-self/status")


class User(NamedTuple):
    """The user of a process; `groups` are all its groups, the first one included."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


class ProcessSettings(NamedTuple):
    """A process before it is made; `capabilities` are names without CAP_."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    user: User
    capabilities: set[str]


def arguments_of(config: ContainerConfig, image: ImageConfig) -> list[str]:
    """Return the command of a container (containerd's WithProcessArgs). Raises RuntimeServiceError if there is none."""
    command, arguments = config.command, config.args
    if not command:
        command = [] if image.entrypoint == [""] else image.entrypoint
        arguments = arguments or image.cmd
    if not command + arguments:
        raise RuntimeServiceError("no command specified")
    return command + arguments


def process_settings(
    config: ContainerConfig, image: ImageConfig, root: Path, hostname: str, arguments: list[str]
) -> ProcessSettings:
    """Return the process of a container with the files of `root`. Raises RuntimeServiceError."""
    security = config.security
    user = user_of(root, security, image.user)
    environment = {"PATH": _PATH, "HOSTNAME": hostname}
    if config.tty:
        environment["TERM"] = "xterm"
    environment |= dict(pair.partition("=")[::2] for pair in image.env)
    environment |= {each.key: each.value for each in config.envs}
    environment.setdefault("HOME", user.home)
    folder = config.working_dir or image.working_dir or "/"
    return ProcessSettings(arguments, environment, folder, user, _capabilities(security))


def user_of(root: Path, security: ContainerSecurity, image_user: str) -> User:
    """Return the user of a container: that of the request, else that of the image, else root.

    A name must be in the image's /etc/passwd. A number may be missing there; its group is 0 then. Raises
    RuntimeServiceError.
    """
    if security.run_as_user is not None:
        wanted = str(security.run_as_user)
        if security.run_as_group is not None:
            wanted += f":{security.run_as_group}"
    elif security.run_as_group is not None:
        raise RuntimeServiceError(f'user group "{security.run_as_group}" is specified without user')
    else:
        wanted = image_user
    name, _, group = (wanted or "0").partition(":")
    entries = [line for line in _lines(root, "passwd") if len(line) == _PASSWD_FIELDS]
    entry = next((line for line in entries if name in {line[0], line[2]}), None)
    if entry is None and not name.isdecimal():
        raise RuntimeServiceError(f'failed to resolve username "{name}": no such entry in /etc/passwd of the image')
    uid = int(name) if name.isdecimal() else int((entry or [""] * 3)[2])
    groups = [line for line in _lines(root, "group") if len(line) == _GROUP_FIELDS]
    gid = _group(groups, group) if group else int(entry[3]) if entry else 0
    of_user = [int(line[2]) for line in groups if entry and entry[0] in line[3].split(",")]
    unique = dict.fromkeys((gid, *of_user, *security.supplemental_groups))
    return User(uid, gid, tuple(unique), entry[5] if entry else "/")


def _group(groups: list[list[str]], name: str) -> int:
    if name.isdecimal():
        return int(name)
    found = next((line for line in groups if line[0] == name), None)
    if found is None:
        raise RuntimeServiceError(f'failed to resolve group "{name}": no such entry in /etc/group of the image')
    return int(found[2])


def _lines(root: Path, name: str) -> list[list[str]]:
    """Return the fields of a file in /etc. A symbolic link is not followed: it could lead out of the image."""
    try:
        folder = os.open(root / "etc", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        text = read_regular(name, _LARGEST, dir_fd=folder).decode(errors="replace")
    except OSError:
        return []
    finally:
        os.close(folder)
    return [line.split(":") for line in text.splitlines()]


def _capabilities(security: ContainerSecurity) -> set[str]:
    """Return names without CAP_, in containerd's order of steps: add ALL, drop ALL, single adds, single drops.

    Raises RuntimeServiceError for an unknown name.
    """
    known = _known_capabilities()
    if security.privileged:
        return known
    added = {name.upper().removeprefix("CAP_") for name in security.add_capabilities}
    dropped = {name.upper().removeprefix("CAP_") for name in security.drop_capabilities}
    if unknown := (added | dropped) - set(_CAPABILITIES) - {"ALL"}:
        raise RuntimeServiceError(f'unknown capability "{min(unknown)}"')
    allowed = known if "ALL" in added else _named(_DEFAULT_CAPABILITIES)
    if "ALL" in dropped:
        allowed = set()
    return ((allowed | (added - {"ALL"})) - dropped) & known


def dropped_numbers(allowed: set[str]) -> list[int]:
    """Return the numbers of this process's capabilities that are not allowed."""
    known = _known_capabilities()
    return [number for number, name in enumerate(_CAPABILITIES) if name in known - allowed]


def _known_capabilities() -> set[str]:
    """Return the capabilities that this process may pass on: a container around it may lack some."""
    lines = dict(line.split(":", 1) for line in _PROCESS_STATUS.read_text().splitlines())
    return _named(int(lines["CapBnd"], 16))


def _named(bits: int) -> set[str]:
    return {name for number, name in enumerate(_CAPABILITIES) if bits >> number & 1}
