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
        before, self._judgement = self._judgement.peers, judge(self._nodes, "", self._cluster_cidrs)
        after = self._judgement.peers
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    def judgement_for(self, own: str) -> Judgement:
        """Return the judgement of the node `own`, which comes before all others.

        Nothing else differs unless the common judgement has refused a claim of that node.
        """
        if all(each.node != own for each in self._judgement.problems):
            return self._judgement
        return judge(self._nodes, own, self._cluster_cidrs)
