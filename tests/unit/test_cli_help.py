"""The help of each verb: examples that can be parsed, and the shared options once."""

import json
import shlex
from pathlib import Path

import click
import pytest

from harness.cli.command_line import cli
from harness.cli.options import Settings, shared_options
from harness.cli.verb_help import VerbCommand
from tests.cli import Cli
from tests.cli_examples import Example, examples, prepare, verbs

SHARED = [option.opts[0] for option in shared_options()]


def test_every_verb_has_two_or_three_examples_of_its_own() -> None:
    listed = examples()

    assert {name: len(verb.examples) for name, verb in verbs() if len(verb.examples) not in {2, 3}} == {}
    assert [each for each in listed if each.line.split()[: len(each.verb.split())] != each.verb.split()] == []
    assert len({each.line for each in listed}) == len(listed) > 70


@pytest.mark.parametrize("example", examples(), ids=lambda each: each.line)
def test_example_is_accepted_by_the_parser(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    line, _, file = example.line.partition(" > ")
    words = shlex.split(line)

    command: click.Command = cli
    ctx = click.Context(cli, info_name="cni-harness", obj=Settings())
    while isinstance(command, click.Group) and words and (below := command.get_command(ctx, words[0])):
        command, words = below, words[1:]
        if isinstance(command, click.Group) and len(example.verb.split()) > 1:
            ctx = click.Context(command, info_name=command.name, parent=ctx)
    parsed = command.make_context(command.name, words, parent=ctx)

    assert parsed.command_path == f"cni-harness {example.verb}"
    assert len(file.split()) == (1 if file else 0)


@pytest.mark.parametrize(("name", "verb"), list(verbs()))
def test_help_has_the_examples_and_names_the_shared_options_by_their_verb(name: str, verb: VerbCommand) -> None:
    ctx = click.Context(verb, info_name=name, terminal_width=80)

    lines = verb.get_help(ctx).splitlines()

    for line, purpose in verb.examples.items():
        at = lines.index(f"  # {purpose}")
        assert lines[at + 1] == f"  cni-harness {line}"
    assert lines.index("Examples:") < lines.index("Options:")
    assert lines[-1] == "`cni-harness options` lists the options that every verb has."
    assert [line for line in lines if line.startswith("  --state-dir")] == []
    assert max(map(len, lines)) <= 80


def test_options_lists_the_shared_options_with_their_variables(tmp_path: Path) -> None:
    program = Cli(tmp_path / "cli", tmp_path)

    shown = program.run("options").stdout
    document = program.json("options")["options"]

    assert [option for option in SHARED if option not in shown] == []
    assert [each["option"].split()[0].rstrip(",") for each in document] == SHARED
    assert "[env var: CNI_HARNESS_NODE]" in json.dumps(document)
    assert "--state-dir" not in program.run("--help").stdout


def test_own_option_in_place_of_a_shared_one_is_in_the_help() -> None:
    by_name = dict(verbs())
    explain, matrix = (by_name[name] for name in ("explain", "conformance matrix"))

    assert "-o, --output FILE" in explain.get_help(click.Context(explain))
    assert "--bin-dir [NAME=]DIR[:DIR]" in matrix.get_help(click.Context(matrix))
