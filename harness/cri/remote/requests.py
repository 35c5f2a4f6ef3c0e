"""Requests to a runtime, from this project's messages. Values that kubelet always sends are added here."""

from typing import Final

from harness.cri.hidden_paths import MASKED_PATHS, READONLY_PATHS
from harness.cri.messages import ContainerConfig, DNSConfig, Mount, PodSandboxConfig, PortMapping, SecurityProfile
from harness.cri.remote import api_pb2

_PROPAGATIONS: Final = {
    "private": api_pb2.PROPAGATION_PRIVATE,
    "rslave": api_pb2.PROPAGATION_HOST_TO_CONTAINER,
    "rshared": api_pb2.PROPAGATION_BIDIRECTIONAL,
}
# The pause process has the runtime's profile, whatever the containers have (kuberuntime_sandbox_linux.go).
_OF_SANDBOX: Final = api_pb2.SecurityProfile(profile_type=api_pb2.SecurityProfile.RuntimeDefault)


def image_spec(image: str) -> api_pb2.ImageSpec:
    """Return the reference or ID of an image as a message."""
    return api_pb2.ImageSpec(image=image)


def sandbox_config(config: PodSandboxConfig) -> api_pb2.PodSandboxConfig:
    """Return the request for a sandbox."""
    metadata = config.metadata
    return api_pb2.PodSandboxConfig(
        metadata=api_pb2.PodSandboxMetadata(
            name=metadata.name, uid=metadata.uid, namespace=metadata.namespace, attempt=metadata.attempt
        ),
        hostname=config.hostname,
        log_directory=config.log_directory,
        dns_config=_dns(config.dns_config),
        port_mappings=[_port_mapping(each) for each in config.port_mappings],
        labels=config.labels,
        annotations=config.annotations,
        linux=api_pb2.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            sysctls=config.sysctls,
            security_context=api_pb2.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(config), privileged=config.privileged, seccomp=_OF_SANDBOX
            ),
        ),
    )


def container_config(config: ContainerConfig, sandbox: PodSandboxConfig) -> api_pb2.ContainerConfig:
    """Return the request for a container in a sandbox."""
    metadata = config.metadata
    return api_pb2.ContainerConfig(
        metadata=api_pb2.ContainerMetadata(name=metadata.name, attempt=metadata.attempt),
        image=image_spec(config.image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[api_pb2.KeyValue(key=each.key, value=each.value) for each in config.envs],
        mounts=[_mount(each) for each in config.mounts],
        labels=config.labels,
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=api_pb2.LinuxContainerConfig(resources=_resources(config), security_context=_security(config, sandbox)),
    )


def _dns(dns: DNSConfig | None) -> api_pb2.DNSConfig | None:
    if dns is None:
        return None
    return api_pb2.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options)


def _port_mapping(mapping: PortMapping) -> api_pb2.PortMapping:
    return api_pb2.PortMapping(
        protocol=mapping.protocol,
        container_port=mapping.container_port,
        host_port=mapping.host_port,
        host_ip=mapping.host_ip,
    )


def _namespaces(config: PodSandboxConfig) -> api_pb2.NamespaceOption:
    return api_pb2.NamespaceOption(network=config.network.value, pid=config.pid.value, ipc=config.ipc.value)


def _mount(mount: Mount) -> api_pb2.Mount:
    return api_pb2.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.readonly,
        propagation=_PROPAGATIONS[mount.propagation],
        recursive_read_only=mount.recursive_read_only,
    )


def _resources(config: ContainerConfig) -> api_pb2.LinuxContainerResources:
    limits = config.resources
    return api_pb2.LinuxContainerResources(
        cpu_period=limits.cpu_period,
        cpu_quota=limits.cpu_quota,
        cpu_shares=limits.cpu_shares,
        memory_limit_in_bytes=limits.memory_limit_in_bytes,
        oom_score_adj=limits.oom_score_adj,
    )


def _security(config: ContainerConfig, sandbox: PodSandboxConfig) -> api_pb2.LinuxContainerSecurityContext:
    security = config.security
    return api_pb2.LinuxContainerSecurityContext(
        capabilities=api_pb2.Capability(
            add_capabilities=security.add_capabilities, drop_capabilities=security.drop_capabilities
        ),
        privileged=security.privileged,
        namespace_options=_namespaces(sandbox),
        run_as_user=_number(security.run_as_user),
        run_as_group=_number(security.run_as_group),
        readonly_rootfs=security.readonly_rootfs,
        supplemental_groups=security.supplemental_groups,
        no_new_privs=security.no_new_privs,
        masked_paths=MASKED_PATHS,
        readonly_paths=READONLY_PATHS,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )


def _profile(profile: SecurityProfile | None) -> api_pb2.SecurityProfile | None:
    if profile is None:
        return None
    return api_pb2.SecurityProfile(profile_type=profile.profile_type.value, localhost_ref=profile.localhost_ref)


def _number(value: int | None) -> api_pb2.Int64Value | None:
    return None if value is None else api_pb2.Int64Value(value=value)
