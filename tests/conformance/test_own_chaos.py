"""Our plugins are killed in the middle of an ADD, at many points, and nothing of it is left after DEL and GC.

`make soak` ends thousands. A third of the points is in each run; `--all-rows` takes all.
"""

import json
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.chaos import PointUnit, kill_adds
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.samples import share

pytestmark = [pytest.mark.sudo, pytest.mark.slow("kills at many points; test_pods_crash kills an add in make test")]

KILLS = 90
NETWORK = {
    "cniVersion": "1.1.0",
    "name": "chaos",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "br0",
            "isGateway": True,
            "ipMasq": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64"}]]},
        }
    ],
}


def bridge_in(bin_dir: Path) -> Subject:
    network = parse_network_list(json.dumps(NETWORK).encode())
    (subject,) = subjects_of(network, [bin_dir], profile=Profile.INTERFACE)
    return subject


@pytest.mark.parametrize(("kind", "by"), [("direct", PointUnit.CALLS), ("served", PointUnit.TIME)])
def test_killed_adds_leave_nothing(kind: str, by: PointUnit, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bin_dir: Path = request.getfixturevalue(f"{kind}_bin_dir")
    kills = share(request.config, KILLS, one_in=3)

    chaos = kill_adds(bridge_in(bin_dir), state_dir=tmp_path, options=CheckOptions(kills=kills, killers=2))

    assert chaos.by is by
    assert len(chaos.kills) >= kills * 0.9
    assert chaos.leaks == []


def test_kills_hit_the_middle_of_an_add(direct_bin_dir: Path, tmp_path: Path) -> None:
    """Leftovers before DEL, of a plugin whose DEL does nothing: of some kills nothing yet, of others something."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for plugin in ("bridge", "host-local"):
        script = f'#!/bin/sh\n[ "$CNI_COMMAND" = DEL ] || [ "$CNI_COMMAND" = GC ] || exec {direct_bin_dir}/{plugin}\n'
        (folder / plugin).write_text(script if plugin == "bridge" else script.replace("DEL", "NEVER"))
        (folder / plugin).chmod(0o755)

    chaos = kill_adds(bridge_in(folder), state_dir=tmp_path, options=CheckOptions(kills=8, killers=2))

    leaked = [bool(kill.leaked) for kill in chaos.kills]
    assert any(leaked)
    assert not all(leaked)
