"""The transcript of a check: its commands do in a shell what the check did."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.engine.requests import execute
from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.transcript import LONGEST, calls, transcript
from harness.libcni.execute import Execution
from tests import findings
from tests.nodes import HANG


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin that prints its variables and its standard input."""
    path = tmp_path / "my plugin"
    path.write_text('#!/bin/sh\necho "$CNI_COMMAND $CNI_ARGS"\ncat\necho said >&2\nexit 3\n')
    path.chmod(0o755)
    return path


def called(plugin: Path, stdin: bytes, **environ: str) -> Execution:
    return execute(plugin, environ={"PATH": "/usr/bin:/bin", **environ}, stdin=stdin, timeout=HANG)


def failed(*executions: Execution) -> Finding:
    return findings.finding("fails", Outcome.FAIL, transcript=executions)


@pytest.mark.parametrize(
    "stdin",
    [b'{"cniVersion":"1.1.0","name":"it\'s","list":["$HOME", "\\u001b"]}', b'{"a": 1, "a": 2}', b"EOF\n$(id)", b""],
    ids=["JSON", "a key twice", "no JSON", "nothing"],
)
def test_a_call_can_be_pasted_into_a_shell(plugin: Path, stdin: bytes) -> None:
    execution = called(plugin, stdin, CNI_COMMAND="ADD", CNI_ARGS="A=it's;B=$HOME")

    pasted = subprocess.run(
        ["/bin/sh"], input=transcript(failed(execution)), capture_output=True, text=True, timeout=HANG, check=False
    )

    first, _, rest = execution.stdout.decode().partition("\n")
    assert pasted.stdout.startswith(f"{first}\n")
    repeated = pasted.stdout.removeprefix(f"{first}\n")
    assert json_or_text(repeated) == json_or_text(rest)
    assert (pasted.stderr, first) == ("said\n", "ADD A=it's;B=$HOME")


def json_or_text(text: str) -> object:
    try:
        return json.loads(text) if '"a"' not in text else text.strip()
    except ValueError:
        return text.strip()


def test_each_call_has_its_outcome_in_comments(plugin: Path) -> None:
    told = transcript(
        failed(called(plugin, b"", CNI_COMMAND="ADD", CNI_CONTAINERID="a1" * 32), called(plugin, b"", CNI_COMMAND="GC"))
    )

    first, second = told.split("\n\n")
    head, *_, stderr, words = first.splitlines()
    assert head == "# 1. my plugin ADD, a1a1a1a1a1a1"
    assert (stderr, words) == ("# stderr:", "#   said")
    assert "\n# exit code 3, after " in first
    assert second.startswith("# 2. my plugin GC, no container\nCNI_COMMAND=GC \\\n")
    assert "PATH" not in told


def test_a_long_output_is_cut_with_a_note(plugin: Path) -> None:
    plugin.write_text("#!/bin/sh\nprintf xyz; yes ä | head -n 3000\n")
    finding = failed(called(plugin, b"{}"))

    assert "#   … and 4908 more bytes" in transcript(finding)
    assert "\ufffd" not in transcript(finding)
    assert "\ufffd" not in str(calls(finding)[0]["stdout"])
    assert len(str(calls(finding)[0]["stdout"]).encode()) == LONGEST - 1
    assert calls(finding)[0]["cut"] == {"stdout": 9003}


def test_the_document_has_each_stream_and_the_end(plugin: Path) -> None:
    told: dict[str, Any] = calls(failed(called(plugin, b'{"a":1}', CNI_COMMAND="DEL", CNI_IFNAME="eth0")))[0]

    assert told.pop("seconds") > 0
    assert told.pop("ending").startswith("exit code 3, after ")
    assert told == {
        "plugin": "my plugin",
        "path": str(plugin),
        "verb": "DEL",
        "environment": {"CNI_COMMAND": "DEL", "CNI_IFNAME": "eth0"},
        "stdin": '{"a":1}',
        "stdout": 'DEL \n{"a":1}',
        "stderr": "said\n",
        "exit_code": 3,
    }
    assert json.dumps(told)


@pytest.mark.parametrize(
    ("script", "timeout", "words"),
    [
        ("exec sleep 1000", 0.2, "signal 9, after .*, killed at the time limit, no output"),
        ("kill -11 $$", HANG, "signal 11, after .*, no output"),
        ("exit 0", HANG, "exit code 0, after .*, no output"),
    ],
)
def test_transcript_describes_the_end_of_a_call(plugin: Path, script: str, timeout: float, words: str) -> None:
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    execution = execute(plugin, environ={"PATH": "/usr/bin:/bin"}, stdin=b"", timeout=timeout)

    assert re.search(f"^# {words}$", transcript(failed(execution)), re.MULTILINE)
