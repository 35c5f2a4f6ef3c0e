"""The command line as its own help has it: one `Verb` for each command, for manual pages and the site."""

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from harness.cli.command_line import cli
from harness.cli.verb_help import VerbCommand


class Verb(NamedTuple):
    """One command. `options` are without those that every verb shares, but for `cni-harness` itself.

    `examples` are pairs: a command line, and what it is for.
    """

    name: str
    summary: str
    usage: str
    paragraphs: Sequence[str]
    options: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, str]]


def verbs() -> Iterator[Verb]:
    """Yield `cni-harness`, then every verb in the order of the help, each followed by its own verbs."""
    with click.Context(cli, info_name="cni-harness") as ctx:
        yield _verb(cli, ctx, cli.get_params(ctx))
        yield from _below(cli, ctx)


def _below(group: click.Group, ctx: click.Context) -> Iterator[Verb]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if not isinstance(command, VerbCommand):
            continue
        with click.Context(command, info_name=name, parent=ctx) as inner:
            yield _verb(command, inner, [each for each in command.get_params(inner) if each not in command.shared])
            if isinstance(command, click.Group):
                yield from _below(command, inner)


def _verb(command: VerbCommand, ctx: click.Context, params: Sequence[click.Parameter]) -> Verb:
    records = [record for param in params if (record := param.get_help_record(ctx))]
    # A form feed ends the part of a docstring that is for users.
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    return Verb(
        name=ctx.command_path,
        summary=command.get_short_help_str(limit=200).rstrip("."),
        usage=" ".join(command.collect_usage_pieces(ctx)),
        paragraphs=[" ".join(part.split()) for part in re.split(r"\n\s*\n", text)],
        # An argument without a text of its own is in the usage already.
        options=[record for record in records if record[1]],
        examples=[(f"cni-harness {line}", purpose) for line, purpose in command.examples.items()],
    )
