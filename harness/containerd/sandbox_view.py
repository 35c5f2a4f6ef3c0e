"""A sandbox as its containers see it."""

from pathlib import Path
from typing import NamedTuple

from harness.cri.messages import Mount, NamespaceMode, PodSandboxConfig


class SandboxView(NamedTuple):
    """A sandbox with its pause process, 0 if that does not run, and the files that each container gets.

    `hostname_file`, `hosts`, `resolv_conf` and `shm` are paths; a missing one is left out. `shm` is a mounted tmpfs, or
    the node's own if the sandbox has the node's IPC namespace.
    """

    id: str
    config: PodSandboxConfig
    pause_pid: int
    hostname_file: Path
    hosts: Path
    resolv_conf: Path
    shm: Path

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
        own = {
            "/etc/hostname": self.hostname_file,
            "/etc/hosts": self.hosts,
            "/etc/resolv.conf": self.resolv_conf,
            "/dev/shm": self.shm,  # noqa: S108 -- the container's
        }
        files = [
            Mount(container_path=target, host_path=str(source), readonly=readonly and target.startswith("/etc/"))
            for target, source in own.items()
            if target not in taken and source.exists()
        ]
        return sorted([*files, *requested], key=lambda mount: mount.container_path.rstrip("/").count("/"))
