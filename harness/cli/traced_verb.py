"""The options --trace and --trace-file, and what they do to a verb."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from harness.cli.options import Settings

__all__ = ["trace_options", "traceable"]

_OTLP_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def trace_options(remember: Callable[[click.Context, click.Parameter, Any], object]) -> list[click.Parameter]:
    """Return the options; `remember` puts their values into the settings."""
    return [
        click.Option(
            ["--trace"],
            is_flag=True,
            expose_value=False,
            callback=remember,
            help="Print the tree of calls on stderr as it happens, into the plugins, with times and documents.",
        ),
        click.Option(
            ["--trace-file", "trace_files"],
            type=click.Path(dir_okay=False, path_type=Path),
            multiple=True,
            expose_value=False,
            callback=remember,
            metavar="FILE",
            help="Write that tree to a file; may be repeated. NAME.perfetto.json is for ui.perfetto.dev, any other "
            "name is OpenTelemetry's JSON, and .jsonl gets one more line.",
        ),
    ]


def traceable(name: str, function: Callable[..., object], say: Callable[[str], None]) -> Callable[..., object]:
    """Return the verb `name` so that it is traced if its Settings, or OpenTelemetry's variables, ask for that."""

    @wraps(function)
    def carry_out(settings: "Settings", *arguments: Any, **named: Any) -> object:  # noqa: ANN401 -- the verb's own
        if not (settings.trace or settings.trace_files or os.environ.get(_OTLP_ENDPOINT)):
            return function(settings, *arguments, **named)
        from harness.views.tracing import traced

        with traced(name, tree=settings.trace, files=settings.trace_files, say=say):
            return function(settings, *arguments, **named)

    return carry_out
