"""Mistakes of a runtime, an operator or an attacker: the right code, the key and the value, and no change."""

import json
import subprocess
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skel import CniError, Code, dispatch
from tests.nodes import BARE_PATH
from tests.unit.sample_plugin import ENVIRON, Sample, configuration, sample_result

ENV, IO, JSON, CONFIG, VERSION = (
    Code.INVALID_ENVIRONMENT,
    Code.IO_FAILURE,
    Code.DECODING_FAILURE,
    Code.INVALID_CONFIG,
    Code.INCOMPATIBLE_VERSION,
)

BOM = b"\xef\xbb\xbf"


class Malformed(NamedTuple):
    name: str
    code: int
    fragments: tuple[str, ...]
    environ: Mapping[str, str | None] = {}
    stdin: bytes | None = None
    config: Mapping[str, object] | None = None
    verb: str = "ADD"

    @property
    def given(self) -> Mapping[str, object] | bytes | None:
        return self.config if self.stdin is None else self.stdin


def env(name: str, fragments: tuple[str, ...], verb: str = "ADD", **environ: str | None) -> Malformed:
    return Malformed(name, ENV, fragments, environ, verb=verb)


def stdin(name: str, code: int, fragments: tuple[str, ...], text: bytes, verb: str = "ADD") -> Malformed:
    return Malformed(name, code, fragments, stdin=text, verb=verb)


def config(
    name: str, fragments: tuple[str, ...], changes: Mapping[str, object], code: int = CONFIG, verb: str = "ADD"
) -> Malformed:
    return Malformed(name, code, fragments, config=configuration(**changes), verb=verb)


def key(path: str, expected: str, got: object, **changes: object) -> Malformed:
    """A key of the wrong type or value; the message names its path, the expected type and the value."""
    message = f"{path}: expected {expected}, got {json.dumps(got, ensure_ascii=False)}"
    return Malformed(f"{path}={json.dumps(got)[:40]}", CONFIG, (message,), config=configuration(**changes))


def result_with(**changes: object) -> dict[str, object]:
    return {**sample_result().encode_as("1.1.0"), **changes}


ENVIRONMENT = [
    env("no-container-id", ("missing: CNI_CONTAINERID",), CNI_CONTAINERID=None),
    env("empty-container-id", ("missing: CNI_CONTAINERID",), CNI_CONTAINERID=""),
    env("no-netns", ("missing: CNI_NETNS",), CNI_NETNS=None),
    env("empty-netns", ("missing: CNI_NETNS",), CNI_NETNS=""),
    env("check-without-netns", ("missing: CNI_NETNS",), "CHECK", CNI_NETNS=""),
    env("no-ifname", ("missing: CNI_IFNAME",), CNI_IFNAME=None),
    env("del-without-ifname", ("missing: CNI_IFNAME",), "DEL", CNI_IFNAME=""),
    env("del-without-container-id", ("missing: CNI_CONTAINERID",), "DEL", CNI_CONTAINERID=None),
    env("gc-without-path", ("missing: CNI_PATH",), "GC", CNI_PATH=None),
    env(
        "all-that-is-missing",
        ("missing: CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME",),
        CNI_CONTAINERID=None,
        CNI_NETNS="",
        CNI_IFNAME=None,
        CNI_ARGS="not a pair",
    ),
    env("unknown-verb", ("unknown CNI_COMMAND", '"REMOVE"', "ADD, DEL, CHECK, GC, STATUS, VERSION"), "REMOVE"),
    env("lower-case-verb", ("unknown CNI_COMMAND", '"add"'), "add"),
    env("verb-with-space", ("unknown CNI_COMMAND", '"ADD "'), "ADD "),
    *(
        env(f"container-id={value!r}"[:40], ("CNI_CONTAINERID", f'"{value}"', "letter or digit"), CNI_CONTAINERID=value)
        for value in ("../x", "a/b", "..", ".a", "-a", "_a", "a b", "a\n", "pod\u00e9", "a:b", "a;b", "a\\b", "a\udcff")
    ),
    env("del-of-container-id-with-slash", ("CNI_CONTAINERID", '"../../etc"'), "DEL", CNI_CONTAINERID="../../etc"),
    env("ifname-of-16-bytes", ("CNI_IFNAME", '"sixteen-bytes-00"', "15 bytes"), CNI_IFNAME="sixteen-bytes-00"),
    env("ifname-of-8-letters-in-16-bytes", ("CNI_IFNAME", "15 bytes"), CNI_IFNAME="\u00e9" * 8),
    env("ifname-with-colon", ("CNI_IFNAME", '"eth0:1"', "/ or :"), CNI_IFNAME="eth0:1"),
    env("ifname-with-slash", ("CNI_IFNAME", '"a/b"', "/ or :"), CNI_IFNAME="a/b"),
    env("ifname-that-the-kernel-numbers", ("CNI_IFNAME", '"eth%d"', "or %"), CNI_IFNAME="eth%d"),
    env("ifname-with-percent", ("CNI_IFNAME", '"100%"', "or %"), CNI_IFNAME="100%"),
    env("ifname-not-utf-8", ("CNI_IFNAME", "not UTF-8"), CNI_IFNAME="eth\udcff"),
    env("check-of-ifname-not-utf-8", ("CNI_IFNAME", "not UTF-8"), "CHECK", CNI_IFNAME="\udcff"),
    *(
        env(f"netns-of-own-descriptor-in-{verb}={path}", ("CNI_NETNS", path, "file descriptor"), verb, CNI_NETNS=path)
        for verb in ("ADD", "CHECK")
        for path in ("/proc/self/fd/7", "/proc/thread-self/fd/7", "//proc/self/../self/fd/7", "/dev/fd/7", "/dev/stdin")
    ),
    env("ifname-dot", ("CNI_IFNAME", '"."'), CNI_IFNAME="."),
    env("ifname-dots", ("CNI_IFNAME", '".."'), CNI_IFNAME=".."),
    *(
        env(f"ifname-with-{ord(space):04x}", ("CNI_IFNAME", "white space"), CNI_IFNAME=f"e{space}0")
        for space in " \t\n\v\f\r\u0085\u00a0\u2003"
    ),
    env("check-of-bad-ifname", ("CNI_IFNAME", '"a b"'), "CHECK", CNI_IFNAME="a b"),
    env("args-without-equals", ("CNI_ARGS", '"IP"'), CNI_ARGS="IP"),
    env("args-without-key", ("CNI_ARGS", '"=10.1.0.5"'), CNI_ARGS="=10.1.0.5"),
    env("args-with-two-equals", ("CNI_ARGS", '"IP=a=b"'), CNI_ARGS="IgnoreUnknown=1;IP=a=b"),
    env("args-with-empty-pair", ("CNI_ARGS", '""'), CNI_ARGS="IP=10.1.0.5;;MAC=02:00:00:00:00:05"),
    env("args-ending-in-semicolon", ("CNI_ARGS", '""'), CNI_ARGS="IP=10.1.0.5;"),
    env(
        "args-unknown",
        ("CNI_ARGS: unknown", "K8S_POD_NAME", "K8S_POD_UID"),
        CNI_ARGS="K8S_POD_NAME=a;IP=10.1.0.5;K8S_POD_UID=b",
    ),
    env("args-unknown-and-not-ignored", ("CNI_ARGS: unknown", "A"), CNI_ARGS="IgnoreUnknown=false;A=1"),
    env("args-of-another-case", ("CNI_ARGS: unknown", "ip"), CNI_ARGS="ip=10.1.0.5"),
    env("args-ignore-what", ("CNI_ARGS: IgnoreUnknown", '"yes"'), CNI_ARGS="IgnoreUnknown=yes;A=1"),
]

STDIN = [
    stdin("empty", JSON, ("not JSON",), b""),
    stdin("white-space", JSON, ("not JSON",), b" \n"),
    stdin("text", JSON, ("not JSON",), b"cni0"),
    stdin("truncated", JSON, ("not JSON",), b'{"cniVersion":"1.1.0","name":"net1","ipam":{"ty'),
    stdin("two-documents", JSON, ("not JSON", "Extra data"), b'{"name":"a"}{"name":"b"}'),
    stdin("single-quotes", JSON, ("not JSON",), b"{'name':'net1'}"),
    stdin("trailing-comma", JSON, ("not JSON",), b'{"name":"net1",}'),
    stdin("not-a-number", JSON, ("not JSON", "NaN"), b'{"name":"net1","mtu":NaN}'),
    stdin("infinity", JSON, ("not JSON", "-Infinity"), b'{"name":"net1","mtu":-Infinity}'),
    stdin("deep-lists", JSON, ("not JSON", "too many levels"), b'{"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    stdin("deep-objects", JSON, ("not JSON",), b'{"a":' * 100_000),
    stdin("key-twice", JSON, ("not JSON", "name: the key is written twice"), b'{"name":"net1","name":"net2"}'),
    stdin("nested-key-twice", JSON, ("not JSON", "mtu: the key"), b'{"name":"net1","x":[{"mtu":1,"mtu":1}]}'),
    stdin("integer-of-65-bits", JSON, ("not JSON", "18446744073709551616"), b'{"mtu":18446744073709551616}'),
    stdin("negative-of-65-bits", JSON, ("not JSON", "64-bit"), b'{"name":"net1","mtu":-9223372036854775809}'),
    stdin("infinite-float", JSON, ("not JSON", "1e999", "64-bit"), b'{"name":"net1","mtu":1e999}'),
    stdin("huge-number", JSON, ("not JSON",), b'{"name":"net1","mtu":' + b"9" * 5000 + b"}"),
    stdin("invalid-utf-8", JSON, ("not JSON", "utf-8"), b'{"name":"net\xff1"}'),
    stdin("utf-16", JSON, ("not JSON",), '{"name":"net1"}'.encode("utf-16")),
    stdin("byte-order-mark", JSON, ("not JSON", "BOM"), BOM + json.dumps(configuration()).encode()),
    stdin("nul", JSON, ("not JSON",), b"\0" * 64),
    stdin("a-megabyte", JSON, ("not JSON",), b'{"name":"' + b"x" * 2**20),
    stdin("array", JSON, ("expected an object", "[1]"), b"[1]"),
    stdin("string", JSON, ("expected an object", '"net1"'), b'"net1"'),
    stdin("number", JSON, ("expected an object", "1.5"), b"1.5"),
    stdin("null", JSON, ("expected an object", "null"), b"null"),
    stdin("del-with-empty-stdin", JSON, ("not JSON",), b"", "DEL"),
    stdin("status-with-array", JSON, ("expected an object",), b"[]", "STATUS"),
    stdin("no-keys", CONFIG, ("name", "missing"), b"{}"),
    stdin("a-megabyte-of-name", CONFIG, ("name", "xxx"), json.dumps(configuration(name="/" + "x" * 2**20)).encode()),
    stdin("name-of-half-a-pair", CONFIG, ("name: invalid",), b'{"name":"\\ud800"}'),
    stdin("type-of-the-last-name", JSON, ("name: expected a string, got 2",), b'{"name":"net1","NAME":2}'),
]

NAMES = [
    config("name-absent", ("name: missing",), {"name": ...}),
    config("name-null", ("name: missing",), {"name": None}),
    config("name-empty", ("name: missing",), {"name": ""}, verb="GC"),
    *(
        config(f"name={value!r}"[:40], ("name: invalid", f'"{value}"'), {"name": value})
        for value in ("../up", "a/b", "..", ".", ".hidden", "-a", "_a", "a b", "net1\n", "n\u00e9t", "a\0b", "a:b")
    ),
    config("name-number", ("name: expected a string, got 5",), {"name": 5}, JSON),
    config("name-list", ('name: expected a string, got ["net1"]',), {"name": ["net1"]}, JSON),
]

VERSIONS = [
    *(
        config(
            f"version={value}", ("incompatible CNI versions", f'config is "{value}"'), {"cniVersion": value}, VERSION
        )
        for value in ("0", "1", "1.1", "0.3", "0.5.0", "1.0.1", "1.2.0", "9.9.9", "01.1.0")
    ),
    *(
        config(f"version={value}"[:40], ("cniVersion", value), {"cniVersion": value}, JSON)
        for value in ("abc", "1.1.0.0", "-1.0.0", "1.1.0 ", "v1.1.0", "1.1.0-rc1", "1..0", ".", "1." + "9" * 5000)
    ),
    config("version-number", ("cniVersion: expected a string, got 1.1",), {"cniVersion": 1.1}, JSON),
    config("version-list", ('cniVersion: expected a string, got ["1.1.0"]',), {"cniVersion": ["1.1.0"]}, JSON),
    config("version-true", ("cniVersion: expected a string, got true",), {"cniVersion": True}, JSON, "DEL"),
    config("check-before-0.4.0", ("does not allow CHECK", '"0.3.1"'), {"cniVersion": "0.3.1"}, VERSION, "CHECK"),
    config("check-without-version", ("does not allow CHECK",), {"cniVersion": ...}, VERSION, "CHECK"),
    config("gc-before-1.1.0", ("does not allow GC", '"1.0.0"', "1.1.0"), {"cniVersion": "1.0.0"}, VERSION, "GC"),
    config("status-before-1.1.0", ("does not allow STATUS", '"0.4.0"'), {"cniVersion": "0.4.0"}, VERSION, "STATUS"),
]

KEYS = [
    key("type", "a string", 1, type=1),
    key("ipam", "an object", "host-local", ipam="host-local"),
    key("ipam", "an object", [], ipam=[]),
    key("ipam.type", "a string", {}, ipam={"type": {}}),
    key("ipam.ranges", "a list", {"subnet": "10.1.0.0/16"}, ipam={"ranges": {"subnet": "10.1.0.0/16"}}),
    key("ipam.ranges[1]", "a list", {}, ipam={"ranges": [[], {}]}),
    key("ipam.ranges[0][0].subnet", "a CIDR", "10.1", ipam={"ranges": [[{"subnet": "10.1"}]]}),
    key("ipam.ranges[0][0].subnet", "a CIDR", "10.1.0.0", ipam={"ranges": [[{"subnet": "10.1.0.0"}]]}),
    key("ipam.ranges[0][0].subnet", "a CIDR", 10, ipam={"ranges": [[{"subnet": 10}]]}),
    key(
        "ipam.ranges[0][1].gateway",
        "an IP address",
        "10.1.0.256",
        ipam={"ranges": [[{"subnet": "10.1.0.0/16"}, {"subnet": "10.2.0.0/16", "gateway": "10.1.0.256"}]]},
    ),
    config("ipam.ranges-without-subnet", ("ipam.ranges[0][0].subnet: required",), {"ipam": {"ranges": [[{}]]}}),
    key("dns", "an object", [], dns=[]),
    key("dns.nameservers", "a list", "192.0.2.53", dns={"nameservers": "192.0.2.53"}),
    key("dns.nameservers[1]", "a string", 53, dns={"nameservers": ["192.0.2.53", 53]}),
    key("dns.domain", "a string", False, dns={"domain": False}),
    key("dns.search", "a list", {}, dns={"search": {}}),
    key("dns.options[0]", "a string", ["ndots:5"], dns={"options": [["ndots:5"]]}),
    key("capabilities", "an object", ["portMappings"], capabilities=["portMappings"]),
    key("capabilities.mac", "true or false", "yes", capabilities={"mac": "yes"}),
    key("bridge", "a string", 0, bridge=0),
    key("bridge", "an interface name (it is longer than 15 bytes)", "b" * 16, bridge="b" * 16),
    key("bridge", "an interface name (it contains / or : or % or NUL or white space)", "br\0x", bridge="br\0x"),
    key("bridge", "an interface name (it contains / or : or % or NUL or white space)", "br%d", bridge="br%d"),
    key("bridge", "an interface name (it is not UTF-8)", "br\ud800", bridge="br\ud800"),
    key("backend", '"nftables" or "iptables"', "ipfw", backend="ipfw"),
    key("backend", '"nftables" or "iptables"', "NFTABLES", backend="NFTABLES"),
    key("enabled", "true or false", "true", enabled="true"),
    key("enabled", "true or false", 1, enabled=1),
    key("labels", "an object", "a=b", labels="a=b"),
    key("labels.Tier", "a string", 3, labels={"Tier": 3}),
    key("mac", "a MAC address", "02:00:00:00:00", mac="02:00:00:00:00"),
    key("mac", "a MAC address", "02:00:00:00:00:0g", mac="02:00:00:00:00:0g"),
    key("mac", "a MAC address", "02:00:00:00:00:05\n", mac="02:00:00:00:00:05\n"),
    key("mtu", "a whole number from 68 to 65535", 67, mtu=67),
    key("mtu", "a whole number from 68 to 65535", 65536, mtu=65536),
    key("mtu", "a whole number from 68 to 65535", -1, mtu=-1),
    key("mtu", "a whole number from 68 to 65535", 1500.0, mtu=1500.0),
    key("mtu", "a whole number from 68 to 65535", "1500", mtu="1500"),
    key("mtu", "a whole number from 68 to 65535", True, mtu=True),
    key("rate", "a whole number", 1e30, rate=1e30),
    key("rate", "a whole number", False, rate=False),
    key("source", "a CIDR", "10.1.0.5", source="10.1.0.5"),
    key("source", "a CIDR", "10.1.0.5/33", source="10.1.0.5/33"),
    key("source", "a CIDR", "10.1.0.5/-1", source="10.1.0.5/-1"),
    key("source", "a CIDR", "10.1.0.5/255.255.0.0", source="10.1.0.5/255.255.0.0"),
    key("source", "a CIDR", "10.1.0.5/", source="10.1.0.5/"),
    key("source", "a CIDR", "010.1.0.5/16", source="010.1.0.5/16"),
    key("source", "a CIDR", "fe80::1%eth0/64", source="fe80::1%eth0/64"),
    key("source", "a CIDR", "", source=""),
    key("tags", "a list", "a", tags="a"),
    key("tags[1]", "a string", None, tags=["a", None]),
    key("cni.dev/valid-attachments", "a list", {}, **{"cni.dev/valid-attachments": {}}),
    config(
        "attachment-without-ifname",
        ("cni.dev/valid-attachments[1].ifname: required",),
        {"cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}, {"containerID": "b"}]},
        verb="GC",
    ),
    config(
        "attachment-of-another-type",
        ('cni.dev/attachments[0].containerID: expected a string, got ["a"]',),
        {"cni.dev/attachments": [{"containerID": ["a"], "ifname": "eth0"}]},
        verb="GC",
    ),
    config("second-spelling-counts", ("mtu: expected", 'got "wide"'), {"MTU": "wide"}),
]

PREV_RESULTS: dict[str, tuple[object, str]] = {
    "string": ("{}", 'prevResult: expected an object, got "{}"'),
    "list": ([], "prevResult: expected an object, got []"),
    "interfaces-object": (result_with(interfaces={}), "prevResult.interfaces: expected a list, got {}"),
    "interface-string": (result_with(interfaces=["eth0"]), 'prevResult.interfaces[0]: expected an object, got "eth0"'),
    "interface-without-name": (result_with(interfaces=[{"mac": ""}]), "prevResult.interfaces[0].name: required"),
    "interface-mtu": (
        result_with(interfaces=[{"name": "a", "mtu": -1}]),
        "prevResult.interfaces[0].mtu: expected a whole number from 0 to 4294967295, got -1",
    ),
    "ips-object": (result_with(ips={}), "prevResult.ips: expected a list, got {}"),
    "ip-without-address": (result_with(ips=[{}]), "prevResult.ips[0].address: required"),
    "ip-without-prefix": (
        result_with(ips=[{"address": "10.1.0.5"}]),
        'prevResult.ips[0].address: expected a CIDR, got "10.1.0.5"',
    ),
    "ip-gateway": (
        result_with(ips=[{"address": "10.1.0.5/16", "gateway": "10.1.0.0/16"}]),
        'prevResult.ips[0].gateway: expected an IP address, got "10.1.0.0/16"',
    ),
    "index-past-the-end": (
        result_with(ips=[{"address": "10.1.0.5/16", "interface": 2}]),
        "prevResult.ips[0].interface: expected an index into the 2 interfaces, got 2",
    ),
    "index-negative": (
        result_with(ips=[{"address": "10.1.0.5/16", "interface": -1}]),
        "prevResult.ips[0].interface: expected an index into the 2 interfaces, got -1",
    ),
    "index-text": (
        result_with(ips=[{"address": "10.1.0.5/16", "interface": "0"}]),
        'prevResult.ips[0].interface: expected a whole number, got "0"',
    ),
    "route-without-dst": (result_with(routes=[{"gw": "10.1.0.1"}]), "prevResult.routes[0].dst: required"),
    "route-dst": (
        result_with(routes=[{"dst": "default"}]),
        'prevResult.routes[0].dst: expected a CIDR, got "default"',
    ),
    "route-gw": (
        result_with(routes=[{"dst": "0.0.0.0/0"}, {"dst": "0.0.0.0/0", "gw": 1}]),
        "prevResult.routes[1].gw: expected an IP address, got 1",
    ),
    "route-scope": (
        result_with(routes=[{"dst": "0.0.0.0/0", "scope": 256}]),
        "prevResult.routes[0].scope: expected a whole number from 0 to 255, got 256",
    ),
    "dns-list": (result_with(dns=[]), "prevResult.dns: expected an object, got []"),
    "dns-servers": (result_with(dns={"nameservers": [1]}), "prevResult.dns.nameservers[0]: expected a string, got 1"),
    "ip4-address": ({"ip4": {"ip": "10.1"}}, 'prevResult.ip4.ip: expected a CIDR, got "10.1"'),
    "ip6-route": (
        {"ip6": {"ip": "fd00:1::5/64", "routes": [{"dst": "::"}]}},
        'prevResult.ip6.routes[0].dst: expected a CIDR, got "::"',
    ),
    "half-a-pair": (result_with(dns={"domain": ["\ud800"]}), "prevResult.dns.domain: expected a string"),
}

TABLE = [*ENVIRONMENT, *STDIN, *NAMES, *VERSIONS, *KEYS]
TABLE += [
    config(f"prevResult-{name}-{verb}", (message,), {"prevResult": value}, verb=verb)
    for name, (value, message) in PREV_RESULTS.items()
    for verb in ("ADD", "CHECK")
]


def check_error(printed: bytes, code: int, malformed: Malformed) -> dict[str, Any]:
    """One JSON document, with the code, and a message that names the mistake."""
    error: dict[str, Any] = json.loads(printed)
    assert code == 1
    assert error["code"] == malformed.code, error
    text = f"{error['msg']}; {error.get('details', '')}"
    assert [fragment for fragment in malformed.fragments if fragment not in text] == [], text
    assert printed.count(b"\n") == 1
    return error


@pytest.mark.parametrize("malformed", TABLE, ids=[malformed.name for malformed in TABLE])
def test_malformed_input_is_refused_before_the_plugin_runs(tmp_path: Path, malformed: Malformed) -> None:
    sample = Sample(tmp_path)

    outcome = sample.run(malformed.verb, malformed.given, malformed.environ)

    check_error(outcome.stdout, outcome.code, malformed)
    assert outcome.stderr == b""
    assert sample.calls == []
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_refused_for_its_changes_alone(tmp_path: Path) -> None:
    """Every verb accepts the table's first request."""
    sample = Sample(tmp_path)

    assert [sample.run(verb).code for verb in ("ADD", "DEL", "CHECK", "GC", "STATUS")] == [0] * 5
    assert len(sample.calls) == len(list(tmp_path.iterdir())) == 5


def test_a_closed_stdin_is_an_input_output_failure(tmp_path: Path) -> None:
    def closed() -> bytes:
        raise OSError(9, "Bad file descriptor")

    sample = Sample(tmp_path)

    outcome = dispatch(sample.plugin, {**ENVIRON, "CNI_COMMAND": "ADD"}, closed)

    assert json.loads(outcome.stdout)["code"] == IO
    assert "Bad file descriptor" in json.loads(outcome.stdout)["msg"]
    assert (outcome.code, sample.calls) == (1, [])


def test_a_value_nested_to_the_limit_is_refused_with_its_path(tmp_path: Path) -> None:
    """Nesting that the parser can just read may be too deep to print. Each version of Python has a limit of its own."""
    sample = Sample(tmp_path)

    def code(depth: int) -> int:
        nested = b"[" * depth + b"]" * depth
        outcome = sample.run("ADD", b'{"cniVersion":"1.1.0","name":"net1","mtu":' + nested + b"}")
        answer: int = json.loads(outcome.stdout)["code"]
        return answer

    limit = bisect_left(range(1_000_000), True, key=lambda depth: code(depth) == JSON)
    codes = set(map(code, range(limit - 150, limit + 150)))

    assert codes == {CONFIG, JSON}
    assert sample.calls == []


@pytest.mark.parametrize("verb", ["DEL", "GC", "STATUS"])
@pytest.mark.parametrize(("value", "message"), PREV_RESULTS.values(), ids=PREV_RESULTS)
def test_a_broken_prev_result_does_not_keep_a_pod_from_going(
    tmp_path: Path, verb: str, value: object, message: str
) -> None:
    sample = Sample(tmp_path)

    outcome = sample.run(verb, configuration(prevResult=value))

    assert (outcome.code, outcome.stdout) == (0, b"")
    assert [args.prev_result for args in sample.calls] == [None]
    assert outcome.stderr.startswith(b"sample: ignoring an unreadable prevResult: ")
    assert message in outcome.stderr.decode()
    assert outcome.stderr.endswith(b" containerID=pod-1\n")
    assert outcome.stderr.count(b"\n") == 1


OF_EACH_KIND = {
    "all-that-is-missing",
    "gc-without-path",
    "unknown-verb",
    "container-id='../x'",
    "ifname-of-16-bytes",
    "ifname-not-utf-8",
    "netns-of-own-descriptor-in-ADD=/proc/self/fd/7",
    "args-without-equals",
    "key-twice",
    "empty",
    "truncated",
    "byte-order-mark",
    "invalid-utf-8",
    "deep-lists",
    "array",
    "a-megabyte-of-name",
    "name-absent",
    "name='../up'",
    "version=9.9.9",
    "version=abc",
    "version-number",
    "check-before-0.4.0",
    'ipam="host-local"',
    "dns.nameservers[1]=53",
    "prevResult-index-past-the-end-ADD",
    "prevResult-ip-without-prefix-CHECK",
}
EXECUTABLE = [malformed for malformed in TABLE if malformed.name in OF_EACH_KIND]
EXECUTABLE += [
    key("ipam.ranges[0][0].subnet", "a CIDR", "10.1", ipam={"type": "host-local", "ranges": [[{"subnet": "10.1"}]]}),
]


def test_table_has_each_kind_of_malformed_input() -> None:
    assert {malformed.name for malformed in TABLE} >= OF_EACH_KIND


def run_executable(path: Path, malformed: Malformed, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a plugin as a runtime does, in a network namespace of its own, should it do anything at all."""
    changed = {**ENVIRON, "CNI_COMMAND": malformed.verb, "CNI_PATH": str(path.parent), **malformed.environ}
    present = {name: value for name, value in changed.items() if value is not None}
    config: dict[str, object] = {
        "ipam": {"type": "host-local", "dataDir": str(folder), "ranges": [[{"subnet": "10.1.0.0/16"}]]},
        **(malformed.config or configuration()),
    }
    if isinstance(config["ipam"], dict):
        config["ipam"] = {"dataDir": str(folder), **config["ipam"]}
    return subprocess.run(
        ["unshare", "--net", path],
        env={"PATH": BARE_PATH, **present},
        input=json.dumps(config).encode() if malformed.stdin is None else malformed.stdin,
        capture_output=True,
        cwd="/",
        check=False,
    )


@pytest.mark.sudo
@pytest.mark.parametrize("malformed", EXECUTABLE, ids=[malformed.name for malformed in EXECUTABLE])
def test_host_local_refuses_malformed_input_and_makes_no_file(
    bin_dir: Path, tmp_path: Path, malformed: Malformed
) -> None:
    folder = tmp_path / "networks"

    ran = run_executable(bin_dir / "host-local", malformed, folder)

    check_error(ran.stdout, ran.returncode, malformed)
    assert ran.stderr == b""
    assert not folder.exists()


@pytest.mark.sudo
@pytest.mark.parametrize("malformed", EXECUTABLE[:-1], ids=[malformed.name for malformed in EXECUTABLE[:-1]])
def test_bridge_refuses_malformed_input_before_its_delegate(
    bin_dir: Path, tmp_path: Path, malformed: Malformed
) -> None:
    folder = tmp_path / "networks"

    ran = run_executable(bin_dir / "bridge", malformed, folder)

    check_error(ran.stdout, ran.returncode, malformed)
    assert ran.stderr == b""
    assert not folder.exists()


def test_an_error_made_by_a_plugin_is_rendered_as_it_is(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise CniError(Code.UNSUPPORTED_FIELD, "vlan: 5 is not supported", "this kernel has no VLAN filtering")

    outcome = Sample(tmp_path, behave=refuse).run("ADD", configuration(cniVersion="1.0.0"))

    assert json.loads(outcome.stdout) == {
        "cniVersion": "1.0.0",
        "code": 2,
        "msg": "vlan: 5 is not supported",
        "details": "this kernel has no VLAN filtering",
    }
