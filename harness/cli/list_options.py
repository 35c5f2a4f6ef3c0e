"""`cni-harness options`: the options that every verb has, in one place."""

import click

from harness.cli.options import Settings, shared_options, verb
from harness.output import TextTable, emit, write


@verb("options", examples={"options": "List them", "options -o json": "The same for a program"})
@click.pass_context
def command(ctx: click.Context, settings: Settings) -> None:
    """List the options that every verb has. They may stand before or after the verb."""
    options = shared_options(environment=True)
    records = [record for each in options if (record := each.get_help_record(ctx))]
    if not settings.is_table:
        document = [{"option": names, "meaning": meaning} for names, meaning in records]
        emit(settings.output, {"options": document}, TextTable((), ()))
        return
    formatter = ctx.make_formatter()
    formatter.write_dl(records)
    write(formatter.getvalue(), nl=False)
