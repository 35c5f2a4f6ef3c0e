"""The trace that a plugin continues: TRACEPARENT, and the file that CNI_HARNESS_TRACE names."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import fast_stdlib
from skel import Args, CniError, Code, Config, Plugin, Result, dispatch
from skel.spans import Parent, parse_traceparent

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (GIVEN, True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-03", True),
        (f"cc-{TRACE}-{PARENT}-01-what-comes-later", True),
    ],
)
def test_valid_headers(text: str, *, sampled: bool) -> None:
    assert parse_traceparent(text) == Parent(TRACE, PARENT, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        GIVEN.upper(),
        f"{GIVEN}-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-0x",
        f"0-{TRACE}-{PARENT}-01",
    ],
)
def test_invalid_headers(text: str) -> None:
    assert parse_traceparent(text) is None


def add(args: Args[Config]) -> Result:
    with fast_stdlib.span("outer", size=3):
        fast_stdlib.span_note(found=["a", "b"])
        with fast_stdlib.span("inner"):
            if args.ifname == "broken":
                raise CniError(Code.TRY_AGAIN_LATER, "not now")
    return Result()


def delete(args: Args[Config]) -> None:
    del args


PLUGIN = Plugin("sample", config=Config, add=add, delete=delete)


def call(file: Path | str, *, ifname: str = "eth0", **environ: str) -> int:
    request = json.dumps({"cniVersion": "1.0.0", "name": "net", "type": "sample"}).encode()
    variables = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c",
        "CNI_NETNS": "/proc/1/ns/net-none",
        "CNI_IFNAME": ifname,
        "CNI_HARNESS_TRACE": str(file),
    }
    return dispatch(PLUGIN, {**variables, **environ}, lambda: request).code


def spans(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.touch()
    return path


def test_steps_are_reported_parents_first_inside_of_the_callers_span(file: Path) -> None:
    assert call(file, TRACEPARENT=GIVEN) == 0

    main, command, outer, inner = spans(file)
    assert [each["span"] for each in (main, command, outer, inner)] == ["PluginMain", "cmdAdd", "outer", "inner"]
    assert {each["trace"] for each in spans(file)} == {TRACE}
    parents = [PARENT, main["id"], command["id"], outer["id"]]
    assert parents == [each["parent"] for each in (main, command, outer, inner)]
    assert outer["attributes"] == {"size": 3, "found": ["a", "b"]}
    for whole, part in ((main, command), (command, outer), (outer, inner)):
        assert whole["start"] <= part["start"] <= part["end"] <= whole["end"]
    assert main["pid"] == os.getpid()
    assert fast_stdlib.recorder() is None


def test_a_failure_names_the_step(file: Path) -> None:
    assert call(file, ifname="broken", TRACEPARENT=GIVEN) == 1

    errors = {each["span"]: each.get("error", "") for each in spans(file)}
    assert "not now" in errors["inner"]
    assert "not now" in errors["cmdAdd"]
    assert errors["PluginMain"] == "exit code 1"


def test_a_trace_that_is_not_sampled_gets_nothing(file: Path) -> None:
    assert call(file, TRACEPARENT=f"00-{TRACE}-{PARENT}-00") == 0

    assert file.read_bytes() == b""


def test_without_a_caller_s_span_a_trace_begins(file: Path) -> None:
    assert call(file) == 0
    assert call(file, TRACEPARENT="nonsense") == 0

    assert len({each["trace"] for each in spans(file)}) == 2
    # A call that takes long reports its span twice: without its end, and with it.
    parents = {each["id"]: each["parent"] for each in spans(file) if each["span"] == "PluginMain"}
    assert list(parents.values()) == ["", ""]


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    assert call(fifo, TRACEPARENT=GIVEN) == 0
    assert call(tmp_path / "none", TRACEPARENT=GIVEN) == 0
    assert call(tmp_path, TRACEPARENT=GIVEN) == 0
    assert not (tmp_path / "none").exists()


def test_a_step_that_may_last_is_reported_as_it_begins(file: Path) -> None:
    seen: list[dict[str, Any]] = []

    def wait(args: Args[Config]) -> Result:
        del args
        with fast_stdlib.span("quick"):
            pass
        with fast_stdlib.span("long", waits=True):
            seen.extend(spans(file))
        return Result()

    environ = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c", "CNI_NETNS": "/n", "CNI_IFNAME": "e"}
    environ |= {"CNI_HARNESS_TRACE": str(file), "TRACEPARENT": GIVEN}
    plugin = Plugin("sample", config=Config, add=wait, delete=delete)
    dispatch(plugin, environ, lambda: b'{"cniVersion":"1.0.0","name":"net","type":"sample"}')

    assert [(each["span"], each["end"] > 0) for each in seen] == [
        ("PluginMain", False),
        ("cmdAdd", False),
        ("quick", True),
        ("long", False),
    ]
    ended = {each["id"] for each in spans(file) if each["end"]}
    assert ended == {each["id"] for each in seen}
