"""The loop of a process with agents: it waits for changes of Nodes and of kernels, and compares all now and then."""

import math
import select
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TypeAlias

from agent.agent import Agent
from agent.cluster import Cluster
from agent.sources import NodeSource

Tell: TypeAlias = Callable[[Agent, list[str]], object]

GATHER: Final = 0.05
"""Seconds in which the rest of a burst of changes is waited for."""
COMPARE: Final = 60.0
"""Seconds between full comparisons, whatever was announced."""
_POLL: Final = 0.5
"""Seconds between looks at a source without a descriptor."""
_RETRY: Final = 1.0
"""Seconds after which a comparison that failed is tried again."""


def serve(source: NodeSource, cluster: Cluster, agents: Sequence[Agent], stop: int, tell: Tell) -> None:
    """Serve until the descriptor `stop` is readable. `tell` gets each agent's problems after each of its changes.

    Nothing is changed before the source knows the Nodes.
    """
    loop = _Loop(source, cluster, agents, tell)
    by_descriptor = {agent.fileno(): agent for agent in agents}
    poll = select.poll()
    for descriptor in (stop, source.fileno(), *by_descriptor):
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll(loop.pause() * 1000)}
        if stop in ready:
            return
        if source.fileno() is None or source.fileno() in ready:
            loop.look_at_source()
        for descriptor in ready & by_descriptor.keys():
            loop.look_at_kernel(by_descriptor[descriptor])
        loop.work()


class _Loop:
    """When the Nodes are to be read, and when each agent is to compare, as times of the monotonic clock."""

    def __init__(self, source: NodeSource, cluster: Cluster, agents: Sequence[Agent], tell: Tell) -> None:
        self._source = source
        self._cluster = cluster
        self._tell = tell
        self._read = 0.0
        self._due = dict.fromkeys(agents, math.inf)

    def pause(self) -> float:
        """Return the seconds until something is to be done."""
        most = _POLL if self._source.fileno() is None else COMPARE
        return max(0.0, min(self._read, *self._due.values(), monotonic() + most) - monotonic())

    def look_at_source(self) -> None:
        """Have the Nodes read soon if they have changed."""
        if self._source.poll():
            self._read = min(self._read, monotonic() + GATHER)

    def look_at_kernel(self, agent: Agent) -> None:
        """Have an agent compare soon if the kernel has announced something that is not as planned."""
        try:
            is_disturbed = agent.is_disturbed()
        except OSError:
            is_disturbed = True
        if is_disturbed and agent.plan is not None:
            self._due[agent] = min(self._due[agent], monotonic() + GATHER)

    def work(self) -> None:
        """Read the Nodes, and have agents compare, if it is time."""
        now = monotonic()
        if self._read <= now:
            self._read = math.inf
            self._take_nodes()
        for agent, due in self._due.items():
            if due <= now:
                self._attempt(agent, None)

    def _take_nodes(self) -> None:
        nodes = self._source.nodes()
        if nodes is None:
            for agent in self._due if self._source.problems else ():
                self._tell(agent, [*self._source.problems])
            return
        changed = self._cluster.update(nodes)
        for agent in self._due:
            if agent.plan is None:
                self._due[agent] = 0.0
            elif changed:
                self._attempt(agent, changed)
            else:
                self._tell(agent, [*self._source.problems, *agent.problems])

    def _attempt(self, agent: Agent, changed: set[str] | None) -> None:
        """Have an agent follow the Nodes that have changed; with None it compares all."""
        judgement = self._cluster.judgement_for(agent.options.node)
        agent.failure = ""
        try:
            # A disputed node's judgement is its own: the changes of the common one do not tell all of its.
            if changed is None or self._cluster.is_disputed(agent.options.node):
                self._due[agent] = monotonic() + COMPARE
                agent.reconcile(judgement)
            else:
                agent.follow(judgement, changed)
        except OSError as error:
            agent.failure = str(error.strerror or error)
            self._due[agent] = monotonic() + _RETRY
        self._tell(agent, [*self._source.problems, *agent.problems])
