"""A pod's life cycle as in a container runtime: sandbox and networks are added, and later removed."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fast_stdlib import span
from harness.files import LockHeldError, write_atomically
from harness.libcni.attachment import ContainerAttachment
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Execution, Executor, PluginError, PluginNotFoundError
from harness.libcni.networks import NetworkError, NetworkList, parse_network_list
from harness.libcni.operations import Libcni
from harness.output import message_of
from harness.runtime.kubernetes import pod_cni_args
from harness.runtime.left_links import note_left_links
from harness.runtime.node import Node
from harness.runtime.pod_plan import NetworkPlan
from harness.runtime.pods import INCOMPLETE, READY, Pod, PodNetwork, PodRecordError, new_pod
from harness.runtime.resolv_conf import pod_resolv_conf
from harness.runtime.sandbox import create_sandbox, new_sandbox_path, sandbox_exists
from netlink.namespace import remove_namespace
from skel.errors import CniError

if TYPE_CHECKING:
    from harness.runtime.namespace_state import NamespaceState

_EXPECTED = (PluginError, NetworkError, CniError, OSError)
"""Errors of plugins, configurations and the kernel. Any other exception is a bug of the harness and is not caught."""

_BIN_DIR = "name the folder of the plugin with --bin-dir"


class PodError(Exception):
    """Something went wrong with one pod."""


@dataclass(frozen=True)
class AddedPod:
    """A pod that now exists; `seconds` is how long making it took, None if it existed before."""

    pod: Pod
    seconds: float | None


class _NodeExecutor(Executor):
    """Runs plugins on a node."""

    def __init__(self, node: Node, bin_dirs: Sequence[Path], observe: Callable[[Execution], None] | None) -> None:
        super().__init__(bin_dirs, observe=observe, place=node.shell_words())
        self._node = node

    def run(self, type: str, verb: str, stdin: bytes, environ: Mapping[str, str]) -> Execution:
        """Run a plugin in the namespaces of the node."""
        return self._node.run(super().run, type, verb, stdin, environ)


class PodRuntime:
    """The pods of one node. Its methods may be called from several threads, each for another pod.

    `bin_dirs` come first on CNI_PATH; after them come the folders that were on it when the pod was made.
    """

    def __init__(
        self,
        node: Node,
        *,
        bin_dirs: Sequence[Path] = (),
        observe: Callable[[Execution], None] | None = None,
        warn: Callable[[str], None],
    ) -> None:
        self.node = node
        self.cache = ResultCache(node.var_lib_cni, warn=warn)
        self._bin_dirs = bin_dirs
        self._observe = observe
        self._warn = warn

    def libcni(self, pods: Iterable[Pod] = ()) -> Libcni:
        """Return the operations of SPEC.md section 3 on this node; CNI_PATH ends with the folders of `pods`."""
        return Libcni(self._executor(pods), self.cache, warn=self._warn)

    def add(self, namespace: str, name: str, networks: Sequence[NetworkPlan], *, exist_ok: bool = False) -> AddedPod:
        """Make a pod on these networks. If that fails, all of it is removed again.

        With `exist_ok`, a complete pod is left as it is, and an incomplete one is made anew.
        Raises PodError, PluginError, NetworkError, OSError.
        """
        begin = time.monotonic()
        try:
            with self.node.pods.claimed(namespace, name, wait=exist_ok) as existing:
                if existing is not None:
                    if exist_ok and existing.state == READY and sandbox_exists(existing.netns):
                        return AddedPod(existing, None)
                    self._make_room(existing, exist_ok=exist_ok)
                pod = self._make(namespace, name, networks)
        except LockHeldError:
            raise PodError("is being made or taken away by somebody else at this moment") from None
        return AddedPod(pod, time.monotonic() - begin)

    def delete(self, namespace: str, name: str, *, force: bool = False) -> Pod | None:
        """Delete a pod and return its record; None if the pod does not exist.

        Continues after errors and reports them together. The record then stays, so that the pod can be deleted again.
        `force` drops the record in any case, even an unreadable one. Raises PodError, PodNameError, PodRecordError.
        """
        pods = self.node.pods
        if not pods.pod_folder(namespace, name).exists():
            return None
        try:
            with pods.claimed(namespace, name) as pod:
                return self._delete(pod, force=force) if pod is not None else None
        except PodRecordError as error:
            if not force:
                error.add_note("--force forgets the pod")
                raise
            pods.forget(namespace, name)
            raise PodError(f"forgotten, not taken away: {error}") from error

    def check(self, pod: Pod) -> list[tuple[PodNetwork, str]]:
        """CHECK every network of a pod, and compare its result with the kernel.

        Returns each network with its error, an empty string for none. Networks with `disableCheck` are skipped.
        """
        from harness.runtime.namespace_state import read_namespace_state  # imports pyroute2; ADD and DEL do not

        state = read_namespace_state(pod.netns)
        if state is None:
            return [(network, f"the sandbox of pod {pod.title} is gone: {pod.netns}") for network in pod.networks]
        return [(network, self._check(pod, network, state)) for network in pod.networks]

    def _check(self, pod: Pod, network: PodNetwork, state: "NamespaceState") -> str:
        from harness.runtime.result_comparison import compare

        problems = []
        try:
            configuration = self._configuration(pod, network)
            if configuration.disable_check:
                return ""
            with _advising(_BIN_DIR):
                self.libcni([pod]).check(configuration, _attachment(pod, network))
        except _EXPECTED as error:
            problems.append(message_of(error))
        problems += [str(each) for each in compare(network, pod.netns, state) if each.mismatch]
        return "; ".join(problems)

    def status(self, network: NetworkList) -> None:
        """Find the plugins of a network, even if its version has no STATUS, and ask them. Raises PluginError."""
        executor = self._executor()
        with _advising(_ways_out(network)):
            for plugin in network.plugins:
                executor.find(plugin.type, "STATUS")
        self.libcni().status(network)

    def _delete(self, pod: Pod, *, force: bool) -> Pod:
        was = Pod.decode(pod.encode())
        errors = self._take_away(pod)
        if errors and force:
            self.node.pods.remove(pod)
        if errors:
            error = PodError("; ".join(errors))
            if not force:
                error.add_note("`cni-harness del` can be repeated; with --force it forgets the pod")
            raise error
        return was

    def _executor(self, pods: Iterable[Pod] = ()) -> Executor:
        folders = dict.fromkeys([*self._bin_dirs, *(Path(folder) for pod in pods for folder in pod.bin_dirs)])
        return _NodeExecutor(self.node, [*folders], self._observe)

    def _make_room(self, existing: Pod, *, exist_ok: bool) -> None:
        if not exist_ok:
            state = "" if existing.state == READY else f" ({existing.state})"
            raise PodError(f"exists already{state}; `cni-harness del {existing.name}` takes it away")
        if errors := self._take_away(existing):
            raise PodError(f"is {existing.state}, and cannot be taken away: {'; '.join(errors)}")

    def _find_plugins(self, networks: Sequence[NetworkPlan]) -> None:
        """Find every plugin before anything is made: DEL fails too if a plugin cannot be run."""
        executor = self._executor()
        for planned in networks:
            with _advising(_ways_out(planned.network)):
                for plugin in planned.network.plugins:
                    for name in filter(None, (plugin.type, plugin.delegate)):
                        executor.find(name, "ADD")

    def _make(self, namespace: str, name: str, networks: Sequence[NetworkPlan]) -> Pod:
        self._find_plugins(networks)
        wanted = [planned.to_network() for planned in networks]
        bin_dirs = [str(folder) for folder in self._bin_dirs]
        pod = new_pod(namespace, name, netns=new_sandbox_path(), bin_dirs=bin_dirs, networks=wanted)
        self.node.pods.write(pod)
        attempted = 0
        try:
            with span("setupNetNS", netns=pod.netns):
                create_sandbox(pod.netns, fixed=self.node.netns is not None)
            libcni = self.libcni()
            with span("setupPodNetwork", pod=pod.title):
                for attempted, planned in enumerate(networks, start=1):
                    network = pod.networks[attempted - 1]
                    network.result = libcni.add(planned.network, _attachment(pod, network))
            dns = [network.decoded().dns for network in pod.networks]
            write_atomically(self.node.pods.resolv_conf(pod), pod_resolv_conf(dns).encode())
            pod.state = READY
            self.node.pods.write(pod)
        except BaseException as error:
            pod.networks = pod.networks[:attempted]
            if errors := self._take_away(pod):
                raise PodError(f"{message_of(error)}; and could not be taken back: {'; '.join(errors)}") from error
            raise
        return pod

    def _take_away(self, pod: Pod) -> list[str]:
        """Undo all of a pod and return the errors; the record keeps the networks that remain to be deleted."""
        errors: list[str] = []
        left: list[PodNetwork] = []
        with span("teardownPodNetwork", pod=pod.title):
            for network in reversed(pod.networks):
                try:
                    libcni = self.libcni([pod])
                    with _advising(_BIN_DIR):
                        libcni.delete(self._configuration(pod, network), _attachment(pod, network))
                except _EXPECTED as error:
                    errors.append(f"network {network.name}: {message_of(error)}")
                    left.insert(0, network)
        note_left_links(self.node, pod.networks, self._warn)
        try:
            remove_namespace(pod.netns)
        except OSError as error:
            errors.append(f"sandbox {pod.netns}: {error.strerror}")
        if errors:
            pod.state = INCOMPLETE
            pod.networks = left
            self.node.pods.write(pod)
        else:
            self.node.pods.remove(pod)
        return errors

    def _configuration(self, pod: Pod, network: PodNetwork) -> NetworkList:
        """Return the network as it was at ADD; it "should not change between ADD and DEL" (SPEC.md section 3)."""
        cached = self.cache.load(network.name, pod.container_id, network.ifname)
        if cached is not None and cached.config:
            with suppress(NetworkError):
                return parse_network_list(cached.config)
        return parse_network_list(network.config.encode())


@contextmanager
def _advising(advice: str) -> Iterator[None]:
    """Add `advice` to the error for a missing plugin."""
    try:
        yield
    except PluginNotFoundError as error:
        error.add_note(advice)
        raise


def _ways_out(network: NetworkList) -> str:
    file = f" ({network.source})" if network.source else ""
    return (
        f"network {network.name}{file} needs it: {_BIN_DIR}, choose another network with --network, or another "
        "folder of network lists with --conf-dir"
    )


def _attachment(pod: Pod, network: PodNetwork) -> ContainerAttachment:
    pairs = pod_cni_args(pod.namespace, pod.name, pod.container_id, pod.uid) | network.cni_args
    return ContainerAttachment(
        container_id=pod.container_id,
        # Empty if the netns is gone, as after a reboot: SPEC.md has DEL succeed without one, not with a dead path.
        netns=pod.netns if sandbox_exists(pod.netns) else "",
        ifname=network.ifname,
        cni_args=tuple(pairs.items()),
        capability_args=network.capability_args,
    )
