"""REPAIR of all live attachments of a node, many at a time.

The life of `cni-harness repair --watch`: wait for a loss, repair, look again.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from fast_stdlib import recorded_by, recorder
from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.execute import Executor
from harness.libcni.repair import (
    LiveAttachment,
    Repair,
    RepairOutcome,
    is_gone,
    namespace_of,
    remove_again,
    repair_attachments,
)
from harness.runtime.node import Node
from harness.runtime.sandbox import sandbox_exists
from netlink.nft_monitor import LossMonitor
from skel.errors import CniError

_MOST = 32
"""Attachments in one execution: its time limit is that of an execution for one."""

T = TypeVar("T")
R = TypeVar("R")


class _Known(NamedTuple):
    """An attachment, its place among all, and the cache that has it."""

    number: int
    cache: ResultCache
    cached: CachedAttachment


class NodeRepair:
    """Repairs the attachments in `caches`; those of `networks` alone, if any are named.

    Plugins run on `node`, which is in use, for `jobs` containers at a time. Operations on one container never overlap
    (SPEC.md section 3, "Lifecycle & Ordering").
    """

    def __init__(
        self, node: Node, executor: Executor, caches: Sequence[ResultCache], *, networks: Iterable[str], jobs: int
    ) -> None:
        self._node = node
        self._executor = executor
        self._caches = caches
        self._networks = frozenset(networks)
        self._jobs = jobs
        self._repaired: list[tuple[ResultCache, Repair]] = []

    def repair(self) -> list[Repair]:
        """Repair all attachments and return the outcomes, in the order of the caches' files.

        When all are done the caches are looked at once more: a runtime's DEL may have been under way. Raises OSError.
        """
        found = ((cache, cached) for cache in self._caches for cached in cache.attachments())
        known = [_Known(number, *each) for number, each in enumerate(found)]
        chosen = [each for each in known if not self._networks or each.cached.network in self._networks]
        # In a trace, a slice has the ID of its first container.
        named = [(each[0][0].cached.attachment.container_id, each) for each in _slices(chosen, self._jobs)]
        done = self._at_once(self._repair_slice, named)
        finished = sorted((each for part in done for each in part), key=lambda each: each[0].number)
        self._repaired = [(known.cache, repair) for known, repair in finished]
        removed = {id(was): now for was, now in self.confirm()}
        return [removed.get(id(repair), repair) for _, repair in finished]

    def confirm(self) -> list[tuple[Repair, Repair]]:
        """Remove what was put back for attachments that the runtime has deleted since.

        Returns their repairs before and after. To be called once more some time later: a DEL may take its time between
        the plugins and the cache.
        """
        gone = [
            (cache, repair)
            for cache, repair in self._repaired
            if repair.outcome in {RepairOutcome.OK, RepairOutcome.FAILED}
            and repair.plugins
            and is_gone(cache, repair.cached)
        ]
        self._repaired = [each for each in self._repaired if not any(each[1] is repair for _, repair in gone)]
        named = [(repair.cached.attachment.container_id, repair) for _, repair in gone]
        after = self._at_once(lambda repair: remove_again(self._executor, repair), named)
        return [(repair, now) for (_, repair), now in zip(gone, after, strict=True)]

    def _at_once(self, action: Callable[[T], R], each_of: Iterable[tuple[str, T]]) -> list[R]:
        """Call `action` on the node, `jobs` at a time; a signal ends those under way, and begins no more."""
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="repair")
        taking = recorder()

        def act(each: tuple[str, T]) -> R:
            container_id, value = each
            with recorded_by(None if taking is None else taking.branch(container_id[:12])):
                return self._node.run(action, value)

        try:
            return list(pool.map(act, each_of))
        finally:
            pool.shutdown(cancel_futures=True)

    def _repair_slice(self, containers: Sequence[Sequence[_Known]]) -> list[tuple[_Known, Repair]]:
        """Repair the first attachment of each container, then the second of each."""
        repairs: list[tuple[_Known, Repair]] = []
        for attachments in zip(*containers, strict=True):
            live: list[tuple[_Known, LiveAttachment]] = []
            for each in attachments:
                found = _look_up(each)
                if isinstance(found, LiveAttachment):
                    live.append((each, found))
                else:
                    repairs.append((each, found))
            repaired = repair_attachments(self._executor, [found for _, found in live])
            repairs += [(each, repair) for (each, _), repair in zip(live, repaired, strict=True)]
        return repairs


def _slices(known: Iterable[_Known], jobs: int) -> list[list[list[_Known]]]:
    """Divide the containers among the jobs; all of a slice have the same configurations, in the same order.

    More than two slices for each processor would only cost more executions.
    """
    parts = min(jobs, 2 * (os.cpu_count() or 1))
    containers: dict[str, list[_Known]] = {}
    for each in known:
        containers.setdefault(each.cached.attachment.container_id, []).append(each)
    alike: dict[tuple[bytes, ...], list[list[_Known]]] = {}
    for attachments in containers.values():
        alike.setdefault(tuple(each.cached.config for each in attachments), []).append(attachments)
    slices = []
    for group in alike.values():
        size = min(_MOST, -(-len(group) // parts))
        slices += [group[start : start + size] for start in range(0, len(group), size)]
    return slices


def _look_up(known: _Known) -> LiveAttachment | Repair:
    """Return an attachment that has its network namespace, or the reason not to repair it."""
    cached = known.cached
    netns = namespace_of(cached)
    attachment = cached.attachment
    try:
        known.cache.path(cached.network, attachment.container_id, attachment.ifname)
    except CniError as error:  # another program's file, such as a very old libcni's
        return Repair(cached, netns, RepairOutcome.FAILED, error=str(error))
    if not netns:
        return Repair(cached, netns, RepairOutcome.LEFT, error="neither the cache nor the result names its namespace")
    try:
        if not sandbox_exists(netns):
            return Repair(cached, netns, RepairOutcome.LEFT, error=f"its network namespace is gone: {netns}")
    except OSError as error:
        return Repair(cached, netns, RepairOutcome.FAILED, error=f"{error.filename}: {error.strerror}")
    return LiveAttachment(known.cache, cached, netns)


_CONFIRM_AFTER_S = (1.0, 4.0, 15.0)
"""Pauses before the caches are read again, for DELs that were under way during a repair, in seconds."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 60.0


def watch(
    monitor: LossMonitor,
    *,
    repair: Callable[[], object],
    confirm: Callable[[], object],
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Call `repair` at the start and after every loss, and `confirm` some time after each repair.

    A repair changes the rules that it is told about. So a loss that is announced during a repair may be the repair's
    own doing, or another program's: it leads to one more repair, which changes nothing if all is in order. Should
    each repair cause another, the pauses between them grow. An exception ends it: the one that a signal raises, or an
    OSError.
    """
    repeated = 0
    while True:
        confirm()
        repair()
        if monitor.wait(0):
            if repeated:
                pause(min(_FIRST_PAUSE_S * 2**repeated, _LONGEST_PAUSE_S))
            repeated += 1
        else:
            repeated = 0
            _wait_for_loss(monitor, confirm)


def _wait_for_loss(monitor: LossMonitor, confirm: Callable[[], object]) -> None:
    for pause in _CONFIRM_AFTER_S:
        if monitor.wait(pause):
            return
        confirm()
    monitor.wait(None)
