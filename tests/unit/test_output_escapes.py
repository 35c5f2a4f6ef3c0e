"""Control characters from plugins, pods and files never reach the terminal; documents keep their values."""

import json
import unicodedata

import pytest
import yaml

from harness.cli.options import warn
from harness.output import UNPRINTABLE, TextTable, emit, replace_line, say, say_changes, write

HOSTILE = "a\x1b]0;t\x07\x1b[31m\x9b2J\u202eb\u2066\u200b\U000e0041\x85\u2028\ud800\x7f\r\ufeff"


def only_printable(text: str) -> bool:
    return UNPRINTABLE.search(text) is None


@pytest.mark.parametrize("category", ["Cc", "Cf", "Zl", "Zp", "Cs"])
def test_every_control_and_format_character_is_escaped(category: str) -> None:
    characters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == category]
    # Prepended marks of Arabic, Syriac and Kaithi, Egyptian and shorthand controls are visible parts of their scripts.
    visible = {*"\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2", "\U000110bd", "\U000110cd"}
    visible |= {chr(code) for code in (*range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B))}

    missed = [each for each in characters if not UNPRINTABLE.fullmatch(each)]

    assert set(missed) <= {"\t", "\n"} | visible


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_emit_escapes_names_and_values(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    emit(form, {HOSTILE: [HOSTILE, {"plain": "ümläut"}]}, TextTable((HOSTILE,), [[HOSTILE], ["x\nforged row"]]))

    shown = capsys.readouterr().out
    assert only_printable(shown)
    assert "\\u202e" in shown
    assert "\nforged" not in shown


def test_json_and_yaml_keep_values_exact(capsys: pytest.CaptureFixture[str]) -> None:
    document = {HOSTILE: [HOSTILE, f"two\nlines {HOSTILE}", "plain: ümläut 🙂", "yes", "1.10", ""], "n": 1.5, "b": None}

    emit("json", document, TextTable((), []))
    as_json = capsys.readouterr().out
    emit("yaml", document, TextTable((), []))
    as_yaml = capsys.readouterr().out

    assert json.loads(as_json) == document
    assert yaml.safe_load(as_yaml) == document
    assert "plain: ümläut 🙂" in as_json
    assert "plain: ümläut 🙂" in as_yaml


def test_messages_and_changes_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say(HOSTILE, styled=True)
    warn(ValueError(f"{HOSTILE}\nError: forged"))
    say_changes([f"+ {HOSTILE}"])
    write(f"\x1b[32mours\x1b[0m {HOSTILE}", styled=True)
    replace_line(HOSTILE)

    shown = capsys.readouterr()
    assert only_printable(shown.out)
    assert only_printable(shown.err.replace("\r", ""))
    assert "\nError" not in shown.err
