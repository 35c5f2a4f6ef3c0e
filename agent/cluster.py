"""The nodes that all agents of one process share: judged once after each change."""

from collections.abc import Iterable, Sequence

from agent.peers import ClusterNode, Judgement, Network, judge


class Cluster:
    """The nodes of a cluster, judged; which nodes differ after an update is told by their names."""

    def __init__(self, cluster_cidrs: Sequence[Network] = ()) -> None:
        self._cluster_cidrs = cluster_cidrs
        self._nodes: list[ClusterNode] = []
        self._judgement = Judgement({}, [])

    def update(self, nodes: Iterable[ClusterNode]) -> set[str]:
        """Take the nodes, and return the names of those that came, went or are judged in another way."""
        self._nodes = list(nodes)
        before, self._judgement = self._judgement, judge(self._nodes, "", self._cluster_cidrs)
        old, new = before.peers, self._judgement.peers
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        return changed | {each.node for each in set(before.problems) ^ set(self._judgement.problems)}

    def is_disputed(self, own: str) -> bool:
        """Tell whether the common judgement has refused a claim of the node `own`."""
        return any(each.node == own for each in self._judgement.problems)

    def judgement_for(self, own: str) -> Judgement:
        """Return the judgement of the node `own`, which comes before all others.

        Nothing else differs unless the common judgement has refused a claim of that node.
        """
        return judge(self._nodes, own, self._cluster_cidrs) if self.is_disputed(own) else self._judgement
