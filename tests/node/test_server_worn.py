"""A worker that has served 150 mixed requests works like a new one: it passes the checks, and makes the same states."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, subjects_of
from harness.libcni.networks import parse_network_list
from harness.snapshot import differences
from launch.launcher import launcher_bytes
from tests.findings import examine
from tests.nodes import HANG, Node
from tests.servers import running_server, write_launchers

pytestmark = pytest.mark.sudo

MIXED = 150
ROUND = 10
"""Requests of one round."""
FOREVER = 1_000_000
UNFIT = {"killed-add", "check-later-mac"}
"""A worker that is killed leaves the rest to a new one; `macspoofchk` refuses another MAC."""
PARTS = 3
"""The number of tests that share a plugin's checks."""
PLUGIN: dict[str, Any] = {
    "type": "bridge",
    "bridge": "br0",
    "isDefaultGateway": True,
    "ipMasq": True,
    "macspoofchk": True,
    "capabilities": dict.fromkeys(("ips", "ipRanges", "mac"), True),
    "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.77.0.0/27"}], [{"subnet": "fd00:77::/64"}]],
        "statusFailsWhenFull": True,
    },
}
NETWORK = {"cniVersion": "1.1.0", "name": "worn", "plugins": [PLUGIN]}
CONFIG = {**PLUGIN, "cniVersion": "1.1.0", "name": "worn"}
OTHER = {
    **CONFIG,
    "name": "wear",
    "bridge": "br7",
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/16"}]]},
}
# A worker ends after so many requests.
PRELUDE = """
from launch.server import worker
assert worker._MOST_REQUESTS
worker._MOST_REQUESTS = {most}
"""


@contextmanager
def serving(folder: Path, most: int, prefix: list[str]) -> Iterator[Path]:
    """Run a server with one worker at a time; yield a CNI_PATH of launchers that ask it."""
    folder.mkdir()
    prelude = PRELUDE.format(most=most)
    with running_server(folder, "--workers", "1", "--most", "1", prefix=prefix, prelude=prelude) as server:
        # With the launchers' own timeout: a delegate that the worker executes finds that only worker busy.
        yield write_launchers(folder / "bin", launcher_bytes(socket=str(server.socket)))
    assert "left to the launcher" not in server.log()


def serve(node: Node, bin_dir: Path, rounds: int) -> None:
    """Have workers serve requests of each kind, those that fail among them."""
    pod = node.pod_namespace("other")
    for number in range(rounds):
        common: dict[str, Any] = {"container_id": f"w{number}", "ifname": "eth0", "netns": pod}
        added = node.plugin(bin_dir, "bridge", "ADD", OTHER, **common)
        assert added.code == 0, added
        assert node.plugin(bin_dir, "bridge", "CHECK", {**OTHER, "prevResult": added.stdout}, **common).code == 0
        assert node.plugin(bin_dir, "bridge", "ADD", OTHER, **common).code == 1
        assert node.plugin(bin_dir, "bridge", "ADD", "no JSON", **common).code == 1
        assert node.plugin(bin_dir, "noop", "VERSION", "{}").code == 0
        assert node.plugin(bin_dir, "loopback", "ADD", {**OTHER, "type": "loopback"}, **common).code == 0
        assert node.plugin(bin_dir, "bridge", "STATUS", OTHER).code == 0
        assert node.plugin(bin_dir, "bridge", "GC", {**OTHER, "cni.dev/valid-attachments": []}).code == 0
        assert node.plugin(bin_dir, "bridge", "DEL", OTHER, **common).code == 0
        assert node.plugin(bin_dir, "bridge", "DEL", OTHER, **common).code == 0
    node.run(["ip", "link", "delete", "br7"])


def states(node: Node, bin_dir: Path, name: str) -> list[Any]:
    """The answer of each step of two attachments' lives, and its changes on the node, but for random values."""
    pods = [node.pod_namespace(f"{name}-{number}") for number in range(2)]
    seen: list[Any] = []
    before = node.state()

    def changed() -> list[str]:
        return [each.in_words() for each in differences(before, node.state())]

    def step(verb: str, number: int, **keys: object) -> Any:
        config = {**CONFIG, **keys}
        run = node.plugin(bin_dir, "bridge", verb, config, container_id=f"c{number}", ifname="eth0", netns=pods[number])
        seen.append([verb, run.code, _same(run.stdout, node), _same(changed(), node)])
        return run.stdout

    results = [step("ADD", number) for number in range(2)]
    step("ADD", 0)
    step("CHECK", 0, prevResult=results[0])
    gone = {"cni.dev/valid-attachments": [{"containerID": "c0", "ifname": "eth0"}]}
    node.plugin(bin_dir, "bridge", "GC", {**CONFIG, **gone})
    step("CHECK", 1, prevResult=results[1])
    step("DEL", 1)
    step("DEL", 0, prevResult=results[0])
    step("DEL", 0)
    node.run(["ip", "link", "delete", "br0"])
    return seen


def _same(document: object, node: Node) -> Any:
    """Return a document without what differs from one node to the next."""
    text = (
        json.dumps(document, sort_keys=True)
        .replace(node.name, "NODE")
        .replace("fresh-", "POD-")
        .replace("worn-", "POD-")
    )
    text = re.sub(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", "MAC", text)
    text = re.sub(r"fe80::[0-9a-f:]+", "LINK-LOCAL", text)
    return json.loads(text)


@pytest.mark.slow("a worker after many calls; test_server_workers wears one out in make test")
def test_worn_worker_makes_the_same_states_as_a_new_worker(make_node: Callable[[], Node], tmp_path: Path) -> None:
    seen: list[Any] = []
    for name, most in (("fresh", 1), ("worn", FOREVER)):
        node = make_node()
        # On the node itself, whose sockets a worker keeps open.
        with serving(tmp_path / name, most, node.command([])) as bin_dir:
            serve(node, bin_dir, MIXED // ROUND if name == "worn" else 1)
            seen.append(states(node, bin_dir, name))

    fresh, worn = seen
    assert len(fresh) > 5
    for new, old in zip(fresh, worn, strict=True):
        assert old == new


@pytest.mark.time_limit(600, "it runs the suite for one plugin")
@pytest.mark.slow("the suite once more; what a worn worker does is in make test")
@pytest.mark.one_row_in(3)
@pytest.mark.parametrize(
    ("plugin", "part"), [(plugin, part) for plugin in ("bridge", "host-local") for part in range(PARTS)]
)
def test_a_worn_worker_passes_the_checks(plugin: str, part: int, node: Node, tmp_path: Path) -> None:
    """As new workers and plugins without a server do, in the tests of the conformance suite."""
    profile = Profile.INTERFACE if plugin == "bridge" else None
    wanted = [check for check in all_checks() if check.id not in UNFIT]
    with serving(tmp_path / "worn", FOREVER, node.command([])) as bin_dir:
        serve(node, bin_dir, MIXED // ROUND)
        network = parse_network_list(json.dumps(NETWORK).encode())
        [subject] = subjects_of(network, [bin_dir], profile=profile, only=[plugin])
        mine = [check for check in wanted if subject.profile in check.profiles][part::PARTS]

        found = examine(
            subject,
            mine,
            state_dir=tmp_path / "state",
            options=CheckOptions(timeout=HANG),
            jobs=2,
        )

    assert any(each.outcome is Outcome.PASS for each in found)
    for each in found:
        assert each.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, (each.check.id, each.detail)
