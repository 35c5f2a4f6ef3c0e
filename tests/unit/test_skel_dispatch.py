"""From an invocation to its answer: never an exception, never a success that is none, never two documents."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skel import Args, CniError, Code, Config, Context, Plugin, RawAnswer, Result, dispatch
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
def test_any_exception_of_a_plugin_is_code_999(tmp_path: Path, verb: str, error: BaseException, message: str) -> None:
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
def test_os_error_is_code_999_without_a_traceback(tmp_path: Path, verb: str, error: OSError, message: str) -> None:
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
    outcome = Sample(tmp_path, behave=lambda _: RawAnswer("{} \udcff\u00e9\n", 7)).run(verb)

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


def test_plugin_gets_its_parsed_arguments(tmp_path: Path) -> None:
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


def test_deferred_work_is_finished_in_order_by_the_owner_of_the_context() -> None:
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
