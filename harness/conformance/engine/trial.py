"""One check's own node, and the plugin under test on it: its verbs, with the changes that a check makes."""

import errno
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, Self, Unpack

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine import expect
from harness.conformance.engine.node_setup import SharedNetwork, prepare_node
from harness.conformance.engine.node_state import leftovers, node_state
from harness.conformance.engine.requests import (
    ABSENT,
    Changes,
    TrialContainer,
    attachment_of,
    corrected,
    environment_of,
    execute,
)
from harness.conformance.finding import PredecessorError, UnexecutableError, ViolationError
from harness.conformance.subject import LOOPBACK, Profile, Subject
from harness.libcni.execute import Execution, Executor, PluginError
from harness.libcni.networks import PluginConfig
from harness.libcni.outcome import printed_json
from harness.libcni.request import request_config
from harness.runtime.site import Site, symbolic_links
from harness.snapshot import Difference, Snapshot
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from skel.errors import CniError
from skel.result import Result
from skel.versions import SUPPORTED, VERB_SINCE, at_least

LOOPBACK_INDEX: Final = 1
"""The same in every network namespace."""
_THREADS: Final = 16
"""As many as the checks of concurrency execute plugins at once."""
_OF_THE_MACHINE: Final = (errno.E2BIG, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY)
"""The kernel's errors for an execution that do not concern the plugin's file. execve(2) has many that do."""


class Trial:
    """A node that is still unused, a container without interfaces, and the plugin under test."""

    def __init__(self, subject: Subject, site: Site, options: CheckOptions) -> None:
        """Make the node and the container. Raises OSError, PluginNotFoundError, PreparationError."""
        self.subject = subject
        self.version = subject.network.cni_version
        self.executions: list[Execution] = []
        """The executions of the plugin under test, in their order."""
        self.options = options
        self._executor = Executor(subject.bin_dirs)
        self.path = self._executor.find(subject.type)
        self.site = site
        self.node = site.node(threads=_THREADS, has_own_folders=True, layered=options.watched)
        is_shared = options.pod_interface and subject.profile is Profile.IPAM
        self._shared_network = SharedNetwork(site, self.node_netns) if is_shared else None
        if options.preparation is not None:
            prepare_node(options.preparation, self.node, options.timeout)
        self.forwards_otherwise = False
        """Whether the check itself changes the node's forwarding."""
        self.delegate_recorded = False
        """Whether a substitute has taken the place of the subject's first delegate."""
        self.prepared = self.macs(self.node_netns) if options.preparation else frozenset[str]()
        """The MACs of interfaces that the preparation has made on the node."""
        self.prepared_files = frozenset(self.node.var_lib_cni.rglob("*"))
        """The paths that the preparation has made below the node's /var/lib/cni."""
        self._prev_results: dict[TrialContainer, object] = {}
        self._results: dict[TrialContainer, object] = {}
        self._container_ids: list[str] = []
        self.container = self.new_container()

    @classmethod
    @contextmanager
    def on_new_node(
        cls, subject: Subject, state_dir: Path, options: CheckOptions, purpose: str = "conformance"
    ) -> Iterator[Self]:
        """Yield a trial; the end of the block removes its node and everything on it. `purpose` is in its name."""
        with Site(state_dir, purpose) as site:
            yield cls(subject, site, options)

    # The node and its containers

    def new_container(self, *, ifname: str = "", container_id: str = "") -> TrialContainer:
        """Return a container that has had no ADD, with a network namespace of its own."""
        name = ifname or self.subject.ifname
        container = TrialContainer(container_id or uuid.uuid4().hex + uuid.uuid4().hex, name, self.site.namespace())
        self._container_ids.append(container.container_id)
        if self._shared_network is not None:
            self._shared_network.join(container.netns, name)
        if name == LOOPBACK:
            with open_namespace(container.netns) as namespace, Rtnl(namespace) as rtnl:
                rtnl.set_down(LOOPBACK_INDEX)  # the initial state in the kernel, for the plugin to set it up
        return container

    def second_interface(self) -> TrialContainer:
        """Return this container with another interface, which has had no ADD."""
        second = self.container._replace(ifname="net1")
        if self._shared_network is not None:
            self._shared_network.join(second.netns, second.ifname)
        return second

    @property
    def node_netns(self) -> str:
        """The path of the node's network namespace."""
        return str(self.node.netns)

    def macs(self, netns: str) -> frozenset[str]:
        """Return the MACs of the interfaces in the namespace at `netns`."""
        with open_namespace(netns) as namespace, Rtnl(namespace) as rtnl:
            return frozenset(link.mac for link in rtnl.links() if link.ifindex != LOOPBACK_INDEX)

    def folder(self) -> Path:
        """Make an empty folder, which is removed at the end of the check, and return it."""
        return Path(mkdtemp(dir=self.node.folder))

    # The verbs

    def has(self, verb: str) -> bool:
        """Tell whether the version of the requests has a verb."""
        return at_least(self.version, VERB_SINCE.get(verb, SUPPORTED[0]))

    def add(self, container: TrialContainer | None = None, **changes: Unpack[Changes]) -> Execution:
        """ADD, after those of the plugins before it."""
        return self.call("ADD", container or self.container, **changes)

    def delete(self, container: TrialContainer | None = None, **changes: Unpack[Changes]) -> Execution:
        """DEL of this plugin alone."""
        return self.call("DEL", container or self.container, **changes)

    def check(self, container: TrialContainer | None = None, **changes: Unpack[Changes]) -> Execution:
        """CHECK of this plugin alone."""
        return self.call("CHECK", container or self.container, **changes)

    def gc(self, *valid: TrialContainer, **changes: Unpack[Changes]) -> Execution:
        """GC, with these containers' attachments as the valid ones, under both spellings of the key."""
        return self.call("GC", None, valid=valid, **changes)

    def status(self, **changes: Unpack[Changes]) -> Execution:
        """STATUS."""
        return self.call("STATUS", None, **changes)

    def ask_version(self, **changes: Unpack[Changes]) -> Execution:
        """VERSION, as libcni asks: with little else."""
        return self.call("VERSION", None, **changes)

    def call(
        self,
        verb: str,
        container: TrialContainer | None,
        *,
        valid: Sequence[TrialContainer] | None = None,
        **changes: Unpack[Changes],
    ) -> Execution:
        """Execute the plugin under test and return the execution, whatever its outcome. `valid` is for GC.

        Raises UnexecutableError, PredecessorError; HangingError for a verb that hangs, StoppedError.
        """
        self.options.hangs.demand_end(verb)
        self.options.stop.raise_if_urgent()
        if verb == "ADD" and container is not None:
            self.prepare(container)
        stdin = changes["stdin"] if "stdin" in changes else self._config(verb, container, valid, changes)
        try:
            execution = self.node.run(
                execute,
                self.path,
                environ=environment_of(verb, container, self._executor.cni_path, changes),
                stdin=stdin,
                timeout=changes.get("timeout", self.options.timeout),
                cwd=changes.get("cwd", "/"),
                wrapper=changes.get("wrapper", ()),
                stdout=changes.get("stdout"),
                tick=self.options.stop.raise_if_urgent,
            )
        except OSError as error:
            if error.errno in _OF_THE_MACHINE or str(error.filename) != str(self.path):
                raise
            raise UnexecutableError(f"{self.path} to be executed", str(error.strerror)) from None
        self.executions.append(execution)
        self.options.hangs.note(execution)
        if verb == "ADD" and execution.exit_code == 0 and self.options.corrects_version and "version" not in changes:
            execution = corrected(execution, self.version)
        if verb == "ADD" and container is not None and execution.exit_code == 0:
            self._results[container] = printed_json(execution.stdout)
        return execution

    def prepare(self, container: TrialContainer) -> None:
        """Execute ADD of the plugins before the one under test. Raises PredecessorError if they fail."""
        if container in self._prev_results or not self.subject.before:
            return
        found: object = None
        for plugin in self.subject.before:
            try:
                execution = expect.succeeded(self._execute_other(plugin, "ADD", container, found))
                found = expect.document(execution, "a result object on standard output")
                Result.decode_any(found, "result")
            except (PluginError, ViolationError, CniError) as error:
                raise PredecessorError(f"{plugin.type}, which is executed before, is at fault: {error}") from None
        self._prev_results[container] = found

    def prev_result(self, container: TrialContainer | None = None) -> object:
        """Return the prevResult for this container's ADD, None if the plugin is the first."""
        return self._prev_results.get(container or self.container)

    def result_document(self, container: TrialContainer | None = None) -> object:
        """Return the last output of this container's ADD, None before the first."""
        return self._results.get(container or self.container)

    # Sequences of verbs

    def attach(self, container: TrialContainer | None = None) -> Result:
        """ADD, and demand that it succeeds with a result."""
        return expect.result(self.add(container), self.version)

    def detach(self, container: TrialContainer | None = None) -> None:
        """DEL of the plugin under test and then of those before it, and demand that it succeeds."""
        container = container or self.container
        expect.succeeded(self.delete(container))
        self.detach_others(container)

    def detach_others(self, container: TrialContainer) -> None:
        """DEL of the plugins before the one under test, if they have made something."""
        found = self._prev_results.pop(container, None)
        if found is not None:
            for plugin in reversed(self.subject.before):
                self._execute_other(plugin, "DEL", container, found)

    def warm_up(self) -> None:
        """Attach and detach another container, so that everything that containers share exists."""
        self.come_and_go(self.new_container())

    def come_and_go(self, container: TrialContainer | None = None) -> None:
        """Attach a container and detach it, and demand that both succeed."""
        self.attach(container)
        self.detach(container)

    # The state afterwards

    def snapshot(self, *containers: TrialContainer) -> Snapshot:
        """Return the state of the node, of this container (or these), and of the folders that are evidence."""
        places = {"node": self.node_netns}
        for number, container in enumerate(containers or (self.container,)):
            places["pod" if number == 0 else f"pod{number + 1}"] = container.netns
        return node_state(self.node, places, [*self.options.watched, *symbolic_links(self.site.name)])

    def leftovers(self, before: Snapshot, after: Snapshot) -> list[Difference]:
        """Return the differences, without changes in files that do not concern this trial's containers."""
        return leftovers(before, after, self._container_ids)

    @contextmanager
    def unchanged(self, when: str, *containers: TrialContainer) -> Iterator[None]:
        """Demand that the block leaves the node and this container (or these) as they were.

        Raises ViolationError if something has appeared, disappeared or changed. `when` names the moment: "after DEL".
        """
        before = self.snapshot(*containers)
        yield
        expect.no_difference(self.leftovers(before, self.snapshot(*containers)), f"a node as it was before, {when}")

    def _execute_other(
        self, plugin: PluginConfig, verb: str, container: TrialContainer, prev_result: object
    ) -> Execution:
        network = replace(self.subject.network, cni_version=self.version)
        given = prev_result if isinstance(prev_result, dict) else None
        attachment = attachment_of(container)
        stdin = request_config(network, plugin, prev_result=given, attachment=attachment)
        return self.node.run(self._executor.run, plugin.type, verb, stdin, attachment.environment())

    def _config(
        self, verb: str, container: TrialContainer | None, valid: Sequence[TrialContainer] | None, changes: Changes
    ) -> bytes:
        """Return the configuration of a request, with the changes laid over it."""
        version = changes.get("version", self.version)
        ordinary = request_config(
            replace(self.subject.network, cni_version=version),
            self.subject.plugin,
            attachment=attachment_of(container) if container else None,
            valid_attachments=None if valid is None else [(each.container_id, each.ifname) for each in valid],
        )
        request: dict[str, object] = {"cniVersion": version} if verb == "VERSION" else json.loads(ordinary)
        request["prevResult"] = changes.get("prev_result", self._ordinary_prev_result(verb, container, version))
        request |= changes.get("config", {})
        present = {key: value for key, value in request.items() if value is not ABSENT}
        return json.dumps(present, separators=(",", ":")).encode()

    def _ordinary_prev_result(self, verb: str, container: TrialContainer | None, version: str) -> object:
        found: object = None
        if container is not None and verb == "ADD" and self.subject.profile is not Profile.IPAM:
            found = self._prev_results.get(container)
        elif container is not None and verb != "ADD" and at_least(version, VERB_SINCE["CHECK"]):
            found = self._results.get(container, self._prev_results.get(container))
        return ABSENT if found is None else found
