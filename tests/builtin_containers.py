"""Containers of the built-in runtime for tests: an image of busybox, and sandboxes without a network."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.containerd.containers import Containers
from harness.containerd.images import Images
from harness.containerd.sandbox_record import SandboxView
from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    ContainerStatus,
    NamespaceMode,
    PodSandboxConfig,
    PodSandboxMetadata,
)
from harness.cri.service import NotFoundError
from tests.nodes import until

BUSYBOX = "images.test/busybox:1"
_APPLETS = (
    "awk cat chmod dd echo env false grep hostname id ip kill ls mkdir mount nproc ping printf ps readlink sh sleep "
)
_APPLETS += "stat sync swapoff tail test touch true tty wc yes"


def build_busybox(folder: Path) -> Path:
    """Make an OCI layout with an image of Debian's busybox-static, by umoci; return the layout's folder."""
    root, layout = folder / "root", folder / "layout"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "tmp").mkdir(mode=0o777)
    (root / "declared/below").mkdir(parents=True)
    (root / "declared/below/file").write_text("of the image\n")
    (root / "declared/below/file").chmod(0o600)
    os.chown(root / "declared", 1000, 1001)
    os.chown(root / "declared/below/file", 1000, 1001)
    (root / "linked").symlink_to("/declared/below")
    (root / "bin/busybox").write_bytes(Path("/bin/busybox").read_bytes())
    (root / "bin/busybox").chmod(0o755)
    for applet in _APPLETS.split():
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nweb:x:1000:1001::/home/web:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nweb:x:1001:\nextra:x:1002:web\n")
    image = f"{layout}:busybox"
    settings = ["--config.env", "PATH=/bin", "--config.env", "FROM=image", "--config.cmd", "/bin/sh"]
    volumes = [word for path in ("/declared", "/linked", "/absent") for word in ("--config.volume", path)]
    for command in (
        ["init", "--layout", layout],
        ["new", "--image", image],
        ["insert", "--image", image, root, "/"],
        ["config", "--image", image, "--config.user", "web", "--config.stopsignal", "SIGUSR1", *settings],
        ["config", "--image", image, *volumes],
        ["tag", "--image", image, "named"],
        ["remove", "--image", image],
    ):
        subprocess.run(["umoci", *command], check=True, capture_output=True)
    index = layout / "index.json"
    index.write_text(index.read_text().replace('"named"', f'"{BUSYBOX}"'))
    return layout


@contextmanager
def pause(*, own_pids: bool = False) -> Iterator[int]:
    """Run a process with namespaces of its own, as a sandbox's pause process; yield its PID."""
    words = ["unshare", "--net", "--ipc", "--uts", *(["--pid", "--fork", "--kill-child"] if own_pids else [])]
    script = "hostname in-pod; ip link set lo up; exec sleep infinity"
    with subprocess.Popen([*words, "sh", "-c", script]) as process:
        try:
            until(lambda: _command(_last_child(process.pid)) == "sleep")
            yield _last_child(process.pid)
        finally:
            process.kill()


class Pod:
    """A sandbox and its containers; the runtime's objects are made anew at each call of `reopen`."""

    def __init__(self, folder: Path, pause_pid: int, *, image: str, pid: NamespaceMode) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.image = image
        self.pause_pid = pause_pid
        files = folder / "sandbox"
        files.mkdir(parents=True, exist_ok=True)
        (files / "hosts").write_text("192.0.2.1 of-the-pod\n")
        (files / "resolv.conf").write_text("nameserver 192.0.2.53\n")
        self.config = PodSandboxConfig(
            metadata=PodSandboxMetadata(name="pod1", uid="uid1", namespace="default"),
            hostname="in-pod",
            log_directory=str(self.logs),
            pid=pid,
        )
        self.files = files
        self.images = Images(folder / "node")
        self.containers = self.reopen()

    def reopen(self) -> Containers:
        self.containers = Containers(self.folder / "node", self.images, self.view)
        return self.containers

    def view(self, sandbox_id: str) -> SandboxView:
        if sandbox_id != "sandbox1":
            raise NotFoundError(sandbox_id)
        return SandboxView(sandbox_id, self.config, self.pause_pid, self.files)

    def close(self) -> None:
        """Remove all containers."""
        for container in self.containers.list_containers():
            self.containers.remove_container(container.id)

    def container(self, *command: str, name: str = "app", **settings: object) -> str:
        """Create a container and return its ID."""
        config = ContainerConfig(
            metadata=ContainerMetadata(name=name),
            image=self.image,
            command=list(command),
            log_path=f"{name}/0.log",
            **settings,  # type: ignore[arg-type]  # of ContainerConfig
        )
        return self.containers.create_container("sandbox1", config, self.config)

    def running(self, *command: str, **settings: object) -> str:
        """Create and start a container."""
        container_id = self.container(*command, **settings)  # type: ignore[arg-type]  # name is text
        self.containers.start_container(container_id)
        return container_id

    def finished(self, *command: str, **settings: object) -> ContainerStatus:
        """Run a container to its end, and return its status."""
        return self.ended(self.running(*command, **settings))

    def ended(self, container_id: str) -> ContainerStatus:
        """Wait for a container's end."""
        until(lambda: self.containers.container_status(container_id).state == "CONTAINER_EXITED")
        return self.containers.container_status(container_id)

    def log(self, name: str = "app") -> list[str]:
        """Return the lines of a container's log."""
        return (self.logs / name / "0.log").read_text().splitlines()

    def output(self, *command: str, **settings: object) -> str:
        """Run a container to its end, and return what it printed."""
        status = self.finished(*command, **settings)
        lines = self.log(status.metadata.name)
        assert status.exit_code == 0, (status, lines)
        return "\n".join(log_texts(lines))


def log_texts(lines: Iterable[str]) -> list[str]:
    return [line.split(" ", 3)[3] for line in lines]


def leftovers(container_id: str) -> list[str]:
    """Return what the kernel has of a container: processes that name it, control groups, mounts."""
    # os.walk: other tests' groups vanish meanwhile, and rglob raises for them.
    found = [
        f"group {folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if container_id in name
    ]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                for part in ("cmdline", "mountinfo", "cgroup"):
                    if container_id in (process / part).read_text(errors="replace"):
                        found += [f"{part} of process {process.name}: {_command(int(process.name))}"]
    return found


def _last_child(pid: int) -> int:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # a child that has ended
        return pid
    return _last_child(int(children[0])) if children else pid


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"
