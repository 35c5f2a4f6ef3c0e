"""The base of the verbs of kubelet: the runtime of the node's pods, the lock, and the pods on record."""

import functools
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from fast_stdlib import recorder
from harness.cli.option_types import time_option
from harness.cli.options import Settings
from harness.files import LockHeldError, locked, write_atomically
from harness.output import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.pod import V1Pod
    from api.status import V1PodStatus
    from harness.containerd.service import BuiltinRuntime
    from harness.cri.remote.client import RemoteRuntime
    from harness.cri.service import ImageService, RuntimeService
    from harness.kubelet.assembly import Assembled

DEFAULT_TIMEOUT_S = 30.0
_LOCK_TRIES = 3
_LOCK_PAUSE_S = 0.02
"""`is_running` holds a shared lock for some microseconds."""

runtime_endpoint_option = click.option(
    "--runtime-endpoint",
    envvar="CONTAINER_RUNTIME_ENDPOINT",
    show_envvar=True,
    default="",
    metavar="URL",
    help="The socket of a container runtime, as unix:///run/containerd/containerd.sock.  [default: the runtime of the "
    "node's pods, else this program's own]",
)
"""Adds --runtime-endpoint, the runtime behind the Container Runtime Interface."""

_ENDPOINT_FILE = "runtime-endpoint"
"""The endpoint of the verb that started the node's pods, kept until none is left. So `exec` and `delete` need no
--runtime-endpoint, and no verb looks for the pods of one runtime in another."""


class BusyError(click.ClickException):
    """A kubelet, or another verb in its place, works on the node at this moment."""

    def __init__(self) -> None:
        super().__init__("another kubelet works on this node at this moment")


class RuntimeChoice(NamedTuple):
    """Which container runtime, and how long the own one waits for a plugin, in seconds."""

    endpoint: str
    plugin_timeout: float


def runtime_options(function: "Callable[..., int]") -> "Callable[..., int]":
    """Add the options of the container runtime to a verb, which gets them as `runtime`."""

    @functools.wraps(function)
    def with_choice(*args: object, runtime_endpoint: str, plugin_timeout: float, **options: object) -> int:
        return function(*args, runtime=RuntimeChoice(runtime_endpoint, plugin_timeout), **options)

    words, default = "How long one execution of a CNI plugin may take.", f"{DEFAULT_TIMEOUT_S:g}s"
    limit = time_option("--plugin-timeout", words, default, positive=True)
    return runtime_endpoint_option(limit(with_choice))


def node_name(settings: Settings) -> str:
    """Return the name that the node has in Kubernetes: that of --node, or the host's."""
    return (settings.node or os.uname().nodename).lower()


def is_running(settings: Settings) -> bool:
    """Tell whether a kubelet, or another verb in its place, works on the node now."""
    lock = settings.kubelet_paths().lock
    if not lock.exists():
        return False
    try:
        with locked(lock, shared=True, wait=False):
            return False
    except LockHeldError:
        return True


def choose_endpoint(folder: Path, given: str) -> str:
    """Return the endpoint for the node whose files are in `folder`; empty for this program's own runtime.

    Raises ClickException if another than the `given` one has pods of the node.
    """
    path = folder / _ENDPOINT_FILE
    kept = path.read_text() if path.exists() else given
    if given and given != kept:
        place = kept or "the runtime of cni-harness"
        raise click.ClickException(
            f"this node's pods of manifests are in {place}, says {path}: `cni-harness delete NAME` ends one"
        )
    return kept


def keep_endpoint(folder: Path, endpoint: str) -> None:
    """Note the runtime of the node's pods. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _ENDPOINT_FILE, endpoint.encode())


def forget_endpoint(folder: Path) -> None:
    """Allow another runtime: no pod of the node is left. Raises OSError."""
    (folder / _ENDPOINT_FILE).unlink(missing_ok=True)


@contextmanager
def open_kubelet(settings: Settings, choice: RuntimeChoice, *, alone: bool = False) -> "Iterator[Assembled]":
    """Yield a kubelet for the node, which is not started.

    `alone` takes the node's kubelet lock and takes over what an ended process left; without, nothing may be changed.
    Raises BusyError if the lock is held, OSError, RuntimeServiceError.
    """
    from harness.kubelet.assembly import assemble

    folder = settings.open_node().folder
    with ExitStack() as stack:
        if alone:
            _take_lock(stack, settings.kubelet_paths().lock)
        endpoint = choose_endpoint(folder, choice.endpoint)
        service, images = _runtime(settings, choice._replace(endpoint=endpoint), stack, take_over=alone)
        open_node = functools.partial(settings.open_node, threads=1)
        assembled = assemble(node_name(settings), folder, open_node, service, images, say=say)
        if alone:  # the runtime has answered
            keep_endpoint(folder, endpoint)
            stack.callback(lambda: None if pods_on_record(settings) else forget_endpoint(folder))
        yield assembled


def _take_lock(stack: ExitStack, lock: Path) -> None:
    """Hold the node's kubelet lock until `stack` ends. Raises BusyError."""
    for _ in range(_LOCK_TRIES):
        with suppress(LockHeldError):
            stack.enter_context(locked(lock, wait=False))
            return
        time.sleep(_LOCK_PAUSE_S)
    raise BusyError


@contextmanager
def open_runtime(settings: Settings, endpoint: str = "") -> "Iterator[RuntimeService]":
    """Yield the runtime's service for pods, without taking anything over. Raises OSError, RuntimeServiceError."""
    with ExitStack() as stack:
        endpoint = choose_endpoint(settings.open_node().folder, endpoint)
        service, _ = _runtime(settings, RuntimeChoice(endpoint, DEFAULT_TIMEOUT_S), stack, take_over=False)
        yield service


def run_pass(assembled: "Assembled", is_over: "Callable[[], bool]") -> None:
    """Run a kubelet's loop until `is_over`, with all pods on record, and end it; the pods stay. Raises OSError."""
    from harness.kubelet.sources import Sources

    kubelet = assembled.kubelet
    sources = Sources(assembled.records, manifests=None, node_name="", say=say)
    sources.on_pods = kubelet.set_pods
    kubelet.start()
    try:
        sources.look()
        kubelet.run(until=is_over)
    except (KeyboardInterrupt, SystemExit):
        say("Interrupted: finishing the steps under way")  # a stop signal's grace period may be one of them
        raise
    finally:
        assembled.close()


def pods_on_record(settings: Settings) -> "list[tuple[V1Pod, V1PodStatus]]":
    """Return the pods that kubelet has taken on, with the statuses that it told last."""
    from api.status import V1PodStatus
    from harness.kubelet.pod_records import PodRecords

    records = PodRecords(settings.kubelet_paths())
    return [(pod, records.status(pod.metadata.uid) or V1PodStatus(phase="Pending")) for pod in records.pods()]


def _runtime(
    settings: Settings, choice: RuntimeChoice, stack: ExitStack, *, take_over: bool
) -> "tuple[RuntimeService, ImageService]":
    """Return the runtime's two services, traced if a trace is recorded.

    Raises ClickException, OSError, RuntimeServiceError.
    """
    runtime: RemoteRuntime | BuiltinRuntime
    if choice.endpoint:
        runtime = _remote_runtime(settings, choice.endpoint, stack)
    else:
        runtime = _builtin_runtime(settings, choice.plugin_timeout, stack, take_over=take_over)
    if recorder() is None:
        return runtime, runtime.images
    from harness.cri.traced import traced_service

    return traced_service(runtime), traced_service(runtime.images)


def _builtin_runtime(settings: Settings, timeout: float, stack: ExitStack, *, take_over: bool) -> "BuiltinRuntime":
    """Return this program's own runtime; `timeout` is for a plugin, in seconds. Raises ClickException, OSError."""
    from harness.cli.execution_log import execution_logger
    from harness.containerd.sandbox_networks import SandboxNetworks
    from harness.containerd.service import BuiltinRuntime

    open_node = functools.partial(settings.open_node, threads=1)
    conf_dir, bin_dirs = _lists_and_plugins(settings, stack)
    observe = execution_logger(settings.verbose)
    networks = SandboxNetworks(open_node, conf_dir, bin_dirs, timeout=timeout, observe=observe, warn=say)
    return BuiltinRuntime(settings.open_node().folder, open_node, networks, take_over=take_over)


def _lists_and_plugins(settings: Settings, stack: ExitStack) -> tuple[Path, tuple[Path, ...]]:
    """Return the folder of lists and those of plugins: this project's own if the usual ones lack them, as for `add`.

    A folder that is named may be empty: the node is not ready then. The own plugins stay on CNI_PATH once they are
    there, since a pod's DEL may need them. Raises InstallError, NetworkError, OSError.
    """
    from harness.cli.defaults import network_folder, plugin_folders, plugin_types
    from harness.libcni.networks import NetworkError, load_networks

    conf_dir = settings.conf_dir or network_folder(settings)
    first = []
    with suppress(NetworkError):  # the runtime's condition NetworkReady tells it
        first = load_networks(conf_dir)[:1]
    folders = stack.enter_context(plugin_folders(settings, plugin_types(first)))
    own = settings.state_dir / "bin"
    return conf_dir, (*folders, own) if own.is_dir() and own not in folders else folders


def _remote_runtime(settings: Settings, endpoint: str, stack: ExitStack) -> "RemoteRuntime":
    """Return the runtime behind a socket, limited to the pods of this node's folder.

    Raises ClickException if the client's packages are missing, RuntimeServiceError.
    """
    try:
        from harness.cri.remote.client import RemoteRuntime
    except ModuleNotFoundError as error:
        message = f"--runtime-endpoint needs the Python package {error.name}: pip install 'cni-harness[cri]'"
        raise click.ClickException(message) from None
    return stack.enter_context(RemoteRuntime(endpoint, owner=str(settings.open_node().folder)))
