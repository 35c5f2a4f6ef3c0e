"""REPAIR, the verb that this project adds to those of the specification."""

import json
from typing import Any

import pytest

from skel import SUPPORTED, Args, CniError, Code, Config, Outcome, Plugin, Result, dispatch, field, raw

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


class Ports(Config):
    runtime_config: object = field(raw, "runtimeConfig", default=None)


def listed(*containers: str, **keys: object) -> dict[str, object]:
    """A configuration that lists an attachment of each container, with an address and ports of its own."""
    attachments = [
        {
            "containerID": container,
            "ifname": "eth0",
            "netns": f"/run/netns/{container}",
            "args": f"K={container}",
            "runtimeConfig": {"ports": [number]},
            "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": f"192.0.2.{number}/24"}]},
            **keys,
        }
        for number, container in enumerate(containers, 1)
    ]
    return {"cniVersion": "1.0.0", "name": "net", "type": "sample", "cni-harness/attachments": attachments}


def call_for_all(plugin: Plugin[Any], config: dict[str, object]) -> Outcome:
    environ = {"CNI_COMMAND": "REPAIR", "CNI_PATH": "/opt/cni/bin"}
    return dispatch(plugin, environ, lambda: json.dumps(config).encode())


def test_each_listed_attachment_is_repaired_with_its_own_parameters() -> None:
    seen: list[Args[Ports]] = []
    plugin = Plugin(
        "sample",
        config=Ports,
        add=lambda _: Result(),
        delete=lambda _: None,
        repair=seen.append,
        env_args=["K"],
    )

    outcome = call_for_all(plugin, listed("c1", "c2"))

    assert (outcome.code, outcome.stderr) == (0, b"")
    answers = [{"containerID": container, "ifname": "eth0"} for container in ("c1", "c2")]
    assert json.loads(outcome.stdout) == {"attachments": answers}
    for number, (args, container) in enumerate(zip(seen, ("c1", "c2"), strict=True), 1):
        assert (args.container_id, args.ifname, args.netns) == (container, "eth0", f"/run/netns/{container}")
        assert args.cni_args == {"K": container}
        assert args.config.runtime_config == {"ports": [number]}
        assert args.prev_result is not None
        assert [str(ip.address) for ip in args.prev_result.ips] == [f"192.0.2.{number}/24"]
    assert seen[0].open_sockets is seen[1].open_sockets


def test_a_failing_attachment_does_not_harm_the_others() -> None:
    seen = []

    def repair(args: Args[Config]) -> None:
        args.log("looking")
        if args.container_id == "c2":
            raise CniError(Code.INTERNAL, "its bridge is missing")
        if args.container_id == "c3":
            raise KeyError(args.container_id)
        seen.append(args.container_id)

    plugin = Plugin("sample", config=Config, add=lambda _: Result(), delete=lambda _: None, repair=repair)

    outcome = call_for_all(plugin, listed("c1", "c2", "c3", "", "c5"))

    answers = json.loads(outcome.stdout)["attachments"]
    errors = [each.get("error", {}).get("msg") for each in answers]
    assert seen == ["c1", "c5"]
    assert errors[:3] == [None, "its bridge is missing", "'c3'"]
    assert errors[3].endswith("CNI_CONTAINERID")
    assert errors[4] is None
    assert outcome.code == 0
    assert b"sample: looking containerID=c2\n" in outcome.stderr


def test_a_plugin_without_repair_refuses_the_list() -> None:
    plugin = Plugin("sample", config=Config, add=lambda _: Result(), delete=lambda _: None)

    outcome = call_for_all(plugin, listed("c1", "c2"))

    assert (outcome.code, json.loads(outcome.stdout)["msg"]) == (1, 'unknown CNI_COMMAND: "REPAIR"')


@pytest.mark.parametrize("value", ["all", [1], [{"ifname": "eth0"}]])
def test_an_unreadable_list_is_named(value: object) -> None:
    outcome = call_for_all(repairing([]), {**listed(), "cni-harness/attachments": value})

    answer = json.loads(outcome.stdout)
    assert (outcome.code, answer["code"]) == (1, 7)
    assert "cni-harness/attachments" in answer["msg"]
