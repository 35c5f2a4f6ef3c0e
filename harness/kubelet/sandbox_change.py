"""Whether a pod needs another sandbox (kubelet's PodSandboxChanged)."""

from typing import NamedTuple

from harness.cri.messages import SANDBOX_READY, NamespaceMode
from harness.kubelet.runtime_pod_status import RuntimePodStatus
from harness.kubelet.v1 import V1Pod


class SandboxChange(NamedTuple):
    """The answer: `sandbox_id` is the newest sandbox, and `attempt` that of the sandbox which is needed.

    `sandbox_id` is empty if there is no sandbox, and if the pod has moved between its own network and the node's.
    """

    changed: bool
    attempt: int
    sandbox_id: str


def sandbox_change(pod: V1Pod, status: RuntimePodStatus) -> SandboxChange:
    """Compare a pod with its sandboxes; only a single ready sandbox that is the newest, and fits, is kept."""
    if not status.sandboxes:
        return SandboxChange(changed=True, attempt=0, sandbox_id="")
    newest = status.sandboxes[0]
    following = newest.metadata.attempt + 1
    ready = sum(sandbox.state is SANDBOX_READY for sandbox in status.sandboxes)
    if ready > 1 or newest.state is not SANDBOX_READY:
        return SandboxChange(changed=True, attempt=following, sandbox_id=newest.id)
    if newest.network is not (NamespaceMode.NODE if pod.spec.host_network else NamespaceMode.POD):
        return SandboxChange(changed=True, attempt=following, sandbox_id="")
    if not pod.spec.host_network and not newest.ips:
        return SandboxChange(changed=True, attempt=following, sandbox_id=newest.id)
    return SandboxChange(changed=False, attempt=newest.metadata.attempt, sandbox_id=newest.id)
