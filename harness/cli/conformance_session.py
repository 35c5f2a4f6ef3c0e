"""`cni-harness conformance session`: questions and answers, each a line of JSON, for the pytest plugin."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.output import write

if TYPE_CHECKING:
    from harness.conformance.session import Session


@click.command("session", hidden=True)
def session() -> None:
    """Answer questions from standard input until its end: the pytest plugin asks for checks one at a time."""
    from harness.conformance.session import Session

    asked = Session()
    for line in sys.stdin:
        write(json.dumps(_answer(json.loads(line), asked)))


def _answer(question: dict[str, Any], asked: "Session") -> dict[str, object]:
    if question["verb"] == "launchers":
        return _launchers(Path(question["folder"]))
    try:
        return asked.answer(question)
    except Exception:  # noqa: BLE001 -- the program that asked shows it
        from traceback import format_exc

        return {"error": format_exc()}


def _launchers(folder: Path) -> dict[str, object]:
    from harness.install.files import InstallError, write_launchers

    try:
        write_launchers(folder)
    except (InstallError, OSError) as error:
        return {"error": str(error)}
    return {}
