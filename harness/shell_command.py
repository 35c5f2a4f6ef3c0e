"""One execution of a plugin as a command that can be pasted into a shell: in lines, or in one line."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from harness.output import json_escape, printable
from skel.strict_json import decode_json


def shell_command(path: str, environ: Mapping[str, str], stdin: bytes, place: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a command that executes the plugin at `path` again, with stdin as a here-document.

    `place` are the words of a command that runs another command in the plugin's environment.
    """
    variables = [f"{name}={shlex.quote(value)}" for name, value in _protocol(environ).items()]
    words = [shlex.join([*place, "env"])] if place else []
    body = indented(stdin, escape=json_escape)
    end = "EOF"
    while end in body:
        end += "_"
    here = [f"{shlex.quote(path)} <<'{end}'"] if body else [f"{shlex.quote(path)} </dev/null"]
    yield printable(" \\\n  ".join(words + variables + here))
    yield from [*body, end] if body else []


def one_line_command(path: str, environ: Mapping[str, str], stdin: bytes) -> str:
    """Return the same command in one line, for bash and other shells that have `<<<`.

    Bytes that are not UTF-8 are replaced. Standard input that is no JSON may have several lines.
    """
    variables = [f"{name}={shlex.quote(value)}" for name, value in _protocol(environ).items()]
    text = json_escape(stdin.decode(errors="replace"))
    with suppress(ValueError):
        decode_json(stdin)
        text = " ".join(text.split("\n"))  # between tokens: a string has no line ends
    given = f"<<< {shlex.quote(text)}" if text else "</dev/null"
    return printable(" ".join([*variables, shlex.quote(path), given]))


def indented(stream: bytes, *, escape: Callable[[str], str]) -> list[str]:
    """Return the lines of a stream: indented if it is JSON, otherwise as they are."""
    try:
        document = decode_json(stream)
    except ValueError:
        return [printable(line) for line in stream.decode(errors="replace").splitlines()]
    return [escape(line) for line in json.dumps(document, indent=2, ensure_ascii=False).split("\n")]


def _protocol(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the protocol's variables, the verb first, as SPEC.md lists them; without this program's variables."""
    names = [name for name in environ if name.startswith("CNI_") and not name.startswith("CNI_HARNESS_")]
    return {name: environ[name] for name in sorted(names, key=lambda name: (name != "CNI_COMMAND", name))}
