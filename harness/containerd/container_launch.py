"""The files that tell the shim how to make a container: `launch.json`, and `config.json` in the bundle.

With an image, `config.json` is for the OCI runtime, and else for `host_process`.

| key of launch.json | meaning |
| --- | --- |
| `create`, `start`, `delete` | commands for the folder `bundle`, or empty; `create` writes the PID into `../pid` |
| `lower` | the image's files, relative to the container's folder; empty without an image |
| `log_path`, `terminal`, `stdin` | the streams of the process |
| `user` | that of the process; the shim does without, and statuses have it |
| `control_groups`, `limits` | folders that the shim makes, and removes at the end; the limits in them |

Each volume that the image declares (`VOLUME` of a Dockerfile) is a folder of the container's own. As with containerd
(container_create.go, volumeMounts), it begins with the image's files of that path, and ends with the container. A mount
of the request takes its place.
"""

import json
import os
import posixpath
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from fast_stdlib.syscalls import RESOLVE_IN_ROOT, open_within
from harness.containerd import control_groups
from harness.containerd.container_store import ContainerFolder, ContainerRecord
from harness.containerd.image_files import run_tool
from harness.containerd.images import ImageConfig, Images
from harness.containerd.oci_spec import oci_spec, process_document
from harness.containerd.process_settings import ProcessSettings, dropped_numbers, process_settings
from harness.containerd.processes import HOST_PROCESS, program
from harness.containerd.runc import OciRuntime
from harness.containerd.sandbox_record import SandboxView
from harness.cri.messages import ContainerUser, Mount, NamespaceMode, ProfileType
from harness.cri.service import ImageNotFoundError, RuntimeServiceError
from harness.files import write_atomically

_RTMIN: Final = "RTMIN+"

_CP = "/bin/cp"  # of coreutils, which is essential in Debian


class ContainerPlace(NamedTuple):
    """A container, its sandbox, and the tools to make it."""

    folder: ContainerFolder
    record: ContainerRecord
    sandbox: SandboxView
    images: Images
    runtime_state: Path


def prepare(place: ContainerPlace) -> None:
    """Write the files for the shim, `launch.json` last. Raises RuntimeServiceError, OSError."""
    folder, record, config = place.folder, place.record, place.record.config
    for path in (folder.rootfs, folder.path / "upper", folder.path / "work"):
        path.mkdir(parents=True, exist_ok=True)
    image, root = _image(place)
    hostname = place.sandbox.config.hostname or os.uname().nodename
    process = process_settings(config, image, root, hostname, record.arguments)
    requested = [*image_volumes(image, root, folder.path / "volumes", config.mounts), *config.mounts]
    for mount in requested:  # a missing source becomes a folder, as in containerd
        if not Path(mount.host_path).exists():
            Path(mount.host_path).mkdir(mode=0o755, parents=True)
    mounts = place.sandbox.mounts(requested, readonly=config.security.readonly_rootfs)
    launch = _by_runc(place, process, mounts, root) if record.image_id else _by_host_process(place, process, mounts)
    user = ContainerUser(uid=process.user.uid, gid=process.user.gid, supplemental_groups=list(process.user.groups))
    launch |= {"user": user.encode(), "log_path": record.log_path, "terminal": config.tty, "stdin": config.stdin}
    _write(folder.launch, launch)


def _control_group(container_id: str, sandbox: SandboxView) -> str:
    """Return the name of a container's control group: a path below each hierarchy's root."""
    parent = sandbox.config.cgroup_parent.strip("/")
    return f"{parent}/{container_id}" if parent else f"cni-harness-{container_id}"


def signal_number(name: str) -> int:
    """Return the number of a signal (`SIGTERM`, `TERM`, `SIGRTMIN+3` or `15`), SIGTERM for an empty name.

    Raises RuntimeServiceError.
    """
    text = name.upper().removeprefix("SIG")
    if not text:
        return signal.SIGTERM
    if text.isdecimal():
        return int(text)
    if text.startswith(_RTMIN) and text.removeprefix(_RTMIN).isdecimal():
        return signal.SIGRTMIN + int(text.removeprefix(_RTMIN))
    try:
        return signal.Signals[f"SIG{text}"]
    except KeyError:
        raise RuntimeServiceError(f'failed to parse stop signal "{name}"') from None


def _image(place: ContainerPlace) -> tuple[ImageConfig, Path]:
    """Return the settings and the files of the image, without one no settings and the node's own files."""
    image_id = place.record.image_id
    if not image_id:
        return ImageConfig(), Path("/")
    image = place.images.find(image_id)
    if image is None:
        raise ImageNotFoundError(f'image "{image_id}" not found')
    return image.config, place.images.rootfs(image.id)


def _by_runc(place: ContainerPlace, process: ProcessSettings, mounts: list[Mount], root: Path) -> dict[str, Any]:
    folder, record = place.folder, place.record
    runtime = OciRuntime.found(place.runtime_state)
    group = f"/{_control_group(record.id, place.sandbox)}" if control_groups.writable() else ""
    _write(folder.bundle / "config.json", oci_spec(record.config, place.sandbox, process, mounts, control_group=group))
    status = root.stat()  # the root folder of an overlay has the attributes of its upper layer
    os.chown(folder.path / "upper", status.st_uid, status.st_gid)
    (folder.path / "upper").chmod(status.st_mode & 0o7777)
    return {
        "lower": os.path.relpath(root, folder.path),
        "create": runtime.create(record.id, terminal=record.config.tty),
        "start": runtime.start(record.id),
        "delete": runtime.delete(record.id),
        "control_groups": [],
        "limits": {},
    }


def _by_host_process(place: ContainerPlace, process: ProcessSettings, mounts: list[Mount]) -> dict[str, Any]:
    sandbox, config = place.sandbox, place.record.config
    for profile in (config.security.seccomp, config.security.apparmor):
        if profile is not None and profile.profile_type is ProfileType.LOCALHOST:
            raise RuntimeServiceError(f'profile "{profile.localhost_ref}": a container without an image gets none')
    groups = control_groups.folders(_control_group(place.record.id, sandbox))
    document = {
        "join": sandbox.namespaces(),
        "new_pid_namespace": sandbox.config.pid is NamespaceMode.CONTAINER,
        "mounts": [vars(mount) for mount in mounts],
        "readonly_root": config.security.readonly_rootfs,
        "control_groups": groups,
        "dropped_capabilities": dropped_numbers(process.capabilities),
        "process": process_document(config, process),
    }
    _write(place.folder.bundle / "config.json", document)
    wanted = config.resources
    limits = (wanted.cpu_period, wanted.cpu_quota, wanted.cpu_shares, wanted.memory_limit_in_bytes)
    return {
        "lower": "",
        "create": program(HOST_PROCESS, "create", "config.json", "../create.log"),
        "start": [],
        "delete": [],
        "control_groups": groups,
        "limits": control_groups.limits(*limits),
    }


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(document).encode(), mode=0o600)


def image_volumes(image: ImageConfig, root: Path, folder: Path, requested: Iterable[Mount]) -> list[Mount]:
    """Make the volumes of an image, whose files are those of `root`, in `folder`, and return their mounts.

    Raises OSError, RuntimeServiceError.
    """
    taken = {_clean(mount.container_path) for mount in requested}
    wanted = sorted({_clean(path) for path in image.volumes} - taken - {"/"})
    return [
        Mount(container_path=path, host_path=str(_made(root, path, folder / str(number))))
        for number, path in enumerate(wanted)
    ]


def _clean(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _made(root: Path, path: str, volume: Path) -> Path:
    volume.mkdir(mode=0o755, parents=True, exist_ok=True)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        source = open_within(top, path, os.O_RDONLY | os.O_DIRECTORY, RESOLVE_IN_ROOT)
    except FileNotFoundError:
        return volume
    finally:
        os.close(top)
    try:
        # A link of the image is not followed: `cp` gets the opened folder, with owners, modes and attributes.
        run_tool(_CP, "--archive", "--no-target-directory", f"/proc/{os.getpid()}/fd/{source}/.", str(volume))
    finally:
        os.close(source)
    return volume
