"""Sandboxes of the Container Runtime Interface: on the record of their pod, and as their containers see them."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from harness.cri.messages import Mount, NamespaceMode, PodSandboxConfig
from harness.runtime.pod_record import Pod, new_container_id, rfc3339
from skel.decoders import integer, list_of, record, string
from skel.record import Record, field


class SandboxPart(Record):
    """`created_at` is in nanoseconds since 1970; `ips` stay when the networks are gone."""

    config: PodSandboxConfig = field(record(PodSandboxConfig))
    created_at: int = field(integer)
    hostname: str = field(string, default="")
    ips: list[str] = field(list_of(string), default=list)


class SandboxPod(Pod):
    """A pod whose sandbox is decoded; None for a bare pod."""

    sandbox: SandboxPart | None = field(record(SandboxPart), default=None)

    def part(self) -> SandboxPart:
        """Return the sandbox. Raises ValueError for a bare pod."""
        if self.sandbox is None:
            raise ValueError(f"pod {self.title} is a bare one")
        return self.sandbox


def new_sandbox(config: PodSandboxConfig, bin_dirs: list[str]) -> SandboxPod:
    """Return a sandbox that does not exist yet, with a new container ID."""
    created = time.time_ns()
    return SandboxPod(
        name=config.metadata.name,
        namespace=config.metadata.namespace,
        uid=config.metadata.uid,
        container_id=new_container_id(),
        netns="",
        created=rfc3339(datetime.fromtimestamp(created / 1e9, UTC)),
        bin_dirs=bin_dirs,
        sandbox=SandboxPart(config=config, created_at=created),
    )


def sandbox_name(pod: SandboxPod) -> str:
    """Return the name that only one sandbox may have: containerd's POD_NAMESPACE_UID_ATTEMPT."""
    metadata = pod.part().config.metadata
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


class SandboxView(NamedTuple):
    """A sandbox as its containers see it: its pause process, 0 if that does not run, and the folder of its files.

    The files are `hostname`, `hosts`, `resolv.conf` and `shm`, a mounted tmpfs, without which the node's own is taken.
    """

    id: str
    config: PodSandboxConfig
    pause_pid: int
    folder: Path

    def namespaces(self) -> dict[str, str]:
        """Return the paths of the namespaces that each container joins, by name in /proc/PID/ns.

        All are the pause process's. With a namespace of the node, that process is in it, too. With pid mode CONTAINER,
        each container gets its own (containerd, WithPodNamespaces).
        """
        names = ["net", "ipc", "uts"]
        if self.config.pid is not NamespaceMode.CONTAINER:
            names.append("pid")
        return {name: f"/proc/{self.pause_pid}/ns/{name}" for name in names}

    def mounts(self, requested: list[Mount], *, readonly: bool) -> list[Mount]:
        """Return the requested mounts and the mounts of the sandbox's files, outer before inner ones.

        A requested mount takes the place of a file of the sandbox. `readonly` is the container's root.
        """
        taken = {mount.container_path.rstrip("/") for mount in requested}
        shm = self.folder / "shm"
        own = {
            "/etc/hostname": self.folder / "hostname",
            "/etc/hosts": self.folder / "hosts",
            "/etc/resolv.conf": self.folder / "resolv.conf",
            "/dev/shm": shm if shm.is_dir() else Path("/dev/shm"),  # noqa: S108 -- the container's, and the node's
        }
        files = [
            Mount(container_path=target, host_path=str(source), readonly=readonly and target.startswith("/etc/"))
            for target, source in own.items()
            if target not in taken and source.exists()
        ]
        return sorted([*files, *requested], key=lambda mount: mount.container_path.rstrip("/").count("/"))
