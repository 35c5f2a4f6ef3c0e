"""REPAIR of all live attachments of a node, many at a time."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.execute import Executor
from harness.libcni.repair import Outcome, Repair, is_gone, namespace_of, remove_again, repair_attachment
from harness.runtime.node import Node
from harness.runtime.sandbox import sandbox_exists

__all__ = ["NodeRepair"]


T = TypeVar("T")
R = TypeVar("R")


class _Known(NamedTuple):
    """An attachment, and the cache that has it."""

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
        containers: dict[str, list[_Known]] = {}
        known = [_Known(cache, cached) for cache in self._caches for cached in cache.attachments()]
        for each in known:
            if not self._networks or each.cached.network in self._networks:
                containers.setdefault(each.cached.attachment.container_id, []).append(each)
        done = self._at_once(self._repair_container, containers.values())
        self._repaired = [each for container in done for each in container]
        repairs = [repair for _, repair in self._repaired]
        removed = {id(was): now for was, now in self.confirm()}
        return [removed.get(id(repair), repair) for repair in repairs]

    def confirm(self) -> list[tuple[Repair, Repair]]:
        """Remove what was put back for attachments that the runtime has deleted since.

        Returns their repairs before and after. To be called once more some time later: a DEL may take its time between
        the plugins and the cache.
        """
        gone = [
            (cache, repair)
            for cache, repair in self._repaired
            if repair.outcome in {Outcome.OK, Outcome.FAILED} and repair.plugins and is_gone(cache, repair.cached)
        ]
        self._repaired = [each for each in self._repaired if not any(each[1] is repair for _, repair in gone)]
        after = self._at_once(lambda each: remove_again(self._executor, each[1]), gone)
        return [(repair, now) for (_, repair), now in zip(gone, after, strict=True)]

    def _at_once(self, action: Callable[[T], R], each_of: Iterable[T]) -> list[R]:
        """Call `action` on the node, `jobs` at a time; a signal ends those under way, and begins no more."""
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="repair")
        try:
            return list(pool.map(lambda each: self._node.run(action, each), each_of))
        finally:
            pool.shutdown(cancel_futures=True)

    def _repair_container(self, attachments: Iterable[_Known]) -> list[tuple[ResultCache, Repair]]:
        return [(cache, self._repair_one(cache, cached)) for cache, cached in attachments]

    def _repair_one(self, cache: ResultCache, cached: CachedAttachment) -> Repair:
        netns = namespace_of(cached)
        if not netns:
            return Repair(cached, netns, Outcome.LEFT, error="neither the cache nor the result names its namespace")
        try:
            if not sandbox_exists(netns):
                return Repair(cached, netns, Outcome.LEFT, error=f"its network namespace is gone: {netns}")
            return repair_attachment(self._executor, cache, cached, netns)
        except OSError as error:
            return Repair(cached, netns, Outcome.FAILED, error=f"{error.filename}: {error.strerror}")
