"""`cni-harness describe`: one pod of a manifest, its containers, conditions and events."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from harness.cli.kubectl import age, named_pod
from harness.cli.kubelet_node import is_running
from harness.cli.manifest_pods import one_pod, requests_without_effect
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.output import TextTable, on_one_line, write

if TYPE_CHECKING:
    from api.container import V1Container
    from api.pod import V1Pod
    from api.status import V1ContainerState, V1ContainerStatus, V1PodStatus
    from harness.kubelet.events import Event

_WIDTH = 18
_WIDTH_OF_CONTAINERS = 20
"""Columns before a value, in characters: `Restart Count:` of a container is the longest title."""


@verb(
    "describe",
    examples={
        "describe web": "Show containers, conditions and events of a pod",
        "describe pod web -o json": "The same for a program",
    },
    root="reads the records of pods",
)
@click.argument("pod", nargs=-1, required=True, metavar="[pod] POD", callback=named_pod, shell_complete=complete_pod)
@namespace_option
def command(settings: Settings, *, pod: str, namespace: str) -> int:
    """Show a pod as `kubectl describe pod` does: containers, conditions, events.

    `inspect` shows its network. A pod of `add` has no containers and no events.
    """
    from harness.kubelet.events import EventRecorder
    from harness.kubelet.server import pod_document

    described, status = one_pod(settings, namespace, pod)
    uid = described.metadata.uid
    events = EventRecorder(settings.kubelet_paths().pods).of(uid)
    if settings.is_table:
        lines = [*_lines(described, status, events, requests_without_effect(settings, described))]
        if described.spec.containers and not is_running(settings):
            lines.append(_line("Kubelet", "<none>: containers are neither restarted nor probed"))
        write("\n".join(lines))
        return 0
    document = pod_document(described, status) | {"events": [each.encode() for each in events]}
    settings.emit(document, TextTable((), []))
    return 0


def _lines(pod: "V1Pod", status: "V1PodStatus", events: "list[Event]", without_effect: list[str]) -> Iterator[str]:
    metadata, spec = pod.metadata, pod.spec
    yield _line("Name", metadata.name)
    yield _line("Namespace", metadata.namespace)
    yield _line("Node", "/".join(filter(None, (spec.node_name, status.host_ip))))
    yield _line("Start Time", status.start_time)
    yield _line("Labels", _pairs(metadata.labels))
    yield _line("Annotations", _pairs(metadata.annotations))
    yield _line("Status", status.phase)
    if status.reason:
        yield _line("Reason", status.reason)
        yield _line("Message", status.message)
    yield _line("IP", status.pod_ip)
    yield from (_line("IPs" if number == 0 else "", ip) for number, ip in enumerate(status.pod_ips))
    yield from (_line("Not Supported", sentence) for sentence in without_effect)
    for title, containers, statuses in (
        ("Init Containers", spec.init_containers, status.init_container_statuses),
        ("Containers", spec.containers, status.container_statuses),
        ("Ephemeral Containers", spec.ephemeral_containers, status.ephemeral_container_statuses),
    ):
        if containers:
            yield f"{title}:"
            by_name = {each.name: each for each in statuses}
            for container in containers:
                yield from _container(container, by_name.get(container.name))
    yield "Conditions:"
    for each in status.conditions:
        told = f"  {each.reason}: {each.message}" if each.reason else ""
        yield f"  {each.type:<28}{each.status}{on_one_line(told)}"
    yield _line("QoS Class", status.qos_class)
    yield from _events(events)


def _container(container: "V1Container", status: "V1ContainerStatus | None") -> Iterator[str]:
    yield f"  {container.name}:"
    yield _line("Image", container.image or "(the node's file system)", 4)
    if status is not None:
        yield _line("Container ID", status.container_id, 4)
        yield _line("Image ID", status.image_id, 4)
    for port in container.ports:
        host = f" (host port {port.host_port})" if port.host_port else ""
        yield _line("Port", f"{port.container_port}/{port.protocol}{host}", 4)
    if container.command:
        yield _line("Command", " ".join(container.command), 4)
    if container.args:
        yield _line("Args", " ".join(container.args), 4)
    if status is None:
        return
    yield from _state("State", status.state)
    if status.last_state != type(status.last_state)():
        yield from _state("Last State", status.last_state)
    yield _line("Ready", str(status.ready), 4)
    yield _line("Restart Count", str(status.restart_count), 4)


def _state(title: str, state: "V1ContainerState") -> Iterator[str]:
    running, ended, waiting = state.running, state.terminated, state.waiting
    told = [("Reason", waiting.reason), ("Message", waiting.message)] if waiting is not None else []
    word, facts = "Waiting", [(name, value) for name, value in told if value]
    if running is not None:
        word, facts = "Running", [("Started", running.started_at)]
    elif ended is not None:
        word, facts = "Terminated", [("Reason", ended.reason)]
        facts += [("Message", ended.message)] if ended.message else []
        facts += [("Exit Code", str(ended.exit_code)), ("Started", ended.started_at), ("Finished", ended.finished_at)]
    yield _line(title, word, 4)
    yield from (_line(name, value, 6) for name, value in facts)


def _events(events: "list[Event]") -> Iterator[str]:
    if not events:
        yield _line("Events", "<none>")
        return
    yield "Events:"
    yield f"  {'Type':<9}{'Reason':<26}{'Age':<18}Message"
    for each in events:
        since = age(each.last_timestamp)
        shown = f"{since} (x{each.count} over {age(each.first_timestamp)})" if each.count > 1 else since
        where = f"{each.field_path}: " if each.field_path else ""
        yield f"  {each.type:<9}{each.reason:<26}{shown:<18}{where}{on_one_line(each.message)}"


def _line(title: str, value: str, indent: int = 0) -> str:
    head = f"{title}:" if title else ""
    width = _WIDTH if not indent else _WIDTH_OF_CONTAINERS
    # A line of the value itself must not look like a field of its own.
    value = value.replace("\n", f"\n{' ' * width}")
    return f"{' ' * indent}{head:<{width - indent}}{value or '<none>'}"


def _pairs(pairs: dict[str, str]) -> str:
    return "\n".join(f"{key}={value}" for key, value in sorted(pairs.items()))
