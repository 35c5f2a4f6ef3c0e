"""A runtime's operations on a network: each runs the plugins of a list (SPEC.md section 3)."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fast_stdlib import span
from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.execute import Execution, Executor, PluginError
from harness.libcni.networks import NetworkList, PluginConfig
from harness.libcni.outcome import decode_result, decode_versions, require_success, result_in_version
from harness.libcni.request import ContainerAttachment, request_config
from skel.errors import CniError, Code
from skel.versions import CURRENT, VERB_SINCE, at_least

_NOWHERE = ContainerAttachment(container_id="", netns="", ifname="")


def plugin_versions(executor: Executor, type: str) -> list[str]:
    """Return the versions of the specification that a plugin speaks. Raises PluginError."""
    # Old skeletons require these variables for VERSION, with any value.
    dummies = {"CNI_NETNS": "dummy", "CNI_IFNAME": "dummy", "CNI_PATH": "dummy"}
    stdin = json.dumps({"cniVersion": CURRENT}).encode()
    with span("GetVersionInfo", plugin=type):
        return decode_versions(executor.run(type, "VERSION", stdin, _NOWHERE.environment() | dummies))


class Libcni:
    """Runs network lists. `warn` gets a line for each oddity that does not stop the operation; it raises nothing.

    A plugin's failure is raised as PluginError, an invalid request as CniError. Operations on one container must not
    overlap, and GC must not overlap with any other (SPEC.md section 3, "Lifecycle & Ordering").
    """

    def __init__(self, executor: Executor, cache: ResultCache, *, warn: Callable[[str], object]) -> None:
        self._executor = executor
        self._cache = cache
        self._warn = warn

    def add(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        """Make an attachment and return its result, in the list's version.

        Nothing is run if the attachment exists already, or if a plugin is missing. If a plugin fails, DEL of every
        plugin follows, and errors of DEL are added to the error as notes. Raises PluginError, CniError.
        """
        attachment.check()
        attachment.check_args()
        if self._cache.holds(network.name, attachment.container_id, attachment.ifname):
            # The plugins would refuse the ADD, and the DEL after that failure would remove the attachment in use.
            raise CniError(Code.INVALID_ENVIRONMENT, f"{_named(network, attachment)} is there already")
        with span("AddNetworkList", network=network.name):
            for plugin in network.plugins:
                self._executor.find(plugin.type, "ADD")
            try:
                result = self._add_plugins(network, attachment)
                self._store(network, attachment, result)
            except BaseException as error:
                for failure in self._delete_plugins(network, attachment, None):
                    error.add_note(f"and undoing it: {failure}")
                raise
        return result

    def delete(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        """Undo an attachment, plugins in reverse order; a missing attachment is no error.

        Arguments that the caller does not give are taken from the ADD. The first failure stops the operation and keeps
        the cached result, so that DEL can be repeated. Raises PluginError, CniError.
        """
        with span("DelNetworkList", network=network.name):
            for failure in self._delete(network, attachment):
                raise failure

    def delete_leftover(self, network: NetworkList, attachment: ContainerAttachment) -> list[Exception]:
        """Undo an attachment whose container is gone; return the failures.

        All plugins are executed, unlike in `delete`: a chained plugin whose DEL always fails would keep the others'
        addresses.
        """
        with span("DelNetworkList", network=network.name):
            try:
                failed: list[Exception] = list(self._delete(network, attachment))
            except CniError as error:
                failed = [error]
        for failure in failed:
            failure.add_note(f"stale attachment: container {attachment.container_id}, {attachment.ifname}")
        return failed

    def check(self, network: NetworkList, attachment: ContainerAttachment) -> None:
        """Ask every plugin whether an attachment is as its ADD left it; nothing is asked with `disableCheck`.

        Raises PluginError; CniError if the list is below 0.4.0 (1) or no result is cached (3).
        """
        attachment.check()
        if not at_least(network.cni_version, VERB_SINCE["CHECK"]):
            msg = f"network {network.name}: version {network.cni_version} has no CHECK"
            raise CniError(Code.INCOMPATIBLE_VERSION, msg, f"it came with {VERB_SINCE['CHECK']}")
        if network.disable_check:
            return
        cached = self._cached(network, attachment)
        if cached is None or cached.result is None:
            msg = f"no cached result of {_named(network, attachment)}"
            raise CniError(Code.UNKNOWN_CONTAINER, msg, "CHECK cannot do without")
        attachment = _with_cached_args(attachment, cached)
        prev_result = result_in_version(cached.result, network.cni_version)
        with span("CheckNetworkList", network=network.name):
            for plugin in network.plugins:
                require_success(self._run(network, plugin, "CHECK", attachment, prev_result))

    def gc(self, network: NetworkList, valid: Sequence[tuple[str, str]]) -> list[ContainerAttachment]:
        """Undo every cached attachment that is not among `valid`, then run GC of each plugin.

        `valid` are pairs of container ID and interface name. Returns the undone attachments. Nothing is done with
        `disableGC`, and plugins below 1.1.0 are not asked. Continues after failures, and raises all in one
        ExceptionGroup.
        """
        if network.disable_gc:
            return []
        failures: list[Exception] = []
        undone = []
        with span("GCNetworkList", network=network.name):
            for cached in self._cache.attachments():
                attachment = cached.attachment
                if cached.network != network.name or (attachment.container_id, attachment.ifname) in valid:
                    continue
                failed = self.delete_leftover(network, attachment)
                failures += failed
                if not failed:
                    undone.append(attachment)
            if at_least(network.cni_version, VERB_SINCE["GC"]):
                failures += self._gc_plugins(network, valid)
            if failures:
                raise ExceptionGroup(f"garbage collection of network {network.name}", failures)
        return undone

    def status(self, network: NetworkList) -> None:
        """Ask every plugin whether it can serve an ADD; below 1.1.0 nothing is asked. Raises PluginError."""
        if at_least(network.cni_version, VERB_SINCE["STATUS"]):
            with span("GetStatusNetworkList", network=network.name):
                for plugin in network.plugins:
                    with span("getStatusNetwork", plugin=plugin.type):
                        stdin = request_config(network, plugin)
                        require_success(self._executor.run(plugin.type, "STATUS", stdin, _NOWHERE.environment()))

    def _add_plugins(self, network: NetworkList, attachment: ContainerAttachment) -> dict[str, object]:
        result: dict[str, object] | None = None
        for plugin in network.plugins:
            execution = self._run(network, plugin, "ADD", attachment, result)
            result = decode_result(execution, network.cni_version)
        return result or {}

    def _delete(self, network: NetworkList, attachment: ContainerAttachment) -> Iterator[PluginError]:
        """Execute DEL of the plugins in reverse order, and yield each failure; a failure keeps the cached result.

        Raises CniError.
        """
        attachment.check()
        cached = self._cached(network, attachment)
        attachment = _with_cached_args(attachment, cached)
        prev_result = self._delete_result(network, cached)
        failed = False
        for failure in self._delete_plugins(network, attachment, prev_result):
            failed = True
            yield failure
        if failed:
            return
        try:
            with span("cacheDel"):
                self._cache.remove(network.name, attachment.container_id, attachment.ifname)
        except OSError as error:
            self._warn(f"result cache: {error}")

    def _delete_plugins(
        self, network: NetworkList, attachment: ContainerAttachment, prev_result: dict[str, object] | None
    ) -> Iterator[PluginError]:
        for plugin in reversed(network.plugins):
            try:
                require_success(self._run(network, plugin, "DEL", attachment, prev_result))
            except PluginError as error:
                yield error

    def _store(self, network: NetworkList, attachment: ContainerAttachment, result: dict[str, object]) -> None:
        try:
            with span("cacheAdd"):
                self._cache.store(network, attachment, result)
        except OSError as error:
            msg = f"cannot cache the result of {_named(network, attachment)}"
            raise CniError(Code.IO_FAILURE, msg, str(error)) from error

    def _cached(self, network: NetworkList, attachment: ContainerAttachment) -> CachedAttachment | None:
        return self._cache.load(network.name, attachment.container_id, attachment.ifname)

    def _delete_result(self, network: NetworkList, cached: CachedAttachment | None) -> dict[str, object] | None:
        """Return the previous result for DEL, if it is known."""
        if cached is None or cached.result is None or not at_least(network.cni_version, VERB_SINCE["CHECK"]):
            return None
        try:
            return result_in_version(cached.result, network.cni_version)
        except CniError as error:
            self._warn(f"{_named(network, cached.attachment)}: deleting without its cached result: {error}")
            return None

    def _gc_plugins(self, network: NetworkList, valid: Sequence[tuple[str, str]]) -> Iterator[PluginError]:
        for plugin in network.plugins:
            stdin = request_config(network, plugin, valid_attachments=valid)
            try:
                with span("gcNetwork", plugin=plugin.type):
                    require_success(self._executor.run(plugin.type, "GC", stdin, _NOWHERE.environment()))
            except PluginError as error:
                yield error

    def _run(
        self,
        network: NetworkList,
        plugin: PluginConfig,
        verb: str,
        attachment: ContainerAttachment,
        prev_result: dict[str, object] | None,
    ) -> Execution:
        with span(f"{verb.lower()}Network", plugin=plugin.type):
            stdin = request_config(network, plugin, prev_result=prev_result, attachment=attachment)
            return self._executor.run(plugin.type, verb, stdin, attachment.environment())


def _with_cached_args(attachment: ContainerAttachment, cached: CachedAttachment | None) -> ContainerAttachment:
    """Add the arguments of the ADD that the caller did not give."""
    if cached is None:
        return attachment
    return replace(
        attachment,
        cni_args=attachment.cni_args or cached.attachment.cni_args,
        capability_args=attachment.capability_args or cached.attachment.capability_args,
    )


def _named(network: NetworkList, attachment: ContainerAttachment) -> str:
    return f"attachment {attachment.ifname} of container {attachment.container_id} to {network.name}"
