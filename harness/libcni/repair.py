"""REPAIR of one cached attachment: each plugin of its list is executed with what the runtime has cached.

The verb is this project's own: docs/repair.md. The cached configuration, CNI_ARGS, capabilities and result are those of
the ADD.
"""

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.execute import Executor, PluginError
from harness.libcni.networks import NetworkError, NetworkList, parse_network_list
from harness.libcni.outcome import require_success, result_in_version
from harness.libcni.request import request_config
from skel.errors import CniError

__all__ = ["Outcome", "PluginOutcome", "Repair", "is_gone", "namespace_of", "remove_again", "repair_attachment"]


class Outcome(StrEnum):
    """The end of an attachment's repair."""

    OK = "ok"
    FAILED = "failed"
    LEFT = "left"
    """Nothing was executed: the pod is gone."""
    DELETED = "deleted"
    """The runtime deleted it meanwhile, so everything that was put back was removed again."""


class PluginOutcome(NamedTuple):
    """One plugin's answer; `error` is empty if it succeeded."""

    plugin: str
    error: str


class Repair(NamedTuple):
    """The repair of one attachment; `error` is for errors of no single plugin."""

    cached: CachedAttachment
    netns: str
    outcome: Outcome
    plugins: tuple[PluginOutcome, ...] = ()
    error: str = ""

    @property
    def problem(self) -> str:
        """All errors on one line; empty if there are none."""
        return "; ".join(filter(None, (self.error, *(each.error for each in self.plugins))))


def namespace_of(cached: CachedAttachment) -> str:
    """Return the path of the pod's network namespace: releases of libcni before 1.3 have it in the result alone."""
    if cached.attachment.netns:
        return cached.attachment.netns
    interfaces = (cached.result or {}).get("interfaces")
    for each in interfaces if isinstance(interfaces, list) else []:
        if isinstance(each, dict) and each.get("name") == cached.attachment.ifname:
            sandbox = each.get("sandbox")
            if isinstance(sandbox, str) and sandbox:
                return sandbox
    return ""


def repair_attachment(executor: Executor, cache: ResultCache, cached: CachedAttachment, netns: str) -> Repair:
    """Execute REPAIR of all plugins in the order of ADD, past failures; `netns` exists.

    Then the cache is read again. If the attachment is gone, the runtime has deleted it: the plugins' DEL removes what
    was put back. Errors of plugins and configurations are in the answer.
    """
    try:
        network, result = _read(cached)
    except (NetworkError, CniError) as error:
        return Repair(cached, netns, Outcome.FAILED, error=str(error))
    outcomes = tuple(_executed(executor, network, cached, netns, result, "REPAIR"))
    outcome = Outcome.FAILED if any(each.error for each in outcomes) else Outcome.OK
    repaired = Repair(cached, netns, outcome, outcomes)
    return remove_again(executor, repaired) if is_gone(cache, cached) else repaired


def is_gone(cache: ResultCache, cached: CachedAttachment) -> bool:
    """Tell whether the runtime has deleted the attachment since it was read."""
    attachment = cached.attachment
    return not cache.holds(cached.network, attachment.container_id, attachment.ifname)


def remove_again(executor: Executor, repaired: Repair) -> Repair:
    """Execute DEL of all plugins in reverse order: the runtime has deleted the attachment during its repair."""
    network, result = _read(repaired.cached)
    outcomes = tuple(_executed(executor, network, repaired.cached, repaired.netns, result, "DEL"))
    return repaired._replace(outcome=Outcome.DELETED, plugins=tuple(each for each in outcomes if each.error))


def _read(cached: CachedAttachment) -> tuple[NetworkList, dict[str, object]]:
    """Return the list and the result of the ADD. Raises NetworkError, CniError."""
    if not cached.config or cached.result is None:
        lacking = "result" if cached.config else "configuration"
        raise NetworkError(f"the cache has no {lacking} of {cached.attachment.ifname}")
    network = parse_network_list(cached.config)
    return network, result_in_version(cached.result, network.cni_version)


def _executed(
    executor: Executor,
    network: NetworkList,
    cached: CachedAttachment,
    netns: str,
    result: dict[str, object],
    verb: str,
) -> list[PluginOutcome]:
    attachment = replace(cached.attachment, netns=netns)
    outcomes = []
    for plugin in network.plugins if verb == "REPAIR" else reversed(network.plugins):
        stdin = request_config(network, plugin, prev_result=result, attachment=attachment)
        error = ""
        try:
            require_success(executor.run(plugin.type, verb, stdin, attachment.environment()))
        except PluginError as failure:
            error = str(failure)
        outcomes.append(PluginOutcome(plugin.type, error))
    return outcomes
