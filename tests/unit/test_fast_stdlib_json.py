"""`fast_stdlib.json` held against `json`: the same values, texts and errors."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fast_stdlib.json
from fast_stdlib import hashing
from tests.cli import ROOT

TEXTS = [
    "{}",
    "[]",
    " \t\r\n{ } \n",
    '{"a": 1, "b": [1.5, -2e3, true, false, null], "a": 2}',
    '"text"',
    '"\\u00e9\\ud83d\\ude00 \\ud800"',
    "12345678901234567890",
    "NaN",
    "[Infinity, -Infinity]",
    "",
    " ",
    "{",
    '{"a"',
    '{"a":}',
    '{"a":1,}',
    "[1 2]",
    "{} {}",
    " [1]\n x",
    "\x0c{}",
    "{}\xa0",
    "\ufeff{}",
    '"open',
    '"a\tb"',
    '"\\x"',
    "nul",
    "-",
    "01",
    "'a'",
    "{}\0",
]

VALUES: list[Any] = [
    {},
    [],
    (1, 2),
    None,
    True,
    "text",
    '\u00e9\U0001f600\ud800\x7f\n"\\/',
    {"a": [1, 1.5, float("nan"), float("inf"), -0.0, 1e400], "b": {"c": None}},
    {1: "a", None: "b", False: "c", 1.5: "d"},
    2**70,
    {"path": Path("/a")},
    [object],
    {("a",): 1},
    b"bytes",
]

HOOKS = {
    "object_pairs_hook": lambda pairs: ("object", pairs),
    "parse_constant": lambda text: ("constant", text),
    "parse_float": lambda text: ("float", text),
    "parse_int": lambda text: ("int", text),
}


def outcome(function: Any, *args: Any, **settings: Any) -> object:
    try:
        return repr(function(*args, **settings))
    except Exception as error:  # noqa: BLE001 -- errors are compared
        return type(error), str(error)


@pytest.mark.parametrize("text", TEXTS)
def test_loads_equals_the_standard_library(text: str) -> None:
    assert outcome(fast_stdlib.json.loads, text, **HOOKS) == outcome(json.loads, text, **HOOKS)


ALONE = """
import sys
from fast_stdlib.json import loads
text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
assert "json.decoder" not in sys.modules
try:
    print(ascii(loads(text, object_pairs_hook=dict, parse_constant=str, parse_float=float, parse_int=int)))
except ValueError as error:
    print(type(error).__name__, ascii(str(error)))
"""


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_the_same_without_the_json_module(text: str) -> None:
    try:
        due = ascii(json.loads(text, parse_constant=str))
    except ValueError as error:
        due = f"{type(error).__name__} {str(error)!a}"

    command = [sys.executable, "-Ic", f"import sys; sys.path.insert(0, {str(ROOT)!r}){ALONE}"]
    ran = subprocess.run(command, input=text.encode("utf-8", "surrogatepass"), capture_output=True, check=True)

    assert ran.stdout.decode().rstrip("\n") == due


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("default", [None, str])
def test_dumps_equals_the_standard_library(value: object, default: Any, *, ensure_ascii: bool) -> None:
    ours = outcome(fast_stdlib.json.dumps, value, ensure_ascii=ensure_ascii, default=default)

    assert ours == outcome(json.dumps, value, ensure_ascii=ensure_ascii, default=default)


def test_recursive_values_are_refused() -> None:
    loop: list[object] = []
    loop.append(loop)

    assert outcome(fast_stdlib.json.dumps, loop) == outcome(json.dumps, loop)


def test_values_are_the_same_without_the_c_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_stdlib.json, "_json", None)
    for text in TEXTS:
        assert outcome(fast_stdlib.json.loads, text, **HOOKS) == outcome(json.loads, text, **HOOKS)
    for value in VALUES:
        assert outcome(fast_stdlib.json.dumps, value) == outcome(json.dumps, value)


@pytest.mark.parametrize("name", ["sha256", "sha512"])
def test_digests(name: str) -> None:
    for text in (b"", b"a", b"x" * 1000):
        assert getattr(hashing, name)(text).hexdigest() == hashlib.new(name, text).hexdigest()


def test_sha256_falls_back_to_hashlib() -> None:
    absent = "import sys; sys.modules.update(dict.fromkeys(('_sha2', '_sha256', '_sha512')))"
    script = f"{absent}; from fast_stdlib.hashing import sha256; print(sha256(b'').hexdigest())"

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == hashlib.sha256().hexdigest()
