"""All verbs of this project's own libcni, for all lists of recorders, on a node that is removed afterwards."""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from harness.conformance.runtime_checks.networks import FIRST, NETWORKS, RecordedNetwork
from harness.conformance.runtime_checks.recorder import install
from harness.conformance.runtime_checks.records import Records, Report, add_report, read_records
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor, PluginError
from harness.libcni.networks import NetworkError, NetworkList, read_network_file
from harness.libcni.operations import Libcni, plugin_versions
from harness.libcni.request import ContainerAttachment
from harness.output import message_of
from harness.runtime.node import Node
from harness.runtime.site import Site
from netlink.namespace import remove_namespace
from skel.errors import CniError
from skel.versions import CURRENT

_CAPABILITY_ARGS: Final = {
    "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
    "dns": {"servers": ["192.0.2.53"]},
    "bandwidth": {"ingressRate": 1_000_000},
    "aliases": {FIRST: ["witnessed"]},
    "mac": "02:00:00:00:00:01",
}
_CNI_ARGS: Final = (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "witnessed"))
_TIMEOUT_S: Final = 300.0
"""For one recorder, which does little: only a hang reaches it."""


class OwnLibcni(Libcni):
    """This project's own libcni, with the executor of its plugins."""

    def __init__(self, executor: Executor, cache_dir: Path) -> None:
        """Use `cache_dir` for results."""
        super().__init__(executor, ResultCache(cache_dir, warn=lambda _: None), warn=lambda _: None)
        self.executor = executor

    def versions(self, network: NetworkList) -> None:
        """Ask the first plugin for its versions. Raises PluginError."""
        plugin_versions(self.executor, network.plugins[0].type)

    def read(self, path: Path) -> NetworkList:
        """Read a network list. Raises NetworkError."""
        return read_network_file(path)


class RuntimeDriver:
    """Drives a runtime: operations on a node, each reported as the runtime reports it to its caller."""

    def __init__(self, site: Site, node: Node, runtime: OwnLibcni, folder: Path) -> None:
        """Store the runtime; `folder` has records, executables and lists."""
        self.site = site
        self.node = node
        self.runtime = runtime
        self.records = folder / "records"
        self.lists = {network.name: folder / "lists" / network.file for network in NETWORKS}

    def attachment(self, ifname: str = "eth0", netns: str = "") -> ContainerAttachment:
        """Return an attachment of a new container, in a new network namespace unless it has one."""
        where = netns or self.site.namespace()
        return ContainerAttachment(uuid.uuid4().hex, where, ifname, _CNI_ARGS, _CAPABILITY_ARGS)

    def ask(
        self, verb: str, network: str, act: Callable[[], object], attachment: ContainerAttachment | None = None
    ) -> bool:
        """Have the runtime act on the node, report the end to the records, and return whether it succeeded."""
        result, error = None, ""
        try:
            result = self.node.run(act)
        except (PluginError, CniError, NetworkError, ExceptionGroup) as failure:
            error = message_of(failure)
        container, ifname = (attachment.container_id, attachment.ifname) if attachment else ("", "")
        printed = result if isinstance(result, dict) else None
        add_report(self.records, Report(network, verb, container, ifname, printed, error))
        return not error

    def read(self, network: str) -> NetworkList | None:
        """Have the runtime read a list; None if it refuses."""
        try:
            return self.runtime.read(self.lists[network])
        except NetworkError as error:
            add_report(self.records, Report(network, "ADD", error=str(error)))
            return None

    def end(self, *attachments: ContainerAttachment) -> None:
        """End containers: their namespaces go."""
        for netns in {attachment.netns for attachment in attachments}:
            with suppress(FileNotFoundError):
                remove_namespace(netns)


def drive_libcni(state_dir: Path, networks: Sequence[RecordedNetwork] = NETWORKS) -> Records:
    """Drive our own libcni through all verbs for `networks`; return the records. Raises OSError, RecordError."""
    with Site(state_dir, "runtime") as site:
        node = site.node(threads=4)
        folder = node.folder / "witnesses"
        records = folder / "records"
        install(records, folder / "bin", folder / "lists", networks)
        executor = Executor([folder / "bin"], timeout=_TIMEOUT_S)
        drive(
            RuntimeDriver(site, node, OwnLibcni(executor, node.var_lib_cni), folder), [each.name for each in networks]
        )
        return read_records(records, speaks=CURRENT)


def drive(driver: RuntimeDriver, networks: Sequence[str]) -> None:
    """Drive a runtime through all verbs for the named networks. Its errors are reported, not raised."""
    for name in networks:
        network = driver.read(name)
        if network is None:
            continue
        if name == FIRST:
            _whole_life(driver, network)
        else:
            _short_life(driver, network)


def _whole_life(driver: RuntimeDriver, network: NetworkList) -> None:
    """Two containers at once, one with two interfaces; CHECK, GC and everything else between."""
    runtime, name = driver.runtime, network.name
    first, other = driver.attachment(), driver.attachment()
    second = ContainerAttachment(first.container_id, first.netns, "net1", first.cni_args, first.capability_args)
    driver.ask("VERSION", name, lambda: runtime.versions(network))
    driver.ask("STATUS", name, lambda: runtime.status(network))
    with ThreadPoolExecutor(2) as both:
        for added in [both.submit(driver.node.run, runtime.add, network, each) for each in (first, other)]:
            added.result()
    driver.ask("ADD", name, lambda: runtime.add(network, second), second)
    for each in (first, second, other):
        driver.ask("CHECK", name, partial(runtime.check, network, each), each)
    valid = [(each.container_id, each.ifname) for each in (first, second, other)]
    driver.ask("GC", name, lambda: runtime.gc(network, valid))
    for each in (second, first):
        driver.ask("DEL", name, partial(runtime.delete, network, each), each)
    driver.ask("DEL", name, lambda: runtime.delete(network, first), first)
    driver.end(first)
    driver.ask("GC", name, lambda: runtime.gc(network, valid[2:]))
    driver.ask("DEL", name, lambda: runtime.delete(network, other), other)
    driver.end(other)


def _short_life(driver: RuntimeDriver, network: NetworkList) -> None:
    """One container; DEL is repeated until it succeeds, as kubelet does."""
    runtime, name = driver.runtime, network.name
    attachment = driver.attachment()
    key = (attachment.container_id, attachment.ifname)
    if driver.ask("ADD", name, lambda: runtime.add(network, attachment), attachment):
        driver.ask("CHECK", name, lambda: runtime.check(network, attachment), attachment)
        driver.ask("GC", name, lambda: runtime.gc(network, [key]))
        if not driver.ask("DEL", name, lambda: runtime.delete(network, attachment), attachment):
            driver.ask("DEL", name, lambda: runtime.delete(network, attachment), attachment)
    driver.end(attachment)
