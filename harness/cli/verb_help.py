"""The help of a verb: examples, its own options, and the name of the verb that lists the shared ones."""

from collections.abc import Collection, Mapping
from typing import Any

import click


class VerbCommand(click.Command):
    """A command whose help has `examples`, and not the options that are `shared` by all verbs.

    `examples` has command lines without `cni-harness` and what each is for, at most 76 characters each.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 -- click's own, as below
        examples: Mapping[str, str] | None = None,
        shared: Collection[click.Parameter] = (),
        **named: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*arguments, **named)
        self.examples = examples or {}
        self.shared = shared

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, then the examples, as kubectl does."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            formatter.write("\nExamples:\n")
            formatter.write(
                "\n".join(f"  # {purpose}\n  cni-harness {line}\n" for line, purpose in self.examples.items())
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own options."""
        own = [each for each in self.get_params(ctx) if isinstance(each, click.Option) and each not in self.shared]
        with formatter.section("Options"):
            formatter.write_dl([record for each in own if (record := each.get_help_record(ctx))])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the verb that lists the shared options."""
        super().format_epilog(ctx, formatter)
        formatter.write("\n`cni-harness options` lists the options that every verb has.\n")


class VerbGroup(click.Group, VerbCommand):
    """A command with verbs of its own."""
