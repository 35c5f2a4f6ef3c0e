"""Plugins that need something on the node: examined when it is there, and not blamed for all else when it is not."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.engine.node_setup import PreparationError
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.findings import examine
from tests.launchers import is_running
from tests.nodes import HANG

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("nodes with programs of the user; test_cli_conformance runs one in make test"),
]

DEBIAN = Path("/usr/lib/cni")
CHECKS = {check.id: check for check in all_checks()}
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.71.0.0/24"}]]}
MACVLAN = {"type": "macvlan", "master": "uplink0", "ipam": IPAM}
HOST_DEVICE = {"type": "host-device", "device": "uplink0", "ipam": IPAM}
UPLINK = """#!/bin/sh -e
ip link add uplink0 type veth peer name uplink1
ip link set uplink0 up
ip link set uplink1 up
"""
WANTING_AN_ADD = (
    "add-configured-dns",
    "check-after-add",
    "del-undoes-add",
    "delegate-stderr",
    "killed-add",
    "own-namespace",
    "parallel-add",
)


def executable(path: Path, script: str) -> Path:
    path.write_text(script)
    path.chmod(0o755)
    return path


def subject(plugin: Mapping[str, object]) -> Subject:
    network = {"cniVersion": "1.0.0", "name": "prepared", "plugins": [plugin]}
    [found] = subjects_of(
        parse_network_list(json.dumps(network).encode()),
        [DEBIAN],
        profile=Profile.INTERFACE,
        only=[str(plugin["type"])],
    )
    return found


def find(
    plugin: Mapping[str, object], names: tuple[str, ...], folder: Path, options: CheckOptions
) -> dict[str, Finding]:
    wanted = [CHECKS[name] for name in names]
    return {each.check.id: each for each in examine(subject(plugin), wanted, state_dir=folder, options=options)}


@pytest.mark.parametrize("plugin", [MACVLAN, HOST_DEVICE], ids=lambda plugin: plugin["type"])
def test_checks_pass_on_a_prepared_node(plugin: Mapping[str, object], tmp_path: Path) -> None:
    prepared = CheckOptions(preparation=executable(tmp_path / "prepare", UPLINK))

    found = find(plugin, ("add-prints-result", "check-after-add", "del-undoes-add"), tmp_path, prepared)

    assert {name: each.outcome for name, each in found.items()} == dict.fromkeys(found, Outcome.PASS), found


GONE_WITH_THE_CONTAINER = (
    "del-interface-gone-leaves-nothing",
    "del-netns-empty",
    "del-netns-gone",
    "del-netns-unset",
    "delegate-del-without-netns",
    "nerdctl-last-del",
    "nerdctl-namespace-of-process",
)


@pytest.mark.parametrize("plugin", [MACVLAN, HOST_DEVICE], ids=lambda plugin: plugin["type"])
def test_a_device_that_ends_with_the_container_is_not_missed(plugin: Mapping[str, object], tmp_path: Path) -> None:
    is_moved = plugin is HOST_DEVICE
    prepared = CheckOptions(preparation=executable(tmp_path / "prepare", UPLINK))

    found = find(plugin, GONE_WITH_THE_CONTAINER, tmp_path, prepared)

    assert found.keys() == set(GONE_WITH_THE_CONTAINER)
    assert all(("ADD moves an interface of the node" in each.detail) is is_moved for each in found.values()), found
    assert all((each.outcome is Outcome.NOT_APPLICABLE) is is_moved for each in found.values()), found


def test_nodes_of_chaos_runs_are_prepared(tmp_path: Path) -> None:
    prepared = CheckOptions(preparation=executable(tmp_path / "prepare", UPLINK), kills=2)

    chaos = kill_adds(subject(MACVLAN), state_dir=tmp_path, options=prepared)

    assert len(chaos.kills) == 2


@pytest.mark.parametrize("plugin", [MACVLAN, HOST_DEVICE], ids=lambda plugin: plugin["type"])
def test_an_add_that_always_fails_is_one_finding(plugin: Mapping[str, object], tmp_path: Path) -> None:
    found = find(plugin, ("add-prints-result", *WANTING_AN_ADD), tmp_path, CheckOptions())

    assert found.pop("add-prints-result").outcome is Outcome.FAIL
    assert {each.outcome for each in found.values()} == {Outcome.NOT_EXAMINED}, found
    because = "not examined, because of add-prints-result: exit code 1: "
    assert all(each.detail.startswith(because) for each in found.values()), found


def test_checks_without_add_run_on_an_unprepared_node(tmp_path: Path) -> None:
    found = find(MACVLAN, ("variable-named", "version-result"), tmp_path, CheckOptions())

    assert found["variable-named"].outcome is Outcome.FAIL
    assert found["version-result"].outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho no such link >&2\nexit 3\n", "exit code 3: no such link"),
        ("#!/bin/sh\nexit 3\n", "exit code 3: nothing said"),
        ("#!/bin/sh\nexec sleep 600\n", "no end after 0.5 s"),
        ("#!/no/such/interpreter\n", "No such file or directory"),
    ],
)
def test_failed_preparation_is_one_error(script: str, said: str, tmp_path: Path) -> None:
    program = executable(tmp_path / "prepare", script)
    options = CheckOptions(timeout=0.5 if said.startswith("no end") else HANG, preparation=program)

    with pytest.raises(PreparationError) as raised:
        run_check(CHECKS["version-result"], subject(MACVLAN), state_dir=tmp_path, options=options)

    assert str(raised.value) == f"--prepare {program}: {said}"
    assert list(tmp_path.glob("nodes/*")) == []


def test_daemon_of_the_preparation_runs_until_the_check_ends(tmp_path: Path) -> None:
    """As of a daemon: it holds the output open, and must not be waited for."""
    daemon = f"#!/bin/sh -e\nsetsid sleep 600 &\necho $! >{tmp_path}/pid\ntouch /var/lib/cni/prepared\n{UPLINK}"
    prepared = CheckOptions(preparation=executable(tmp_path / "prepare", daemon))
    wrapped = f'#!/bin/sh\nkill -0 "$(cat {tmp_path}/pid)" && [ -e /var/lib/cni/prepared ] && exec {DEBIAN}/macvlan\n'
    executable(tmp_path / "macvlan", wrapped)
    [found] = subjects_of(subject(MACVLAN).network, [tmp_path, DEBIAN], profile=Profile.INTERFACE, only=["macvlan"])

    finding = run_check(CHECKS["add-prints-result"], found, state_dir=tmp_path, options=prepared)

    assert finding.outcome is Outcome.PASS, finding.detail
    assert not is_running(int((tmp_path / "pid").read_text()))
    assert not Path("/var/lib/cni/prepared").exists()
