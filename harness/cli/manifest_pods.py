"""The pods of manifests with the states that they have now, also while no kubelet looks at them.

When a signal ends `run` or `delete`, those that stay on the node are named, with the command that removes them.
"""

import shlex
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from harness.cli.kubectl import pod_row
from harness.cli.kubelet_node import choose_endpoint, is_running, node_name, open_runtime, pods_on_record
from harness.cli.options import Settings, warn
from harness.output import age, message_of, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from api.pod import V1Pod
    from api.status import V1PodStatus
    from harness.cri.service import RuntimeService
    from harness.runtime.pod_record import Pod


def pods_at_present(settings: Settings) -> "list[tuple[V1Pod, V1PodStatus]]":
    """Return the pods that kubelet has taken on, with their present statuses.

    While no kubelet works on the node, the runtime is asked which containers run. If it gives no answer, stderr says
    so, and the statuses are those told last.
    """
    from harness.cri.service import RuntimeServiceError
    from harness.kubelet.status.api_status import unattended_status

    told = pods_on_record(settings)
    if not told or is_running(settings):
        return told
    try:
        with reading_runtime(settings) as service:
            return [(pod, unattended_status(pod, status, service)) for pod, status in told]
    except (RuntimeServiceError, OSError, click.ClickException) as error:
        say(f"Warning: no kubelet runs, and the runtime gives no answer: {message_of(error)}")
        files = settings.kubelet_paths().pods.glob("*/status.json")
        newest = max((file.stat().st_mtime for file in files), default=0.0)
        say(f"Warning: the newest status is {age(datetime.fromtimestamp(newest, UTC).isoformat())} old")
        return told


def every_pod(settings: Settings) -> "list[tuple[V1Pod, V1PodStatus]]":
    """Return the pods of manifests as `pods_at_present` has them, and bare pods, by namespace and name."""
    from harness.runtime.pod_view import pod_state

    bare = [pod for pod in settings.open_node().pods.all(on_error=warn) if pod.is_bare]
    found = pods_at_present(settings) + [_bare_pod(pod, pod_state(pod), node_name(settings)) for pod in bare]
    return sorted(found, key=lambda each: (each[0].metadata.namespace, each[0].metadata.name))


def _bare_pod(pod: "Pod", state: str, node_name: str) -> "tuple[V1Pod, V1PodStatus]":
    """Return a pod that `add` has made, as the API shows pods; `state` is that of `list` (harness.runtime.pod_view)."""
    from api.pod import V1Metadata, V1Pod, V1PodSpec
    from api.status import PENDING, RUNNING, V1PodCondition, V1PodStatus

    metadata = V1Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    described = V1Pod(metadata=metadata, spec=V1PodSpec(node_name=node_name))
    ips = [str(ip.address.ip) for network in pod.networks[:1] for ip in network.decoded().ips]
    status = V1PodStatus(
        phase={"ready": RUNNING, "incomplete": PENDING}.get(state, "Unknown"),
        pod_ip=next(iter(ips), ""),
        pod_ips=ips,
        start_time=pod.created,
        conditions=[V1PodCondition(type="PodReadyToStartContainers", status=str(state == "ready"))],
    )
    return described, status


def one_pod(settings: Settings, namespace: str, name: str) -> "tuple[V1Pod, V1PodStatus]":
    """Return one pod as kubectl sees it: a manifest's if one has the name. Raises ClickException."""
    named = [
        each for each in every_pod(settings) if (each[0].metadata.namespace, each[0].metadata.name) == (namespace, name)
    ]
    if not named:
        raise click.ClickException(f'pods "{name}" not found in namespace {namespace}')
    return max(named, key=lambda each: bool(each[0].spec.containers))


def requests_without_effect(settings: Settings, pod: "V1Pod") -> list[str]:
    """Return a sentence for each kind of host port and bandwidth limit of a pod that no plugin of its networks gets.

    None if the pod has no sandbox, or the runtime gives no answer.
    """
    from harness.cri.messages import PodSandboxState
    from harness.cri.service import RuntimeServiceError
    from harness.kubelet.labels import POD_UID
    from harness.kubelet.requests.sandbox_config import pod_sandbox_config

    if pod.spec.host_network:
        return []
    with suppress(RuntimeServiceError, OSError, click.ClickException), reading_runtime(settings) as service:
        sandboxes = service.list_pod_sandbox({POD_UID: pod.metadata.uid})
        ready = [each.id for each in sandboxes if each.state is PodSandboxState.READY]
        if ready:
            config = pod_sandbox_config(pod, 0, dns=None, log_directory="", cgroup_parent="")
            return [request.in_words() for each in ready for request in service.unserved_requests(each, config)]
    return []


@contextmanager
def reading_runtime(settings: Settings) -> "Iterator[RuntimeService]":
    """Yield the runtime of the node's pods, for calls that only read: the own one knows no network lists.

    Raises click.ClickException, OSError, RuntimeServiceError.
    """
    from harness.containerd.sandbox_networks import SandboxNetworks
    from harness.containerd.service import BuiltinRuntime

    folder = settings.open_node().folder
    if choose_endpoint(folder, ""):
        with open_runtime(settings) as service:
            yield service
        return
    networks = SandboxNetworks(settings.open_node, folder, (), warn=say)
    yield BuiltinRuntime(folder, settings.open_node, networks, take_over=False)


@contextmanager
def naming_remaining_pods(settings: Settings, pods: "Sequence[V1Pod]", *, ending: bool = False) -> "Iterator[None]":
    """If a signal ends the block, name on stderr those of the pods that stay, and the command that removes them.

    `ending` says that the block removes the pods; otherwise it makes them.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _name_remaining(settings, {pod.metadata.uid for pod in pods}, ending=ending)
        raise


def _name_remaining(settings: Settings, uids: set[str], *, ending: bool) -> None:
    kept = [(pod, status) for pod, status in pods_at_present(settings) if pod.metadata.uid in uids]
    if not kept:
        return
    named = []
    for pod, status in kept:
        namespace, name, ready, word, _, _, address = pod_row(pod, status)
        named.append(f"{namespace}/{name} ({', '.join(filter(None, (f'{ready} {word}', address)))})")
    say(f"{'Not removed' if ending else 'Kept'}: {', '.join(named)}")
    each = _delete_commands(settings, [pod for pod, _ in kept])
    commands = " and ".join(f"`{command}`" for command in each)
    removes, goes = ("removes", "goes") if len(each) == 1 else ("remove", "go")
    if is_running(settings):
        rest = "The running kubelet goes on with them"
        say(rest if ending else f"{rest}; {commands} {removes} them")
    elif ending:
        say(f"{commands} {goes} on")
    else:
        say(f"{commands} {removes} them; the same command again goes on with them")


def _delete_commands(settings: Settings, pods: "Sequence[V1Pod]") -> list[str]:
    """Return the command lines that end the pods, from any shell: one for each namespace."""
    folders = []
    if "conf_dir" in settings.named:
        folders += ["--conf-dir", str(settings.conf_dir)]
    if "bin_dirs" in settings.named:
        folders += ["--bin-dir", ":".join(map(str, settings.bin_dirs))]
    names: dict[str, list[str]] = {}
    for pod in pods:
        names.setdefault(pod.metadata.namespace, []).append(pod.metadata.name)
    program = settings.open_node().program()
    options = {each: [] if each == "default" else ["--namespace", each] for each in names}
    return [f"{program} {shlex.join([*folders, 'delete', *options[each], *names[each]])}" for each in names]
