"""A node on which one suite has a network: where the pods of the measurement come and go."""

import uuid
from dataclasses import dataclass

from harness.bench.attachments import Attached, Caller, new_attachment
from harness.bench.population import populate
from harness.bench.process import Chain, Ended, run_chains
from harness.site import Ground, Site

__all__ = ["Stand", "attached_to", "furnish"]


def attached_to(netns: str) -> Attached:
    """Return an attachment of a new container in a pod's namespace, before its ADD."""
    return Attached(new_attachment(uuid.uuid4().hex + uuid.uuid4().hex, netns))


@dataclass(frozen=True)
class Stand:
    """A node, whose plugins are called on it and for which network, and how many pods it is filled with."""

    ground: Ground
    caller: Caller
    pods: int

    @property
    def suite(self) -> str:
        """The name of the suite."""
        return self.caller.suite.name

    def add(self, attached: Attached) -> list[tuple[str, Ended]]:
        """ADD; return what came of each plugin. Raises PluginFailedError."""
        return self._run(self.caller.add(attached), attached)

    def delete(self, attached: Attached) -> list[tuple[str, Ended]]:
        """DEL; return what came of each plugin. Raises PluginFailedError."""
        return self._run(self.caller.delete(attached), attached)

    def _run(self, chain: Chain, attached: Attached) -> list[tuple[str, Ended]]:
        attached.executions.clear()
        self.ground.run(run_chains, [chain], timeout=self.caller.timeout)
        return attached.executions.copy()


def furnish(site: Site, caller: Caller, pods: int) -> Stand:
    """Make a node with one pod, and what `pods` more would have left. Raises PluginFailedError, PopulationError.

    The one pod stays, so that the network's bridge and the firewall's tables are there and remain.
    """
    stand = Stand(site.ground(), caller, pods)
    standing = attached_to(site.namespace())
    stand.add(standing)
    populate(stand.ground, caller.network, standing, pods)
    # A pod that nobody knows: a suite that keeps an index of what is reserved has it up to date after this.
    stand.delete(attached_to(site.namespace()))
    return stand
