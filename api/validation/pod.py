"""The API server's rules for pods, in its order and words (ValidatePodCreate in core/validation/validation.go).

Five rules are this project's own: `image` may be empty, a port's `hostIP` must be an address, `metadata.uid` must be
usable as the name of a folder, an option of `dnsConfig` is one word, and `hostUsers: false` and other systems than
Linux are refused.
"""

import re
from collections.abc import Iterator
from typing import Final

from api.errors import FieldError, duplicate, flaws_at, forbidden, invalid, not_supported, required, too_long
from api.names import (
    label_value_flaws,
    qualified_name_flaws,
    subdomain_flaws,
    subdomain_with_underscore_flaws,
)
from api.pod import V1Metadata, V1Pod, V1PodDNSConfig, V1PodSpec, V1Toleration, V1Volume
from api.validation.container import validate_containers, validate_init_containers, validate_profiles

_OPERATORS: Final = ("Equal", "Exists")
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048
_MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations together."""
_LONGEST_SYSCTL: Final = 253
_SYSCTLS_OF_IPC: Final = frozenset(
    (
        *("kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"),
        *("kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"),
    )
)
_SYSCTL_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"


def validate_pod(pod: V1Pod) -> list[FieldError]:
    """Return the faults of a pod, with defaults filled in; none is an empty list."""
    errors = [*validate_metadata(pod.metadata), *pod.metadata.flaws("metadata", "uid"), *_of_spec(pod.spec)]
    for kind, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for index, container in enumerate(containers):
            errors += container.flaws(f"spec.{kind}[{index}]", "image")
    if pod.spec.ephemeral_containers:
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    return errors


def validate_metadata(metadata: V1Metadata) -> Iterator[FieldError]:
    """Judge name, namespace, labels and annotations (ValidateObjectMeta)."""
    if metadata.generate_name:
        for flaw in subdomain_flaws(re.sub("-$", "a", metadata.generate_name)):
            yield invalid("metadata.generateName", metadata.generate_name, flaw)
    yield from metadata.flaws("metadata", "name", "namespace")
    yield from _of_labels(metadata.labels, "metadata.labels")
    for key in metadata.annotations:
        for flaw in qualified_name_flaws(key.lower()):
            yield invalid("metadata.annotations", key, flaw)
    if sum(len(key.encode()) + len(text.encode()) for key, text in metadata.annotations.items()) > _MOST_ANNOTATIONS:
        yield too_long("metadata.annotations", _MOST_ANNOTATIONS)


def _of_spec(spec: V1PodSpec) -> Iterator[FieldError]:
    grace_period = spec.termination_grace_period_seconds
    yield from spec.flaws("spec", "termination_grace_period_seconds")
    volumes, errors = _of_volumes(spec.volumes, "spec.volumes")
    yield from errors
    yield from validate_containers(spec.containers, volumes, grace_period, "spec.containers")
    init = spec.init_containers
    yield from validate_init_containers(init, spec.containers, volumes, grace_period, "spec.initContainers")
    yield from _of_host_network(spec)
    yield from spec.flaws("spec", "restart_policy", "dns_policy")
    yield from _of_labels(spec.node_selector, "spec.nodeSelector")
    yield from _of_security(spec)
    yield from _of_dns(spec.dns_config, spec.dns_policy)
    if spec.host_users is False:
        yield forbidden("spec.hostUsers", "this node has no user namespaces for pods")
    names = ("service_account_name", "node_name", "active_deadline_seconds", "hostname", "subdomain")
    yield from spec.flaws("spec", *names)
    for index, toleration in enumerate(spec.tolerations):
        yield from _of_toleration(toleration, f"spec.tolerations[{index}]")
    for index, alias in enumerate(spec.host_aliases):
        yield from alias.flaws(f"spec.hostAliases[{index}]")
    yield from spec.flaws("spec", "priority_class_name")
    yield from spec.os.flaws("spec.os")


def _of_host_network(spec: V1PodSpec) -> Iterator[FieldError]:
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            for number, port in enumerate(container.ports):
                place = f"spec.{kind}[{index}].ports[{number}]"
                yield from port.flaws(place, "host_ip")
                if spec.host_network and kind == "containers" and port.host_port != port.container_port:
                    detail = "must match `containerPort` when `hostNetwork` is true"
                    yield invalid(f"{place}.hostPort", port.host_port, detail)


def _of_labels(labels: dict[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from flaws_at(path, key, qualified_name_flaws)
        yield from flaws_at(path, value, label_value_flaws)


def _of_security(spec: V1PodSpec) -> Iterator[FieldError]:
    """Judge the security context of a pod (validatePodSpecSecurityContext)."""
    context, path = spec.security_context, "spec.securityContext"
    yield from context.flaws(path, "fs_group", "run_as_user", "run_as_group")
    yield from validate_profiles(context, path)
    yield from context.flaws(path, "supplemental_groups")
    if spec.share_process_namespace and spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", value=True, detail=detail)
    names: set[str] = set()
    for index, sysctl in enumerate(context.sysctls):
        yield from _of_sysctl(sysctl.name, names, spec, f"{path}.sysctls[{index}].name")
        names.add(sysctl.name)


def _of_sysctl(name: str, names: set[str], spec: V1PodSpec, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif len(name) > _LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
        yield invalid(path, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}")
    elif name in names:
        yield duplicate(path, name)
    dotted = name.replace("/", ".")
    if spec.host_network and dotted.startswith("net."):
        yield invalid(path, name, "may not be specified when 'hostNetwork' is true")
    if spec.host_ipc and (dotted in _SYSCTLS_OF_IPC or dotted.startswith("fs.mqueue.")):
        yield invalid(path, name, "may not be specified when 'hostIPC' is true")


def _of_dns(config: V1PodDNSConfig | None, policy: str) -> Iterator[FieldError]:
    """Judge the settings of the resolver (validatePodDNSConfig)."""
    path = "spec.dnsConfig"
    if config is None:
        if policy == "None":
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    if policy == "None" and not config.nameservers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{path}.nameservers", detail)
        return
    if len(config.nameservers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        yield invalid(f"{path}.nameservers", config.nameservers, detail)
    yield from config.flaws(path, "nameservers")
    yield from _of_searches(config.searches, f"{path}.searches")
    for index, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{index}]", "must not be empty")
        yield from option.flaws(f"{path}.options[{index}]")


def _of_searches(searches: list[str], path: str) -> Iterator[FieldError]:
    if len(searches) > _MOST_SEARCHES:
        yield invalid(path, searches, f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches).encode()) > _LONGEST_SEARCHES:
        detail = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        yield invalid(path, searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            yield from flaws_at(f"{path}[{index}]", search.removesuffix("."), subdomain_with_underscore_flaws)


def _of_toleration(toleration: V1Toleration, path: str) -> Iterator[FieldError]:
    """Judge a toleration (ValidateTolerations)."""
    operator, effect = toleration.operator, toleration.effect
    yield from toleration.flaws(path, "key")
    if not toleration.key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, detail)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in {"", "Equal"}:
        if flaws := label_value_flaws(toleration.value):
            yield invalid(f"{path}.operator", toleration.value, ";".join(flaws))
    elif operator == "Exists":
        if toleration.value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{path}.operator", toleration.value, detail)
    else:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    yield from toleration.flaws(path, "effect")


def _of_volumes(volumes: list[V1Volume], path: str) -> tuple[set[str], list[FieldError]]:
    """Return the names of the faultless volumes, which alone count for mounts, and the faults of the others."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        found = list(volume.flaws(f"{path}[{index}]"))
        if volume.name in names:
            found.append(duplicate(f"{path}[{index}].name", volume.name))
        if found:
            errors += found
        else:
            names.add(volume.name)
    return names, errors
