"""The request for a pod's sandbox (kubelet's generatePodSandboxConfig, kuberuntime_sandbox.go)."""

from api.pod import V1Pod
from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig, PodSandboxMetadata, PortMapping
from harness.kubelet.labels import pod_labels
from harness.kubelet.requests.hosts_file import kernel_hostname


def pod_sandbox_config(
    pod: V1Pod, attempt: int, *, dns: DNSConfig | None, log_directory: str, cgroup_parent: str
) -> PodSandboxConfig:
    """Return the request; ports without a host port are in it too, and the runtime ignores them.

    Raises ValueError for a host name that is too long.
    """
    metadata, spec = pod.metadata, pod.spec
    network, pid, ipc = namespace_modes(pod)
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(
            name=metadata.name, uid=metadata.uid, namespace=metadata.namespace, attempt=attempt
        ),
        hostname="" if spec.host_network else kernel_hostname(pod),
        log_directory=log_directory,
        dns_config=dns,
        port_mappings=_port_mappings(pod),
        labels=pod_labels(pod),
        annotations=dict(metadata.annotations),
        cgroup_parent=cgroup_parent,
        sysctls={each.name: each.value for each in spec.security_context.sysctls},
        network=network,
        pid=pid,
        ipc=ipc,
        privileged=any(each.security_context.privileged for each in [*spec.init_containers, *spec.containers]),
    )


def namespace_modes(pod: V1Pod) -> tuple[NamespaceMode, NamespaceMode, NamespaceMode]:
    """Return the modes of network, PID and IPC namespace (kubelet's namespacesForPod)."""
    spec = pod.spec
    network = NamespaceMode.NODE if spec.host_network else NamespaceMode.POD
    ipc = NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD
    if spec.host_pid:
        return network, NamespaceMode.NODE, ipc
    return network, NamespaceMode.POD if spec.share_process_namespace else NamespaceMode.CONTAINER, ipc


def _port_mappings(pod: V1Pod) -> list[PortMapping]:
    return [
        PortMapping(
            protocol=port.protocol or "TCP",
            container_port=port.container_port,
            host_port=port.host_port,
            host_ip=port.host_ip,
        )
        for container in pod.spec.containers
        for port in container.ports
    ]
