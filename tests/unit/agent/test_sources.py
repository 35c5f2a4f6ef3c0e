"""Sources of Nodes: when they tell of a change, and which Node of two with one name comes first."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from agent.sources import ApiNodes, ManifestNodes
from tests.api_server import ApiServer, Exchange, answers, fails, node_list
from tests.nodes import until
from tests.unit.kube.test_watch import streams


@pytest.mark.slow("seconds: the client tries again before it gives up")
def test_a_server_that_goes_away_is_a_problem_at_once() -> None:
    steps = answers(node_list(5)), streams(Exchange.end), *[fails(403, "Forbidden", "not now")] * 2
    with ApiServer(*steps).running() as server, closing(ApiNodes(server.config)) as source:
        until(lambda: source.poll() and source.nodes() == [])

        until(lambda: source.poll() and source.problems == ["403 Forbidden: not now"])
        assert source.nodes() == []
        server.then(streams(Exchange.hang))
        until(lambda: source.poll() and source.problems == [])


def test_the_order_of_nodes_is_that_of_their_files(tmp_path: Path) -> None:
    def write(name: str, cidr: str) -> None:
        content = {"kind": "Node", "metadata": {"name": "a"}, "spec": {"podCIDR": cidr}}
        (tmp_path / name).write_text(json.dumps(content))

    write("b.json", "10.244.1.0/24")
    source = ManifestNodes(tmp_path)
    write("a.json", "10.244.2.0/24")
    source.poll()

    nodes = source.nodes()
    assert nodes == ManifestNodes(tmp_path).nodes()
    assert [each.pod_cidrs for each in nodes or ()] == [("10.244.2.0/24",), ("10.244.1.0/24",)]


def test_a_name_with_a_new_line_and_a_link_to_itself_are_faults_of_their_files_alone(tmp_path: Path) -> None:
    bad, loop = tmp_path / "bad.json", tmp_path / "loop.json"
    bad.write_text(json.dumps({"kind": "Node", "metadata": {"name": "a\nError: fake"}}))
    loop.symlink_to(loop)
    (tmp_path / "good.json").write_text(json.dumps({"kind": "Node", "metadata": {"name": "good"}}))

    source = ManifestNodes(tmp_path)

    assert [each.name for each in source.nodes() or ()] == ["good"]
    assert source.problems == [
        f"{bad}: a Node of the name 'a\\nError: fake'",
        f"{loop}: Too many levels of symbolic links",
    ]
