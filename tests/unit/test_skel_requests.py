"""The requests that real runtimes send: keys in any case, null, empty variables, CNI_ARGS, VERSION."""

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skel import SUPPORTED, Config, Plugin, Result, dispatch
from tests.unit.sample_plugin import Sample, configuration, sample_result


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.title, str.swapcase])
def test_keys_are_matched_without_regard_to_case(tmp_path: Path, spell: Callable[[str], str]) -> None:
    def respelled(value: object) -> object:
        if isinstance(value, dict):
            return {spell(key): respelled(item) for key, item in value.items()}
        return [respelled(item) for item in value] if isinstance(value, list) else value

    config = configuration(
        cniVersion="1.1.0",
        prevResult=sample_result().encode_as("1.1.0"),
        ipam={"type": "x", "ranges": [[{"subnet": "10.1.0.0/16"}]]},
        mtu=1400,
    )
    config = {str(key): value for key, value in config.items()}

    args = Sample(tmp_path).accepted("ADD", json.dumps(respelled(config)).encode())

    assert args.config.cni_version == "1.1.0"
    assert args.config.mtu == 1400
    assert len(args.config.ipam.ranges[0]) == 1
    assert args.prev_result == sample_result()


def test_free_keys_keep_their_spelling(tmp_path: Path) -> None:
    args = Sample(tmp_path).accepted("ADD", configuration(labels={"Tier": "Web", "tier": "db"}))

    assert args.config.labels == {"Tier": "Web", "tier": "db"}


@pytest.mark.parametrize(
    ("text", "version", "mtu"),
    [
        (b'{"name":"n","cniVersion":"0.4.0","CNIVERSION":"1.0.0","MTU":1400,"mtu":1300}', "1.0.0", 1300),
        (b'{"name":"n","cniVersion":"0.4.0","cniversion":null,"mtu":1400,"Mtu":null}', "0.4.0", 1400),
    ],
    ids=["number", "null"],
)
def test_the_last_spelling_of_a_key_counts_unless_it_is_null(
    tmp_path: Path, text: bytes, version: str, mtu: int
) -> None:
    """As with Go, where null leaves a value as it is. One spelling twice is an error: see the malformed inputs."""
    sample = Sample(tmp_path)

    outcome = sample.run("ADD", text)

    assert json.loads(outcome.stdout)["cniVersion"] == version
    assert (sample.calls[0].config.cni_version, sample.calls[0].config.mtu) == (version, mtu)


def test_null_is_absent_everywhere(tmp_path: Path) -> None:
    keys = ("type", "ipam", "dns", "capabilities", "prevResult", "bridge", "labels", "mtu", "tags", "args", "unknown")
    absent: dict[str, object] = dict.fromkeys(keys)

    args = Sample(tmp_path).accepted("ADD", configuration(**absent))
    nested = Sample(tmp_path).accepted(
        "ADD",
        configuration(
            ipam={"type": None, "ranges": None},
            dns={"nameservers": None, "domain": None},
            capabilities={"mac": None},
            prevResult={"interfaces": None, "ips": None, "routes": None, "dns": None},
        ),
    )

    assert args.config.tags == []
    assert args.config.bridge == "cni0"
    assert args.prev_result is None
    assert nested.config.ipam.ranges == []
    assert nested.config.capabilities == {}
    assert nested.prev_result == Result()


@pytest.mark.parametrize(
    "absent",
    [
        {"CNI_NETNS": "", "CNI_ARGS": "", "CNI_PATH": "", "CNI_NETNS_OVERRIDE": ""},
        {"CNI_NETNS": None, "CNI_PATH": None},
    ],
)
def test_del_needs_neither_netns_nor_path(tmp_path: Path, absent: dict[str, str | None]) -> None:
    """The second DEL under containerd, and those of clean-up processes with almost no environment."""
    args = Sample(tmp_path).accepted("DEL", None, **absent)

    assert (args.netns, args.path, args.cni_args) == ("", [], {})


def test_status_comes_with_every_variable_empty(tmp_path: Path) -> None:
    empty = {"CNI_CONTAINERID": "", "CNI_IFNAME": "", "CNI_NETNS": "", "CNI_ARGS": ""}

    args = Sample(tmp_path).accepted("STATUS", None, **empty)

    assert (args.container_id, args.ifname, args.netns) == ("", "", "")


VALID = [{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "net1"}]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({}, None),
        ({"cni.dev/valid-attachments": None}, []),
        ({"cni.dev/attachments": None}, []),
        ({"cni.dev/valid-attachments": None, "cni.dev/attachments": None}, []),
        ({"cni.dev/valid-attachments": []}, []),
        ({"cni.dev/valid-attachments": VALID}, VALID),
        ({"cni.dev/attachments": VALID}, VALID),
        ({"cni.dev/valid-attachments": VALID, "cni.dev/attachments": VALID}, VALID),
        ({"cni.dev/valid-attachments": VALID, "cni.dev/attachments": None}, VALID),
        ({"cni.dev/valid-attachments": None, "cni.dev/attachments": VALID}, VALID),
        ({"CNI.dev/Valid-Attachments": [{"ContainerID": "a", "IfName": "eth0"}]}, VALID[:1]),
    ],
)
def test_gc_reads_both_spellings_and_tells_null_from_absent(
    tmp_path: Path, sent: dict[str, object], read: list[dict[str, str]] | None
) -> None:
    """CRI-O sends both, `null` if nothing is valid; a runtime that sends neither has not said what is."""
    args = Sample(tmp_path).accepted("GC", configuration(**sent), CNI_CONTAINERID="", CNI_IFNAME="", CNI_NETNS="")

    valid = args.config.valid_attachments

    assert (valid if valid is None else [attachment.encode() for attachment in valid]) == read


def test_rates_beyond_32_bits_are_read(tmp_path: Path) -> None:
    assert Sample(tmp_path).accepted("ADD", configuration(rate=34359738359)).config.rate == 34359738359


def test_the_order_of_cni_args_is_free(tmp_path: Path) -> None:
    pairs = ["IgnoreUnknown=1", "K8S_POD_NAMESPACE=default", "K8S_POD_NAME=a", "IP=10.1.0.5", "MAC=02:00:00:00:00:05"]
    shuffled = random.Random(1)  # noqa: S311 -- a repeatable order

    for _ in range(20):
        shuffled.shuffle(pairs)
        args = Sample(tmp_path).accepted("ADD", None, CNI_ARGS=";".join(pairs))

        assert args.cni_args == {"IP": "10.1.0.5", "MAC": "02:00:00:00:00:05"}


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "True"])
def test_unknown_cni_args_are_ignored_with_ignore_unknown(tmp_path: Path, value: str) -> None:
    assert Sample(tmp_path).accepted("ADD", None, CNI_ARGS=f"A=;B=2;IgnoreUnknown={value}").cni_args == {}


def test_a_plugin_may_take_all_cni_args(tmp_path: Path) -> None:
    args = Sample(tmp_path, env_args=None).accepted("ADD", None, CNI_ARGS="DEBUG=/x;K=")

    assert args.cni_args == {"DEBUG": "/x", "K": ""}


@pytest.mark.parametrize("pairs", ["none", "=", "A=1;;", "A=b=c", "IgnoreUnknown=maybe", "\udcff"])
def test_a_plugin_without_keys_of_its_own_does_not_read_cni_args(tmp_path: Path, pairs: str) -> None:
    assert Sample(tmp_path, env_args=()).accepted("ADD", None, CNI_ARGS=pairs).cni_args == {}


@pytest.mark.parametrize("environ", [{}, {"CNI_COMMAND": ""}, {"CNI_PATH": "/opt/cni/bin", "CNI_COMMAND": ""}])
def test_plugin_called_by_hand_prints_name_and_versions(tmp_path: Path, environ: dict[str, str]) -> None:
    """The first line is where nerdctl looks for the plugin's release; it wants exit code 0."""
    outcome = dispatch(Sample(tmp_path).plugin, environ, lambda: pytest.fail("stdin was read"))

    about, versions, *rest = outcome.stderr.decode().splitlines()
    assert (outcome.code, outcome.stdout, rest) == (0, b"", [])
    assert re.fullmatch(r"CNI sample plugin v(\d+\.\d+\.\d+)", about)
    assert versions == "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"


@pytest.mark.parametrize(("name", "code"), [("", 7), ("../net", 7), (5, 6)])
def test_an_error_about_the_name_is_of_the_configurations_version(tmp_path: Path, name: object, code: int) -> None:
    outcome = Sample(tmp_path).run("ADD", configuration(cniVersion="0.4.0", name=name))

    error = json.loads(outcome.stdout)
    assert (error["cniVersion"], error["code"]) == ("0.4.0", code)


@pytest.mark.parametrize(
    ("stdin", "version"),
    [
        (b'{"cniVersion":"0.4.0"}', "0.4.0"),
        (b'{"CNIVERSION":"1.0.0","name":"net"}', "1.0.0"),
        (b'{"cniVersion":"99.0.0"}', "99.0.0"),
        (b"", "1.1.0"),
        (b"not JSON", "1.1.0"),
        (b"\xff", "1.1.0"),
        (b"[" * 100_000, "1.1.0"),
        (b"[]", "1.1.0"),
        (b'{"cniVersion":""}', "1.1.0"),
        (b'{"cniVersion":null}', "1.1.0"),
        (b'{"cniVersion":["0.4.0"]}', "1.1.0"),
        (b'{"cniVersion":"latest"}', "1.1.0"),
    ],
)
def test_version_repeats_the_version_that_it_is_asked_in(tmp_path: Path, stdin: bytes, version: str) -> None:
    outcome = dispatch(Sample(tmp_path).plugin, {"CNI_COMMAND": "VERSION"}, lambda: stdin)

    assert json.loads(outcome.stdout) == {"cniVersion": version, "supportedVersions": list(SUPPORTED)}


def test_a_plugin_that_cannot_tell_its_versions_says_why_in_json() -> None:
    def versions(environ: Mapping[str, str], read_stdin: Callable[[], bytes]) -> list[str]:
        raise OSError(5, read_stdin().decode())

    plugin = Plugin("odd", config=Config, add=lambda _: Result(), delete=lambda _: None, versions=versions)

    for environ in ({}, {"CNI_COMMAND": "VERSION"}):
        outcome = dispatch(plugin, environ, lambda: b"why")

        assert outcome.code == 1
        assert json.loads(outcome.stdout)["msg"] == "why"
