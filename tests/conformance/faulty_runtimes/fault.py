"""A fault of a runtime, and a run of a course with it."""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.conformance.runtime_checks.driver import OwnLibcni, RuntimeDriver, drive
from harness.conformance.runtime_checks.networks import NETWORKS
from harness.conformance.runtime_checks.recorder import install
from harness.conformance.runtime_checks.records import Records, read_records
from harness.libcni.execute import Execution, Executor, PluginError
from harness.runtime.site import Site
from netlink.namespace import entered, open_namespace
from skel.versions import CURRENT


@dataclass
class Request:
    """A request before it is sent; a fault changes it. With `inside`, the plugin runs in the container's namespace."""

    type: str
    verb: str
    document: dict[str, Any]
    environ: dict[str, str]
    suffix: bytes = b""
    inside: bool = False

    @property
    def is_first(self) -> bool:
        """Whether it is for the first plugin of a list."""
        return self.type.endswith("-1")


Spoil = Callable[[Request], object]


class SpoilingExecutor(Executor):
    """An executor that changes requests before it sends them."""

    spoil: Spoil = staticmethod(lambda _: None)

    def run(self, type: str, verb: str, stdin: bytes, environ: Mapping[str, str]) -> Execution:
        """Run a plugin with the changed request."""
        request = Request(type, verb, json.loads(stdin), {"CNI_PATH": self.cni_path, **environ})
        self.spoil(request)
        netns = environ["CNI_NETNS"]
        with open_namespace(netns) if request.inside else nullcontext() as namespace:
            sent = json.dumps(request.document).encode() + request.suffix
            with entered(namespace) if namespace else nullcontext():
                return super().run(type, verb, sent, request.environ)


class FaultyLibcni(OwnLibcni):
    """Our libcni, for faults in the order and the number of its executions."""

    executor: SpoilingExecutor


@dataclass(frozen=True)
class Fault:
    """One fault: the check that names it, other checks that see it, and the lists that show it."""

    check: str
    networks: tuple[str, ...] = ("witness-no-gc",)
    runtime: type[FaultyLibcni] = FaultyLibcni
    spoil: Spoil | None = None
    also: frozenset[str] = frozenset()
    driver: type[RuntimeDriver] = RuntimeDriver
    drive: Callable[[RuntimeDriver], None] | None = field(default=None)


def _asks(driver: RuntimeDriver) -> None:
    """Send VERSION and STATUS, and nothing else."""
    network = driver.read("witness-no-gc")
    assert network is not None
    for ask in (driver.runtime.versions, driver.runtime.status):
        with suppress(PluginError):
            driver.node.run(ask, network)


def spoiled(check: str, verbs: str, spoil: Spoil, *networks: str, also: str = "") -> Fault:
    """Return a fault in the requests of some verbs, named in one text."""

    def spoil_some(request: Request) -> None:
        if request.verb in verbs.split():
            spoil(request)

    drive = _asks if verbs in {"STATUS", "VERSION"} else None
    return Fault(check, networks or ("witness-no-gc",), spoil=spoil_some, also=frozenset(also.split()), drive=drive)


def records_of(fault: Fault, folder: Path) -> Records:
    """Drive the runtime with its fault on a node of its own, and return the records of the witnesses."""
    with Site(folder / "state", "faulty") as site:
        node = site.node(threads=4)
        place = node.folder / "witnesses"
        install(
            place / "records", place / "bin", place / "lists", [net for net in NETWORKS if net.name in fault.networks]
        )
        # The second folder is for the list whose plugins are named by paths.
        executor = SpoilingExecutor([place / "bin", place / "bin/witness-folder"], timeout=900)
        if fault.spoil is not None:
            executor.spoil = fault.spoil
        driver = fault.driver(site, node, fault.runtime(executor, node.var_lib_cni), place)
        if fault.drive is not None:
            fault.drive(driver)
        else:
            drive(driver, fault.networks)
        return read_records(place / "records", speaks=CURRENT)
