"""The options --trace, --trace-all, --trace-file and --record, and their effect on a verb."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from harness.locations import OWN_CONF_DIR

if TYPE_CHECKING:
    from harness.cli.options import Settings
    from skel.spans import Span

_OTLP_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def trace_options(remember: Callable[[click.Context, click.Parameter, Any], object]) -> list[click.Parameter]:
    """Return the options; `remember` puts their values into the settings."""
    return [
        click.Option(
            ["--trace"],
            is_flag=True,
            expose_value=False,
            callback=remember,
            help="Print the steps on stderr as they happen, into the plugins, with their times.",
        ),
        click.Option(
            ["--trace-all"],
            is_flag=True,
            expose_value=False,
            callback=remember,
            help="The same with messages to the kernel, repeated polls, and the documents of plugins.",
        ),
        click.Option(
            ["--trace-file", "trace_files"],
            type=click.Path(dir_okay=False, path_type=Path),
            multiple=True,
            expose_value=False,
            callback=remember,
            metavar="FILE",
            help="Write all of it to a file; may be repeated. NAME.perfetto.json is for ui.perfetto.dev, any other "
            "name is OpenTelemetry's JSON, and .jsonl gets one more line.",
        ),
    ]


def _remember_record(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if value:
        ctx.obj.record = True


record_option = click.option(
    "--record",
    is_flag=True,
    expose_value=False,
    callback=_remember_record,
    help="Keep the trace, and the node before and after, for `cni-harness explain POD`.",
)
"""Adds --record, for verbs whose arguments `pods` or `names` are pods."""


def traceable(name: str, function: Callable[..., object], say: Callable[[str], None]) -> Callable[..., object]:
    """Return the verb `name` so that it is traced if its Settings, or OpenTelemetry's variables, ask for that."""

    @wraps(function)
    def carry_out(settings: "Settings", *arguments: Any, **named: Any) -> object:  # noqa: ANN401 -- the verb's own
        tree = settings.tree
        if not (tree or settings.trace_files or settings.record or os.environ.get(_OTLP_ENDPOINT)):
            return function(settings, *arguments, **named)
        from harness.views.trace_formats import traced

        with (
            _recorded(name, settings, named, say) as take,
            traced(name, tree=tree, files=settings.trace_files, say=say, take=take),
        ):
            return function(settings, *arguments, **named)

    return carry_out


def _recorded(
    name: str, settings: "Settings", named: Mapping[str, Any], say: Callable[[str], None]
) -> "AbstractContextManager[Callable[[Sequence[Span]], None] | None]":
    """Return the recording of the verb, which gives the function that gets its spans; None if nothing is recorded."""
    if not settings.record or os.geteuid() != 0:  # the verb itself says that it needs root
        return nullcontext()
    from harness.views.recorded_runs import RecordedVerb, recorded_run

    pods = [f"{named['namespace']}/{pod}" for pod in named.get("pods") or named.get("names") or ()]
    conf_dirs = [settings.conf_dir or settings.usual_conf_dir, OWN_CONF_DIR]
    verb = RecordedVerb(settings.open_node(), name, None if named.get("everything") else pods, conf_dirs)
    return recorded_run(verb, say)
