"""What the record of a pod has for a sandbox of the Container Runtime Interface."""

import time
from datetime import UTC, datetime

from harness.cri.messages import PodSandboxConfig
from harness.runtime.pods import Pod, new_container_id, rfc3339
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
