"""REPAIR of cached attachments: each plugin of their list gets the cached configuration and result.

The verb is this project's own: docs/repair.md. Configuration, CNI_ARGS, capabilities and result come from the
ADD.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from fast_stdlib import span
from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.execute import Executor, PluginError
from harness.libcni.networks import NetworkError, NetworkList, PluginConfig, parse_network_list
from harness.libcni.outcome import decode_repairs, require_success, result_in_version
from harness.libcni.request import ContainerAttachment, repair_config, request_config
from skel.errors import CniError


class RepairOutcome(StrEnum):
    """The end of an attachment's repair."""

    OK = "ok"
    FAILED = "failed"
    LEFT = "left"
    """Nothing was executed: the pod is gone."""
    DELETED = "deleted"
    """The runtime deleted it meanwhile, so everything that was put back was removed again."""


class LiveAttachment(NamedTuple):
    """An attachment, the cache that has it, and the path of its network namespace, which exists."""

    cache: ResultCache
    cached: CachedAttachment
    netns: str


class PluginOutcome(NamedTuple):
    """One plugin's answer; `error` is empty if it succeeded."""

    plugin: str
    error: str


class Repair(NamedTuple):
    """The repair of one attachment; `error` is for errors of no single plugin."""

    cached: CachedAttachment
    netns: str
    outcome: RepairOutcome
    plugins: tuple[PluginOutcome, ...] = ()
    error: str = ""

    @property
    def problem(self) -> str:
        """All errors on one line; empty if there are none."""
        return "; ".join(filter(None, (self.error, *(each.error for each in self.plugins))))


class _Request(NamedTuple):
    """The input of the plugins: the list, the attachment with its namespace, the result of the ADD."""

    network: NetworkList
    attachment: ContainerAttachment
    result: dict[str, object]


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


def repair_attachments(executor: Executor, live: Sequence[LiveAttachment]) -> list[Repair]:
    """Execute REPAIR of all plugins in the order of ADD, past failures. Return the outcomes in the order of `live`.

    All have one configuration, and no two are of one container. Each plugin is executed once for all of them. Then the
    caches are read again. If an attachment is gone, the runtime has deleted it: the plugins' DEL removes the
    restored parts. Errors of plugins and configurations are in the outcomes.
    """
    repairs: dict[int, Repair] = {}
    requests: dict[int, _Request] = {}
    for index, each in enumerate(live):
        try:
            requests[index] = _read(each.cached, each.netns)
        except (NetworkError, CniError) as error:
            repairs[index] = Repair(each.cached, each.netns, RepairOutcome.FAILED, error=str(error))
    if requests:
        ready = list(requests.values())
        answers = [_repaired(executor, plugin, ready) for plugin in ready[0].network.plugins]
        for index, *plugins in zip(requests, *answers, strict=True):
            outcome = RepairOutcome.FAILED if any(plugin.error for plugin in plugins) else RepairOutcome.OK
            repairs[index] = Repair(live[index].cached, live[index].netns, outcome, tuple(plugins))
            if is_gone(live[index].cache, live[index].cached):
                repairs[index] = remove_again(executor, repairs[index])
    return [repairs[index] for index in range(len(live))]


def is_gone(cache: ResultCache, cached: CachedAttachment) -> bool:
    """Tell whether the runtime has deleted the attachment since it was read."""
    attachment = cached.attachment
    return not cache.holds(cached.network, attachment.container_id, attachment.ifname)


def remove_again(executor: Executor, repaired: Repair) -> Repair:
    """Execute DEL of all plugins in reverse order: the runtime has deleted the attachment during its repair."""
    request = _read(repaired.cached, repaired.netns)
    outcomes = [_executed(executor, plugin, request, "DEL") for plugin in reversed(request.network.plugins)]
    return repaired._replace(outcome=RepairOutcome.DELETED, plugins=tuple(each for each in outcomes if each.error))


def _read(cached: CachedAttachment, netns: str) -> _Request:
    """Return the list and the result of the ADD. Raises NetworkError, CniError."""
    if not cached.config or cached.result is None:
        lacking = "result" if cached.config else "configuration"
        raise NetworkError(f"the cache has no {lacking} of {cached.attachment.ifname}")
    network = parse_network_list(cached.config)
    result = result_in_version(cached.result, network.cni_version)
    return _Request(network, replace(cached.attachment, netns=netns), result)


def _repaired(executor: Executor, plugin: PluginConfig, requests: Sequence[_Request]) -> list[PluginOutcome]:
    """Execute the plugin once for all; then once for each attachment that it has not answered for.

    Such a plugin does not read the list of attachments, or it has broken down.
    """
    answers: dict[tuple[str, str], PluginError | None] = {}
    if len(requests) > 1:
        stdin = repair_config(requests[0].network, plugin, [(each.attachment, each.result) for each in requests])
        with suppress(PluginError), span("repairNetwork", plugin=plugin.type, attachments=len(requests)):
            answers = decode_repairs(executor.run(plugin.type, "REPAIR", stdin, {}))
    outcomes = []
    for each in requests:
        key = each.attachment.container_id, each.attachment.ifname
        if key in answers:
            outcomes.append(PluginOutcome(plugin.type, str(answers[key] or "")))
        else:
            outcomes.append(_executed(executor, plugin, each, "REPAIR"))
    return outcomes


def _executed(executor: Executor, plugin: PluginConfig, request: _Request, verb: str) -> PluginOutcome:
    attachment = request.attachment
    stdin = request_config(request.network, plugin, prev_result=request.result, attachment=attachment)
    try:
        with span(f"{verb.lower()}Network", plugin=plugin.type):
            require_success(executor.run(plugin.type, verb, stdin, attachment.environment()))
    except PluginError as failure:
        return PluginOutcome(plugin.type, str(failure))
    return PluginOutcome(plugin.type, "")
