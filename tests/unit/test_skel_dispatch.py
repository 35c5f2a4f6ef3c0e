"""From an invocation to its answer: never an exception, never a success that is none, never two documents."""

import json
import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skel import SUPPORTED, Args, CniError, Code, Config, Context, Outcome, Plugin, Result, Verbatim, dispatch
from tests.unit.sample_plugin import ENVIRON, Sample, configuration, sample_result

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS")


class MuteError(Exception):
    def __str__(self) -> str:
        message = "not even this"
        raise ValueError(message)


def raising(error: BaseException) -> Callable[[object], None]:
    def behave(_: object) -> None:
        raise error

    return behave


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such thing"), "no such thing"),
        (KeyError("eth0"), "'eth0'"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("half a pair \ud800 and\na second line"), "half a pair \ud800 and\na second line"),
        (MuteError(), "MuteError"),
        (MemoryError(), "MemoryError"),
        (RecursionError("maximum recursion depth exceeded"), "maximum recursion depth exceeded"),
        (SystemExit(0), "0"),
        (SystemExit(), "SystemExit"),
        (SystemExit("goodbye"), "goodbye"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ExceptionGroup("both", [ValueError("a")]), "both (1 sub-exception)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_plugin_raises_is_code_999(tmp_path: Path, verb: str, error: BaseException, message: str) -> None:
    sample = Sample(tmp_path, behave=raising(error))

    outcome = sample.run(verb)

    assert json.loads(outcome.stdout) == {"cniVersion": "1.1.0", "code": 999, "msg": message}
    assert outcome.code == 1
    assert b"Traceback" not in outcome.stdout
    assert outcome.stderr.startswith(f"sample: unforeseen {type(error).__name__} at {__file__}:".encode())
    assert outcome.stderr.count(b"\n") == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(16, "Device or resource busy"), "Device or resource busy"),
        (FileNotFoundError(2, "No such file or directory", "/x"), "/x: No such file or directory"),
        (FileNotFoundError(2, "No such file or directory", b"/x"), "b'/x': No such file or directory"),
        (OSError(9, "Bad file descriptor", 7), "7: Bad file descriptor"),
        (OSError("bare"), "bare"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_kernel_refused_is_code_999_without_a_trace(
    tmp_path: Path, verb: str, error: OSError, message: str
) -> None:
    outcome = Sample(tmp_path, behave=raising(error)).run(verb)

    assert json.loads(outcome.stdout) == {"cniVersion": "1.1.0", "code": 999, "msg": message}
    assert (outcome.code, outcome.stderr) == (1, b"")


@pytest.mark.parametrize("verb", VERBS)
def test_an_error_without_a_code_of_its_own_never_looks_like_success(tmp_path: Path, verb: str) -> None:
    outcome = Sample(tmp_path, behave=raising(CniError(0, ""))).run(verb)

    assert outcome.code == 1
    assert json.loads(outcome.stdout) == {"cniVersion": "1.1.0", "code": 0, "msg": ""}


def test_an_error_made_of_anything_is_printed(tmp_path: Path) -> None:
    error = CniError(Code.IO_FAILURE, OSError(5, "broken"), Path("/x"))  # type: ignore[arg-type]

    outcome = Sample(tmp_path, behave=raising(error)).run("ADD")

    assert json.loads(outcome.stdout)["msg"] == "[Errno 5] broken"
    assert json.loads(outcome.stdout)["details"] == "/x"


@pytest.mark.parametrize(
    ("verb", "returned", "message"),
    [
        ("ADD", None, "ADD returned NoneType where a Result was due"),
        ("ADD", {"ips": []}, "ADD returned dict where a Result was due"),
        ("ADD", False, "ADD returned bool where a Result was due"),
        ("DEL", True, "DEL returned bool where None was due"),
        ("DEL", 0, "DEL returned int where None was due"),
        ("STATUS", "ok", "STATUS returned str where None was due"),
    ],
)
def test_a_function_that_returns_the_wrong_thing_has_failed(
    tmp_path: Path, verb: str, returned: object, message: str
) -> None:
    outcome = Sample(tmp_path, behave=lambda _: returned).run(verb)

    assert outcome.code == 1
    assert json.loads(outcome.stdout)["code"] == Code.INTERNAL
    assert json.loads(outcome.stdout)["msg"] == message


@pytest.mark.parametrize("verb", VERBS)
def test_a_verbatim_answer_is_printed_as_it_is(tmp_path: Path, verb: str) -> None:
    outcome = Sample(tmp_path, behave=lambda _: Verbatim("{} \udcff\u00e9\n", 7)).run(verb)

    assert outcome == (b"{} \xff\xc3\xa9\n", b"", 7)


def test_success_prints_a_result_for_add_and_nothing_for_the_rest(tmp_path: Path) -> None:
    sample = Sample(tmp_path)

    outcomes = {verb: sample.run(verb) for verb in VERBS}

    assert json.loads(outcomes.pop("ADD").stdout) == sample_result().encode_as("1.1.0")
    assert set(outcomes.values()) == {(b"", b"", 0)}


def test_a_verb_without_a_function_succeeds() -> None:
    plugin = Plugin("small", config=Config, add=lambda _: Result(), delete=lambda _: None)
    stdin = json.dumps(configuration()).encode()

    outcomes = {dispatch(plugin, ENVIRON | {"CNI_COMMAND": verb}, lambda: stdin) for verb in ("CHECK", "GC", "STATUS")}

    assert outcomes == {(b"", b"", 0)}


def test_what_a_plugin_is_given(tmp_path: Path) -> None:
    config = configuration(ipam={"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}, mtu=1400)
    stdin = json.dumps(config).encode()

    args = Sample(tmp_path).accepted(
        "ADD", stdin, CNI_PATH="/a::/b:", CNI_ARGS="IgnoreUnknown=1;IP=10.1.0.5;K8S_POD_NAME=x"
    )

    assert (args.verb, args.container_id, args.ifname, args.netns) == ("ADD", "pod-1", "eth0", ENVIRON["CNI_NETNS"])
    assert args.path == ["/a", "/b"]
    assert args.cni_args == {"IP": "10.1.0.5"}
    assert args.stdin == stdin
    assert args.config.mtu == 1400
    assert str(args.config.ipam.ranges[0][0].subnet) == "10.1.0.0/16"
    assert args.prev_result is None


# --- what real runtimes send


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
def test_unknown_cni_args_are_ignored_where_asked(tmp_path: Path, value: str) -> None:
    assert Sample(tmp_path).accepted("ADD", None, CNI_ARGS=f"A=;B=2;IgnoreUnknown={value}").cni_args == {}


def test_a_plugin_may_take_all_cni_args(tmp_path: Path) -> None:
    args = Sample(tmp_path, env_args=None).accepted("ADD", None, CNI_ARGS="DEBUG=/x;K=")

    assert args.cni_args == {"DEBUG": "/x", "K": ""}


@pytest.mark.parametrize("pairs", ["none", "=", "A=1;;", "A=b=c", "IgnoreUnknown=maybe", "\udcff"])
def test_a_plugin_without_keys_of_its_own_does_not_read_cni_args(tmp_path: Path, pairs: str) -> None:
    assert Sample(tmp_path, env_args=()).accepted("ADD", None, CNI_ARGS=pairs).cni_args == {}


@pytest.mark.parametrize("environ", [{}, {"CNI_COMMAND": ""}, {"CNI_PATH": "/opt/cni/bin", "CNI_COMMAND": ""}])
def test_called_by_hand_a_plugin_says_who_it_is(tmp_path: Path, environ: dict[str, str]) -> None:
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


# --- the plugin's own network namespace

OWN = "/proc/self/ns/net"


def assert_own_namespace_refused(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert json.loads(outcome.stdout)["code"] == Code.INVALID_NETNS
    assert OWN in json.loads(outcome.stdout)["msg"]


@pytest.mark.parametrize("override", ["", "0", "false", "yes"])
def test_add_to_the_plugins_own_namespace_is_refused_before_anything_is_done(tmp_path: Path, override: str) -> None:
    sample = Sample(tmp_path)

    outcome = sample.run("ADD", environ={"CNI_NETNS": OWN, "CNI_NETNS_OVERRIDE": override})

    assert_own_namespace_refused(outcome)
    assert sample.calls == []


@pytest.mark.parametrize("override", ["", "0", "false", "yes"])
def test_del_from_the_plugins_own_namespace_is_as_without_one_and_refused_afterwards(
    tmp_path: Path, override: str
) -> None:
    """The process that the pod's namespace was named after has gone, and its number is one of the host's now."""
    sample = Sample(tmp_path)

    outcome = sample.run("DEL", environ={"CNI_NETNS": OWN, "CNI_NETNS_OVERRIDE": override})

    assert_own_namespace_refused(outcome)
    assert [(args.netns, args.environ["CNI_NETNS"]) for args in sample.calls] == [("", "")]


def test_del_from_an_own_descriptor_is_as_without_a_namespace_and_refused_afterwards(tmp_path: Path) -> None:
    """The server's worker has other descriptors than the launcher: it must not enter one of its own."""
    sample = Sample(tmp_path)

    outcome = sample.run("DEL", environ={"CNI_NETNS": "/proc/self/fd/7"})

    assert (outcome.code, json.loads(outcome.stdout)["code"]) == (1, Code.INVALID_ENVIRONMENT)
    assert "/proc/self/fd/7" in json.loads(outcome.stdout)["msg"]
    assert [(args.netns, args.environ["CNI_NETNS"]) for args in sample.calls] == [("", "")]


@pytest.mark.parametrize("failure", [CniError(Code.TRY_AGAIN_LATER, "busy"), Verbatim('{"code": 11}', 1)])
def test_del_from_it_that_fails_says_so_itself(tmp_path: Path, failure: CniError | Verbatim) -> None:
    def fail(_: object) -> Verbatim:
        if isinstance(failure, CniError):
            raise failure
        return failure

    outcome = Sample(tmp_path, behave=fail).run("DEL", environ={"CNI_NETNS": OWN})

    assert json.loads(outcome.stdout)["code"] == Code.TRY_AGAIN_LATER


def test_it_is_known_under_any_name(tmp_path: Path) -> None:
    link = tmp_path / "netns"
    link.symlink_to(f"/proc/{os.getpid()}/ns/net")

    assert json.loads(Sample(tmp_path).run("ADD", environ={"CNI_NETNS": str(link)}).stdout)["code"] == 8


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize("override", ["1", "true", "TRUE"])
def test_an_override_allows_it(tmp_path: Path, verb: str, override: str) -> None:
    Sample(tmp_path).accepted(verb, None, CNI_NETNS=OWN, CNI_NETNS_OVERRIDE=override)


@pytest.mark.parametrize("verb", ["CHECK", "GC", "STATUS"])
def test_other_verbs_may_name_it(tmp_path: Path, verb: str) -> None:
    Sample(tmp_path).accepted(verb, None, CNI_NETNS=OWN)


@pytest.mark.parametrize("netns", ["", "/run/netns/gone", "/proc/self/ns/uts", "/"])
def test_del_leaves_any_other_path_to_the_plugin(tmp_path: Path, netns: str) -> None:
    assert Sample(tmp_path).accepted("DEL", None, CNI_NETNS=netns).netns == netns


# --- the log


def test_a_log_line_is_one_line_with_its_labels(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("one\ntwo\r\nthree\x0bfour"))

    outcome = sample.run("DEL", environ={"TRACEPARENT": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})

    assert outcome.stderr == (
        b"sample: one | two | three | four containerID=pod-1 traceID=4bf92f3577b34da6a3ce929d0e0e4736\n"
    )
    assert outcome.stdout == b""


def test_a_delegates_line_is_not_labelled_twice(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("host-local: full containerID=pod-1"))

    assert sample.run("DEL").stderr == b"sample: host-local: full containerID=pod-1\n"


def test_labels_cannot_start_a_line_either(tmp_path: Path) -> None:
    sample = Sample(tmp_path, behave=lambda args: args.log("x"))

    outcome = sample.run("STATUS", environ={"CNI_CONTAINERID": "a\nsample: b", "TRACEPARENT": "odd"})

    assert outcome.stderr == b"sample: x containerID=a | sample: b\n"


# --- anything at all

ROUNDS = 20_000
# ruff: noqa: SIM905 -- words read better in lines
KEYS = (
    "cniVersion name type ipam dns capabilities prevResult bridge backend enabled labels mac mtu rate source tags "
    "ranges subnet gateway nameservers domain interfaces ips routes address interface ip4 ip6 ip dst gw mtu version "
    "cni.dev/valid-attachments cni.dev/attachments containerID ifname NAME Ips \u017f K\u212a"
).split()
STRINGS = (
    "1.1.0 0.4.0 0.2.0 9.9.9 net1 ../x 10.1.0.0/16 10.1.0.5 fd00::/64 ::ffff:1.2.3.4/99 02:00:00:00:00:05 eth0 "
    "nftables \ud800 \udcff \u0000 \u00e9\u0301 \U0001f600 0.0.0.0/0 % / "
).split(" ")


def any_json(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(10 if depth < 4 else 7)
    if kind < 7:
        scalars = (None, True, False, 0, -1, 2**63, 1.5, 1e300, chance.choice(STRINGS), chance.choice(STRINGS))
        return chance.choice(scalars)
    if kind == 7:
        return [any_json(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(KEYS): any_json(chance, depth + 1) for _ in range(chance.randrange(6))}


def any_stdin(chance: random.Random) -> bytes:
    config = any_json(chance)
    if isinstance(config, dict) and chance.random() < 0.9:
        config = configuration(cniVersion=chance.choice(("1.1.0", "1.0.0", "0.4.0", "0.2.0"))) | config
    text = bytearray(json.dumps(config, ensure_ascii=chance.random() < 0.7).encode(errors="surrogatepass"))
    for _ in range(chance.choice((0, 0, 0, 1, 8))):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return bytes(text[: chance.randrange(len(text))]) if chance.random() < 0.1 else bytes(text)


def any_environ(chance: random.Random) -> dict[str, str | None]:
    values = ("", None, "eth0", "\udcff", "a=b", "IP=1", "IgnoreUnknown=1;A=2", "/proc/self/ns/net", "\n", "0" * 5000)
    names = ("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE", "TRACEPARENT")
    return {name: chance.choice(values) for name in names if chance.random() < 0.1}


def any_behaviour(chance: random.Random) -> Callable[[Any], object]:
    def behave(args: Any) -> object:
        args.log(f"{args.config} {args.prev_result}")
        if chance.random() < 0.2:
            raise chance.choice((CniError(7, "\ud800"), ValueError("\udcff\n"), SystemExit(0), MuteError()))
        return sample_result() if args.verb == "ADD" else None

    return behave


@pytest.mark.parametrize("seed", range(2))
def test_whatever_comes_there_is_one_answer(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a failure must be repeatable
    sample = Sample(tmp_path, behave=any_behaviour(chance))
    seen = set()
    for rounds in range(ROUNDS):
        verb = chance.choice((*VERBS, "VERSION", "REPAIR", "", "\udcff"))
        stdin = any_stdin(chance)

        outcome = sample.run(verb, stdin, any_environ(chance))

        answer = json.loads(outcome.stdout) if outcome.stdout else {}
        failed = "code" in answer
        seen.add((verb, answer.get("code")))
        assert outcome.code == (1 if failed else 0), (seed, rounds, stdin)
        assert bool(outcome.stdout) == (failed or verb in {"ADD", "VERSION"}), (seed, rounds, stdin)
        assert b"Traceback" not in outcome.stdout
        assert outcome.stderr.endswith(b"\n") or not outcome.stderr

    # The generator reaches the plugin with every verb, and every code that skel itself raises.
    assert {(verb, None) for verb in (*VERBS, "VERSION", "")} <= seen
    assert {code for _, code in seen} >= {None, 1, 4, 6, 7, 8, 999}


def test_what_the_kernel_still_works_on_is_waited_for_in_order_by_the_contexts_owner() -> None:
    waited: list[str] = []

    def delete(args: Args[Config]) -> None:
        args.context.afterwards(lambda: waited.append("first"))
        args.context.afterwards(lambda: waited.append("second"))

    plugin = Plugin("test", config=Config, add=lambda _: Result(), delete=delete)
    environ = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "c1", "CNI_IFNAME": "eth0", "CNI_PATH": "/bin"}
    context = Context()

    assert dispatch(plugin, environ, lambda: b'{"cniVersion": "1.1.0", "name": "n", "type": "t"}', context).code == 0
    assert waited == []
    context.finish()
    context.finish()
    assert waited == ["first", "second"]

    assert dispatch(plugin, environ, lambda: b'{"cniVersion": "1.1.0", "name": "n", "type": "t"}').code == 0
    assert waited == ["first", "second"] * 2
