"""The request for a pod's sandbox (kubelet's generatePodSandboxConfig, kuberuntime_sandbox.go)."""

from api.pod import V1Pod
from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig, PodSandboxMetadata, PortMapping
from harness.kubelet.labels import pod_labels
from harness.kubelet.requests.hosts_file import kernel_hostname


def pod_sandbox_config(
    pod: V1Pod, attempt: int, *, dns: DNSConfig | None, log_directory: str, cgroup_parent: str
) -> PodSandboxConfig:
    """Return the request; ports without a host port are in it too, and the runtime ignores them.

    The modes of its namespaces are those of kubelet's namespacesForPod. Raises ValueError for too long a host name.
    """
    metadata, spec = pod.metadata, pod.spec
    own_pid = NamespaceMode.POD if spec.share_process_namespace else NamespaceMode.CONTAINER
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(
            name=metadata.name, uid=metadata.uid, namespace=metadata.namespace, attempt=attempt
        ),
        hostname="" if spec.host_network else kernel_hostname(pod),
        log_directory=log_directory,
        dns_config=dns,
        port_mappings=[
            PortMapping(
                protocol=port.protocol or "TCP",
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for container in spec.containers
            for port in container.ports
        ],
        labels=pod_labels(pod),
        annotations=dict(metadata.annotations),
        cgroup_parent=cgroup_parent,
        sysctls={each.name: each.value for each in spec.security_context.sysctls},
        network=NamespaceMode.NODE if spec.host_network else NamespaceMode.POD,
        pid=NamespaceMode.NODE if spec.host_pid else own_pid,
        ipc=NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD,
        privileged=any(each.security_context.privileged for each in [*spec.init_containers, *spec.containers]),
    )
