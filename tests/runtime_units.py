"""How systemd starts the runtimes that call plugins: the settings of their units that a plugin's process inherits."""

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_CAP_SYS_RESOURCE: Final = 1 << 24


class Unit(NamedTuple):
    """Of a unit's `[Service]`, the properties that its processes inherit; systemd's default if unset."""

    origin: str
    limits: Mapping[str, str]
    """`NOFILE` and so on, soft and hard."""
    others: Mapping[str, str]
    """Other settings, as systemd has them."""

    def settings(self) -> dict[str, str]:
        """All of them, as lines of a unit."""
        return {**{f"Limit{name}": value for name, value in self.limits.items()}, **self.others}

    def prefix(self) -> list[str]:
        """The command that executes another one with these limits and this OOM score.

        Without CAP_SYS_RESOURCE nothing can be raised: then it is what comes next to them.
        """
        may_raise = _may_raise()
        limits = [
            f"--{name.lower()}={_limit(getattr(resource, f'RLIMIT_{name}'), value, may_raise=may_raise)}"
            for name, value in {"NOFILE": "1024:524288", **self.limits}.items()
        ]
        score = self.others.get("OOMScoreAdjust", "0") if may_raise else "0"
        return ["prlimit", *limits, "--", "choom", f"--adjust={score}", "--"]


_RUNTIME: Final = {"OOMScoreAdjust": "-999", "TasksMax": "infinity"}

UNITS: Final = {
    "containerd of Debian 12": Unit(
        "containerd 1.6.20~ds1-1+deb12u3, /lib/systemd/system/containerd.service",
        {"NOFILE": "infinity", "NPROC": "infinity", "CORE": "infinity"},
        {**_RUNTIME, "Delegate": "yes", "KillMode": "process"},
    ),
    "containerd": Unit(
        "containerd 2, containerd.service",
        {"NPROC": "infinity", "CORE": "infinity"},
        {**_RUNTIME, "Delegate": "yes", "KillMode": "process"},
    ),
    "CRI-O": Unit(
        "cri-o, contrib/systemd/crio.service, and that of its packages for Debian",
        {"NOFILE": "1048576", "NPROC": "1048576", "CORE": "infinity"},
        {**_RUNTIME, "Environment": "GOTRACEBACK=crash"},
    ),
    "Docker of Debian 12": Unit(
        "docker.io 20.10.24+dfsg1-1+deb12u1, /lib/systemd/system/docker.service",
        {"NOFILE": "1048576", "NPROC": "infinity", "CORE": "infinity"},
        {"TasksMax": "infinity", "Delegate": "yes", "KillMode": "process"},
    ),
    "kubelet": Unit("kubernetes/release, kubelet.service of the packages for Debian", {}, {}),
    "Podman of Debian 12": Unit(
        "podman 4.3.1+ds1-8+deb12u1, /lib/systemd/system/podman.service",
        {},
        {"Delegate": "true", "KillMode": "process"},
    ),
}
"""By runtime. None of them has `Nice`, `UMask`, `MountFlags`, `NoNewPrivileges` or any of systemd's confinements."""


def _may_raise() -> bool:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return bool(int(status["CapEff"], 16) & _CAP_SYS_RESOURCE)


def _limit(number: int, wanted: str, *, may_raise: bool) -> str:
    """Return a pair of limits as prlimit(1) takes it."""
    most = resource.RLIM_INFINITY
    if number == resource.RLIMIT_NOFILE:  # the kernel takes no more
        most = int(Path("/proc/sys/fs/nr_open").read_text())
    if not may_raise:
        most = _least(most, resource.getrlimit(number)[1])
    pair = [most if value == "infinity" else _least(most, int(value)) for value in wanted.split(":")]
    return ":".join("unlimited" if value == resource.RLIM_INFINITY else str(value) for value in [*pair, pair[-1]][:2])


def _least(one: int, other: int) -> int:
    finite = [value for value in (one, other) if value != resource.RLIM_INFINITY]
    return min(finite, default=resource.RLIM_INFINITY)
