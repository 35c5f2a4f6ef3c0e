"""A pod's life cycle as in a container runtime: sandbox and networks are added, and later removed.

Networks of a pod that exists come and go with `connect` and `disconnect`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from fast_stdlib import span
from harness.files import LockHeldError, write_atomically
from harness.libcni.execute import Execution
from harness.libcni.networks import NetworkList
from harness.output import message_of
from harness.runtime.node import Node
from harness.runtime.pod_networks import EXPECTED, NetworkPlan, PodNetworks, advising, attachment
from harness.runtime.pod_record import Pod, PodNetwork, new_pod
from harness.runtime.pods import PodRecordError
from harness.runtime.resolv_conf import pod_resolv_conf
from harness.runtime.sandbox import create_sandbox, new_sandbox_path
from harness.runtime.sandbox_life import SandboxEvent, SandboxState
from netlink.namespace import remove_namespace

OWN_INTERFACES: Final = ("lo", "eth0")
"""Those of a kubelet's pod that are there as long as it runs."""

_BIN_DIR: Final = "name the folder of the plugin with --bin-dir"


class PodError(Exception):
    """Something went wrong with one pod."""


@dataclass(frozen=True)
class AddedPod:
    """A pod that now exists; `seconds` is how long making it took, None if it existed before."""

    pod: Pod
    seconds: float | None


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
        self.networks = PodNetworks(node, bin_dirs, observe=observe, warn=warn, advice=_BIN_DIR)
        self._bin_dirs = bin_dirs

    def add(self, namespace: str, name: str, networks: Sequence[NetworkPlan], *, exist_ok: bool = False) -> AddedPod:
        """Make a pod on these networks. If that fails, all of it is removed again.

        With `exist_ok`, a complete pod is left as it is, and an incomplete one is made anew.
        Raises PodError, PluginError, NetworkError, OSError.
        """
        begin = time.monotonic()
        with self._claimed(namespace, name, wait=exist_ok) as existing:
            if existing is not None:
                if exist_ok and existing.is_ready():
                    return AddedPod(existing, None)
                self._make_room(existing, exist_ok=exist_ok)
            elif others := self.node.pods.named(namespace, name):
                if exist_ok and others[0].is_ready():
                    return AddedPod(others[0], None)
                raise PodError(f"exists already; `cni-harness del {name}` takes it away")
            pod = self._make(namespace, name, networks)
        return AddedPod(pod, time.monotonic() - begin)

    def delete(self, namespace: str, name: str, *, force: bool = False) -> Pod | None:
        """Delete a bare pod and return its record; None if the pod does not exist.

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

    def connect(self, pod: Pod, planned: NetworkPlan) -> PodNetwork:
        """Join a pod to one more network, and return the network with its result. If that fails, all is as before.

        Without an interface's name in the plan it gets the first free one of net1, net2 and so on. An interface that an
        interrupted `connect` left is removed first. Raises PodError, PluginError, NetworkError, OSError.
        """
        self._find_plugins([planned])
        with self._changing(pod) as present:
            taken = {network.ifname for network in present.networks}
            free = (name for number in count(1) if (name := f"net{number}") not in taken)
            ifname = planned.ifname or next(free)
            for known in [each for each in present.networks if each.ifname == ifname]:
                if known.result is not None:
                    raise PodError(f"pod {present.title} has {ifname} already, on network {known.name}")
                self._remove(present, known)
            network = replace(planned, ifname=ifname).to_network()
            present.networks.append(network)
            self.node.pods.write(present)
            try:
                network.result = self.networks.libcni().add(planned.network, attachment(present, network))
            except BaseException as error:
                try:
                    self._remove(present, network)
                except EXPECTED as failure:
                    error.add_note(f"and taking it back: {message_of(failure)}")
                raise
            present.bin_dirs += [folder for folder in map(str, self._bin_dirs) if folder not in present.bin_dirs]
        return network

    def disconnect(self, pod: Pod, network_name: str, ifname: str = "") -> PodNetwork:
        """Take a pod off a network, and return the network. If its DEL fails, it stays on record: this can be repeated.

        Raises PodError, also if the pod is on the network several times and `ifname` is empty; one of EXPECTED.
        """
        with self._changing(pod) as present:
            network = _connected(present, network_name, ifname)
            self._remove(present, network)
        return network

    @contextmanager
    def _changing(self, pod: Pod) -> Iterator[Pod]:
        """Lock a pod whose networks change, and keep record and resolv.conf up to date. Raises PodError, OSError."""
        with self.node.pods.claimed_again(pod) as present:
            if present is None:
                raise PodError(f"pod {pod.title} is another runtime's, or has just ended")
            if not present.netns:
                raise PodError(f"pod {pod.title} is on the network of its node")
            if not present.is_ready():
                raise PodError(f"pod {pod.title} is not ready")
            if present.state is SandboxState.READY:
                present.apply(SandboxEvent.CHANGE)
            try:
                yield present
            except PodError:  # refused before anything was changed
                raise
            except BaseException:
                self._end_change(present)
                raise
            self._end_change(present)

    def _end_change(self, pod: Pod) -> None:
        pod.apply(SandboxEvent.CHANGED)
        if pod.is_bare:
            self._write_resolv_conf(pod)
        self.node.pods.write(pod)

    def _remove(self, pod: Pod, network: PodNetwork) -> None:
        """DEL one network of a pod whose networks change. Raises one of EXPECTED; then it stays on the record."""
        self.node.pods.write(pod)
        self.networks.delete(pod, network)
        pod.networks.remove(network)

    def status(self, network: NetworkList) -> None:
        """Find the plugins of a network, even if its version has no STATUS, and ask them. Raises PluginError."""
        executor = self.networks.executor()
        with advising(_ways_out(network)):
            for plugin in network.plugins:
                executor.find(plugin.type, "STATUS")
        self.networks.libcni().status(network)

    @contextmanager
    def _claimed(self, namespace: str, name: str, *, wait: bool) -> Iterator[Pod | None]:
        try:
            with self.node.pods.claimed(namespace, name, wait=wait) as existing:
                yield existing
        except LockHeldError:
            raise PodError("is being made or taken away by somebody else at this moment") from None

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

    def _make_room(self, existing: Pod, *, exist_ok: bool) -> None:
        state = "ready" if existing.state is SandboxState.READY else "incomplete"
        if not exist_ok:
            words = "" if existing.state is SandboxState.READY else f" ({state})"
            raise PodError(f"exists already{words}; `cni-harness del {existing.name}` takes it away")
        if errors := self._take_away(existing):
            raise PodError(f"is {state}, and cannot be taken away: {'; '.join(errors)}")

    def _find_plugins(self, networks: Sequence[NetworkPlan]) -> None:
        """Find every plugin before anything is made: DEL fails too if a plugin cannot be run."""
        executor = self.networks.executor()
        for planned in networks:
            with advising(_ways_out(planned.network)):
                for plugin in planned.network.plugins:
                    for name in filter(None, (plugin.type, plugin.delegate)):
                        executor.find(name, "ADD")

    def _make(self, namespace: str, name: str, networks: Sequence[NetworkPlan]) -> Pod:
        self._find_plugins(networks)
        wanted = [planned.to_network() for planned in networks]
        bin_dirs = [str(folder) for folder in self._bin_dirs]
        pod = new_pod(namespace, name, netns=new_sandbox_path(), bin_dirs=bin_dirs, networks=wanted)
        self.node.pods.write(pod)
        pod.networks = []
        try:
            with span("setupNetNS", netns=pod.netns):
                create_sandbox(pod.netns, fixed=self.node.netns is not None)
            pod.networks = wanted
            self.networks.setup(pod, [planned.network for planned in networks])
            self._write_resolv_conf(pod)
            pod.apply(SandboxEvent.MADE)
            self.node.pods.write(pod)
        except BaseException as error:
            if errors := self._take_away(pod):
                raise PodError(f"{message_of(error)}; and could not be taken back: {'; '.join(errors)}") from error
            raise
        return pod

    def _take_away(self, pod: Pod) -> list[str]:
        """Undo all of a pod and return the errors; the record keeps the networks that remain to be deleted."""
        errors = [f"network {network.name}: {text}" for network, text in self.networks.teardown(pod)]
        try:
            remove_namespace(pod.netns)
        except OSError as error:
            errors.append(f"sandbox {pod.netns}: {error.strerror}")
        if errors:
            if pod.state is not SandboxState.UNKNOWN:
                pod.apply(SandboxEvent.LEFT)
            self.node.pods.write(pod)
        else:
            self.node.pods.remove(pod)
        return errors

    def _write_resolv_conf(self, pod: Pod) -> None:
        dns = [network.decoded().dns for network in pod.networks]
        write_atomically(self.node.pods.resolv_conf(pod), pod_resolv_conf(dns).encode())


def _connected(pod: Pod, network: str, ifname: str) -> PodNetwork:
    """Return the network of a pod that `disconnect` names. Raises PodError."""
    found = [each for each in pod.networks if each.name == network and ifname in {"", each.ifname}]
    if not found:
        has = ", ".join(f"{each.name} ({each.ifname})" for each in pod.networks) or "none"
        wanted = f"{network} as {ifname}" if ifname else network
        raise PodError(f"pod {pod.title} is not on network {wanted}; its networks: {has}")
    if len(found) > 1:
        names = ", ".join(each.ifname for each in found)
        raise PodError(f"pod {pod.title} is on network {network} as {names}: name one with --ifname")
    if not pod.is_bare and found[0].ifname in OWN_INTERFACES:
        raise PodError(f"pod {pod.title} needs {found[0].ifname} as long as it runs: its kubelet has told its address")
    return found[0]


def _ways_out(network: NetworkList) -> str:
    file = f" ({network.source})" if network.source else ""
    return (
        f"network {network.name}{file} needs it: {_BIN_DIR}, choose another network with --network, or another "
        "folder of network lists with --conf-dir"
    )
