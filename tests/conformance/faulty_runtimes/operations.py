"""Faults in the order and the number of executions, in cached results, and in answers to the caller."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.conformance.runtime_checks.driver import RuntimeDriver
from harness.libcni.execute import PluginError
from harness.libcni.networks import NetworkList, parse_network_list, read_network_file
from harness.libcni.outcome import decode_result
from harness.libcni.request import ContainerAttachment
from skel.errors import CniError, Code
from tests.conformance.faulty_runtimes.fault import Fault, FaultyLibcni, Request


def _backwards(network: NetworkList) -> NetworkList:
    return replace(network, plugins=network.plugins[::-1])


class _AddsBackwards(FaultyLibcni):
    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        return super()._add_plugins(_backwards(network), attachment)


class _AddsPluginsBesideFirst(FaultyLibcni):
    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        *inlined, beside = network.plugins
        return super()._add_plugins(replace(network, plugins=(inlined[0], beside, *inlined[1:])), attachment)


class _GoesOnWithAdd(FaultyLibcni):
    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        result: dict[str, object] | None = None
        failures: list[PluginError] = []
        for plugin in network.plugins:
            execution = self._run(network, plugin, "ADD", attachment, result)
            try:
                result = decode_result(execution, network.cni_version)
            except PluginError as error:
                failures.append(error)
                result = {}
        if failures:
            raise failures[0]
        return result or {}


class _AddsTwice(FaultyLibcni):
    def add(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        super().add(network, attachment)
        self._cache.remove(network.name, attachment.container_id, attachment.ifname)
        return super().add(network, attachment)


class _NeverDeletes(FaultyLibcni):
    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        pass


class _LeavesFailedAdds(FaultyLibcni):
    def _delete_plugins(
        self, network: NetworkList, attachment: ContainerAttachment, prev_result: dict[str, object] | None
    ) -> Iterator[PluginError]:
        if prev_result is not None:
            yield from super()._delete_plugins(network, attachment, prev_result)


class _ReturnsNoRoutes(FaultyLibcni):
    def add(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        return {key: value for key, value in super().add(network, attachment).items() if key != "routes"}


class _HidesTheError(FaultyLibcni):
    def add(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        try:
            return super().add(network, attachment)
        except PluginError:
            raise CniError(Code.IO_FAILURE, "no network") from None


class _DeletesForwards(FaultyLibcni):
    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        super().delete(_backwards(network), attachment)


class _GoesOnWithDel(FaultyLibcni):
    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        for failure in list(self._delete(network, attachment)):
            raise failure


class _DeletesInAnOldVersion(FaultyLibcni):
    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        super().delete(replace(network, cni_version="1.0.0"), attachment)


class _ChecksBackwards(FaultyLibcni):
    def check(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        super().check(_backwards(network), attachment)


class _ChecksAfterDel(FaultyLibcni):
    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        super().delete(network, attachment)
        self._run(network, network.plugins[0], "CHECK", attachment, {"cniVersion": network.cni_version})


class _ForgetsSwitches(FaultyLibcni):
    def read(self, path: Path) -> NetworkList:
        return replace(super().read(path), disable_check=False, disable_gc=False)


class _KnowsNoLaterVersion(FaultyLibcni):
    def read(self, path: Path) -> NetworkList:
        return replace(super().read(path), cni_version="1.0.0")


class _StopsGc(FaultyLibcni):
    def _gc_plugins(self, network: NetworkList, valid: Sequence[tuple[str, str]]) -> Iterator[PluginError]:
        for failure in super()._gc_plugins(network, valid):
            yield failure
            return


class _ReturnsOneErrorOfGc(FaultyLibcni):
    def gc(self, network: NetworkList, valid: Sequence[tuple[str, str]]) -> list[ContainerAttachment]:
        try:
            return super().gc(network, valid)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


class _CollectsInsteadOfDel(FaultyLibcni):
    def gc(self, network: NetworkList, valid: Sequence[tuple[str, str]]) -> list[ContainerAttachment]:
        del valid
        assert not list(self._gc_plugins(network, []))
        return []


class _CollectsDuringAdd(FaultyLibcni):
    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        def collect(request: Request) -> None:
            if request.verb == "ADD" and not request.is_first:
                super(_CollectsDuringAdd, self).gc(network, [(attachment.container_id, attachment.ifname)])

        self.executor.spoil = collect
        return super()._add_plugins(network, attachment)


class _AddsTwoAtOnce(FaultyLibcni):
    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        other = replace(attachment, ifname="net1")

        def add_another(request: Request) -> None:
            if request.verb == "ADD" and not request.is_first:
                self.executor.spoil = lambda _: None
                super(_AddsTwoAtOnce, self).add(network, other)
                super(_AddsTwoAtOnce, self).delete(network, other)

        if attachment.ifname != other.ifname:
            self.executor.spoil = add_another
        return super()._add_plugins(network, attachment)


class _AcceptsAnyName(FaultyLibcni):
    def read(self, path: Path) -> NetworkList:
        document: dict[str, Any] = json.loads(path.read_bytes())
        return parse_network_list(json.dumps(document | {"name": "accepted"}).encode())


class _AcceptsAnyType(FaultyLibcni):
    def read(self, path: Path) -> NetworkList:
        document: dict[str, Any] = json.loads(path.read_bytes())
        written = document["plugins"]
        for plugin in document["plugins"]:
            plugin["type"] = plugin["type"].replace("/", "--")
        network = parse_network_list(json.dumps(document).encode())
        plugins = [
            replace(read, type=read.type.rpartition("--")[2], raw={**raw, "type": raw["type"].replace("--", "/")})
            for read, raw in zip(network.plugins, written, strict=True)
        ]
        return replace(network, plugins=tuple(plugins))


class _ReadsEveryFolder(FaultyLibcni):
    def read(self, path: Path) -> NetworkList:
        path.write_text(path.read_text().replace('"loadOnlyInlinedPlugins": true', '"loadOnlyInlinedPlugins": false'))
        return read_network_file(path)


class _EndlessContainers(RuntimeDriver):
    """A course on which the containers' namespaces stay."""

    def end(self, *attachments: ContainerAttachment) -> None:
        """Leave them."""
        del attachments


def _shares_a_namespace(driver: RuntimeDriver) -> None:
    network = driver.read("witness-no-gc")
    assert network is not None
    one = driver.attachment()
    both = [one, driver.attachment("net1", netns=one.netns)]
    for attachment in both:
        driver.node.run(driver.runtime.add, network, attachment)
    for attachment in both:
        driver.node.run(driver.runtime.delete, network, attachment)
    driver.end(*both)


def _has_no_namespace(driver: RuntimeDriver) -> None:
    network = driver.read("witness-no-gc")
    assert network is not None
    attachment = driver.attachment(netns="/run/netns/not-made-yet")
    with suppress(PluginError):
        driver.node.run(driver.runtime.add, network, attachment)


def _fault(check: str, runtime: type[FaultyLibcni], *networks: str, also: str = "") -> Fault:
    return Fault(check, networks or ("witness-no-gc",), runtime, also=frozenset(also.split()))


FAULTS = [
    _fault("add-order", _AddsBackwards),
    _fault("add-stops-at-error", _GoesOnWithAdd, "witness-failing"),
    _fault("add-once", _AddsTwice),
    _fault("add-then-del", _NeverDeletes),
    _fault("del-after-failed-add", _LeavesFailedAdds, "witness-failing"),
    Fault("add-new-namespace", drive=_shares_a_namespace),
    Fault("add-new-namespace", drive=_has_no_namespace, also=frozenset({"netns-path"})),
    _fault("add-result-reported", _ReturnsNoRoutes),
    _fault("add-error-reported", _HidesTheError, "witness-failing"),
    _fault("del-reverse-order", _DeletesForwards),
    _fault("del-stops-at-error", _GoesOnWithDel, "witness-errors"),
    Fault("namespace-removed", driver=_EndlessContainers),
    _fault("check-order", _ChecksBackwards),
    _fault("check-added-only", _ChecksAfterDel),
    _fault("check-disabled", _ForgetsSwitches, "witness-no-check"),
    _fault("gc-every-plugin", _StopsGc, "witness-errors"),
    _fault("gc-lists-all", _CollectsInsteadOfDel, "witness-no-check"),
    _fault("gc-alone", _CollectsDuringAdd, "witness-no-check"),
    _fault("gc-disabled", _ForgetsSwitches, "witness-no-gc"),
    _fault("gc-errors-reported", _ReturnsOneErrorOfGc, "witness-errors"),
    _fault("network-name", _AcceptsAnyName, "witness-misnamed", also="name-inserted"),
    _fault("plugin-type", _AcceptsAnyType, "witness-mistyped"),
    _fault("beside-appended", _AddsPluginsBesideFirst, "witness", also="add-order"),
    _fault(
        "only-inlined",
        _ReadsEveryFolder,
        "witness-inlined",
        also="add-order check-order del-reverse-order gc-every-plugin",
    ),
    _fault("one-at-a-time", _AddsTwoAtOnce),
    _fault("version-highest", _KnowsNoLaterVersion),
    _fault(
        "version-constant",
        _DeletesInAnOldVersion,
        also="del-configuration del-prev-result version-highest",
    ),
]
"""A runtime for each, in the order of the checks."""
