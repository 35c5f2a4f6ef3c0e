"""The networks of a pod: their plan, and ADD, CHECK and DEL with the arguments on its record.

It is the same for bare pods and for sandboxes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fast_stdlib import span
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Execution, Executor, PluginError, PluginNotFoundError
from harness.libcni.networks import NetworkError, NetworkList, parse_network_list
from harness.libcni.operations import Libcni
from harness.libcni.request import ContainerAttachment
from harness.output import message_of
from harness.runtime.kubernetes import pod_cni_args
from harness.runtime.left_links import note_left_links
from harness.runtime.node import Node
from harness.runtime.pod_record import Pod, PodNetwork
from harness.runtime.sandbox import sandbox_exists
from skel.errors import CniError
from skel.versions import VERB_SINCE, at_least

if TYPE_CHECKING:
    from harness.runtime.namespace_state import NamespaceState


@dataclass(frozen=True)
class NetworkPlan:
    """A network for a new pod; `cni_args` are added to the pairs of every pod, or replace them."""

    network: NetworkList
    ifname: str
    cni_args: Mapping[str, str]
    capability_args: Mapping[str, object]

    def to_network(self) -> PodNetwork:
        """Return the record of the network before its ADD."""
        return PodNetwork(
            name=self.network.name,
            ifname=self.ifname,
            config=self.network.raw.decode(),
            source=str(self.network.source or ""),
            cni_args=dict(self.cni_args),
            capability_args=dict(self.capability_args),
        )


EXPECTED: Final = (PluginError, NetworkError, CniError, OSError)
"""Errors of plugins, configurations and the kernel. Any other exception is a bug of the harness and is not caught."""


_LOOPBACK: Final = "lo"
"""containerd's list for it is of a version without CHECK."""


class _NodeExecutor(Executor):
    """Runs plugins on a node."""

    def __init__(
        self, node: Node, bin_dirs: Sequence[Path], timeout: float, observe: Callable[[Execution], None] | None
    ) -> None:
        super().__init__(bin_dirs, timeout=timeout, observe=observe, place=node.shell_words())
        self._node = node

    def run(self, type: str, verb: str, stdin: bytes, environ: Mapping[str, str]) -> Execution:
        """Run a plugin in the namespaces of the node."""
        return self._node.run(super().run, type, verb, stdin, environ)


class PodNetworks:
    """The networks of the pods on one node, inside of `Node.in_use`. Threads may share it, each for another pod.

    `bin_dirs` come first on CNI_PATH; after them come the folders that were on it when the pod was made. `timeout`
    limits one plugin, in seconds. `advice` is a note for the error of a missing plugin.
    """

    def __init__(
        self,
        node: Node,
        bin_dirs: Sequence[Path],
        *,
        timeout: float = 60.0,
        observe: Callable[[Execution], None] | None = None,
        warn: Callable[[str], None],
        advice: str = "",
    ) -> None:
        self.node = node
        self.cache = ResultCache(node.var_lib_cni, warn=warn)
        self._bin_dirs = bin_dirs
        self._timeout = timeout
        self._observe = observe
        self._warn = warn
        self._advice = advice

    def executor(self, pods: Iterable[Pod] = ()) -> Executor:
        """Return what executes plugins on the node; CNI_PATH ends with the folders of `pods`."""
        folders = dict.fromkeys([*self._bin_dirs, *(Path(folder) for pod in pods for folder in pod.bin_dirs)])
        return _NodeExecutor(self.node, [*folders], self._timeout, self._observe)

    def libcni(self, pods: Iterable[Pod] = ()) -> Libcni:
        """Return the operations of SPEC.md section 3 on the node; CNI_PATH ends with the folders of `pods`."""
        return Libcni(self.executor(pods), self.cache, warn=self._warn)

    def setup(self, pod: Pod, lists: Sequence[NetworkList]) -> None:
        """ADD each network of a pod by its list, in their order, and put the results on its record.

        If one fails, it is the last one that the record has afterwards; libcni has undone its ADD.
        """
        libcni = self.libcni()
        with span("setupPodNetwork", **_named(pod)):
            for number, (network, listed) in enumerate(zip(pod.networks, lists, strict=True), start=1):
                try:
                    network.result = libcni.add(listed, attachment(pod, network))
                except BaseException:
                    pod.networks = pod.networks[:number]
                    raise

    def teardown(self, pod: Pod, *, only_added: bool = False) -> list[tuple[PodNetwork, str]]:
        """DEL each network in reverse order, past failures; return those whose DEL failed, with the errors.

        They alone remain in the record. With `only_added`, a network without a result needs no DEL.
        """
        failed: list[tuple[PodNetwork, str]] = []
        with span("teardownPodNetwork", **_named(pod)):
            for network in reversed(pod.networks):
                if network.result is None and only_added:
                    continue
                try:
                    self.delete(pod, network)
                except EXPECTED as error:
                    failed.insert(0, (network, message_of(error)))
        pod.networks = [network for network, _ in failed]
        return failed

    def delete(self, pod: Pod, network: PodNetwork) -> None:
        """DEL one network of a pod, with its list as it was at ADD. Raises one of EXPECTED."""
        with advising(self._advice):
            self.libcni([pod]).delete(self.configuration(pod, network), attachment(pod, network))
        note_left_links(self.node, [network], self._warn)

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
            configuration = self.configuration(pod, network)
            if configuration.disable_check:
                return ""
            if network.ifname != _LOOPBACK or at_least(configuration.cni_version, VERB_SINCE["CHECK"]):
                with advising(self._advice):
                    self.libcni([pod]).check(configuration, attachment(pod, network))
        except EXPECTED as error:
            problems.append(message_of(error))
        problems += [str(each) for each in compare(network, pod.netns, state) if each.mismatch]
        return "; ".join(problems)

    def configuration(self, pod: Pod, network: PodNetwork) -> NetworkList:
        """Return the network as it was at ADD; it "should not change between ADD and DEL" (SPEC.md section 3)."""
        cached = self.cache.load(network.name, pod.container_id, network.ifname)
        if cached is not None and cached.config:
            with suppress(NetworkError):
                return parse_network_list(cached.config)
        return parse_network_list(network.config.encode())


def _named(pod: Pod) -> dict[str, Any]:
    """Return what names a pod in a trace: in a kubelet's, the spans around name the pod."""
    return {"pod": pod.title} if pod.is_bare else {"netns": pod.netns}


@contextmanager
def advising(advice: str) -> Iterator[None]:
    """Add `advice` to the error for a missing plugin."""
    try:
        yield
    except PluginNotFoundError as error:
        if advice:
            error.add_note(advice)
        raise


def attachment(pod: Pod, network: PodNetwork) -> ContainerAttachment:
    """Return the arguments of a network's plugins."""
    pairs = pod_cni_args(pod.namespace, pod.name, pod.container_id, pod.uid) | network.cni_args
    return ContainerAttachment(
        container_id=pod.container_id,
        # Empty if the netns is gone, as after a reboot: SPEC.md has DEL succeed without one, not with a dead path.
        netns=pod.netns if sandbox_exists(pod.netns) else "",
        ifname=network.ifname,
        cni_args=tuple(pairs.items()),
        capability_args=network.capability_args,
    )
