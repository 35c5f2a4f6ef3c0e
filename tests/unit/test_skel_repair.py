"""REPAIR, the verb that this project adds to those of the specification."""

import json

import pytest

from skel import SUPPORTED, Args, Config, Outcome, Plugin, Result, dispatch

ENVIRON = {
    "CNI_COMMAND": "REPAIR",
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/run/netns/pod",
    "CNI_IFNAME": "eth0",
    "CNI_PATH": "/opt/cni/bin",
}
RESULT = {"cniVersion": "1.0.0", "ips": [{"address": "192.0.2.7/24"}]}


def call(plugin: Plugin[Config], environ: dict[str, str] = ENVIRON, **keys: object) -> Outcome:
    config = {"cniVersion": "1.0.0", "name": "net", "type": "sample", "prevResult": RESULT} | keys
    return dispatch(plugin, environ, lambda: json.dumps(config).encode())


def repairing(seen: list[Args[Config]]) -> Plugin[Config]:
    return Plugin("sample", config=Config, add=lambda _: Result(), delete=lambda _: None, repair=seen.append)


@pytest.mark.parametrize("version", SUPPORTED)
def test_repair_gets_the_result_with_every_version(version: str) -> None:
    seen: list[Args[Config]] = []

    outcome = call(repairing(seen), cniVersion=version)

    assert outcome == Outcome(b"", b"", 0)
    [args] = seen
    assert args.prev_result is not None
    assert [str(ip.address) for ip in args.prev_result.ips] == ["192.0.2.7/24"]


def test_a_plugin_without_repair_answers_as_to_an_unknown_verb() -> None:
    plugin = Plugin("sample", config=Config, add=lambda _: Result(), delete=lambda _: None)

    outcome = call(plugin)

    answer = json.loads(outcome.stdout)
    assert (
        outcome.code,
        answer["code"],
        answer["msg"],
        answer["details"],
    ) == (1, 4, 'unknown CNI_COMMAND: "REPAIR"', "sample has no repair")


@pytest.mark.parametrize("name", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"])
def test_repair_names_the_missing_variable(name: str) -> None:
    seen: list[Args[Config]] = []

    outcome = call(repairing(seen), ENVIRON | {name: ""})

    assert json.loads(outcome.stdout)["msg"].endswith(name)
    assert seen == []


def test_repair_refuses_an_unreadable_result() -> None:
    seen: list[Args[Config]] = []

    outcome = call(repairing(seen), prevResult={"cniVersion": "1.0.0", "ips": "none"})

    assert "ips" in json.loads(outcome.stdout)["msg"]
    assert seen == []


def test_repair_refuses_the_nodes_own_network_namespace() -> None:
    seen: list[Args[Config]] = []

    outcome = call(repairing(seen), ENVIRON | {"CNI_NETNS": "/proc/1/../self/ns/net"})

    assert json.loads(outcome.stdout)["code"] == 8
    assert seen == []
