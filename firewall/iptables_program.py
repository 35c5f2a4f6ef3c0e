"""Execution of the iptables programs, with the environment of the plugin's call."""

import errno
import os

from fast_stdlib import span, span_note
from fast_stdlib.hashing import sha512
from fast_stdlib.typing import Final, Iterable, Mapping, NamedTuple

_DEFAULT_PATH: Final = "/usr/sbin:/sbin"
_CHAIN_LENGTH: Final = 28


class IptablesError(OSError):
    """An iptables program is missing (ENOENT) or failed (EIO, with its message)."""


class Program(NamedTuple):
    """One of the programs: a name to look up on PATH, and the environment that has this PATH."""

    name: str
    environ: Mapping[str, str]


def run(program: Program, arguments: list[str], script: str = "", *, check: bool = True) -> tuple[int, str]:
    """Run it with `script` as its input and return the exit code and its output.

    Raises IptablesError if it is missing or, with `check`, if it failed.
    """
    import subprocess

    path = find(program.name, program.environ)
    if path is None:
        raise IptablesError(errno.ENOENT, f"no program {program.name!r} on PATH or in {_DEFAULT_PATH}")
    with span(program.name, waits=True, arguments=arguments, stdin=script):
        done = subprocess.run(  # noqa: S603 - a fixed name, and arguments made above
            [path, *arguments],
            env=program.environ,
            input=script,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        span_note(exit_code=done.returncode)
    if check and done.returncode:
        command = " ".join([program.name, *arguments])
        raise IptablesError(errno.EIO, f"{command}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.returncode, done.stdout


def find(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of the program of that name, or None."""
    # Some runtimes call plugins without a PATH, or with one that has no folder for system programs.
    for folder in f"{environ.get('PATH', '')}:{_DEFAULT_PATH}".split(":"):
        candidate = f"{folder}/{name}"
        if folder and os.access(candidate, os.X_OK):
            return candidate
    return None


def rules(program: Program, table: str, chain: str) -> list[str]:
    """Return the rules of `chain`, as `iptables -S` shows them, without the `-A`. Raises IptablesError."""
    _, listing = run(program, ["-w", "-t", table, "-S", chain])
    return [line.removeprefix("-A ") for line in listing.splitlines() if line.startswith("-A ")]


def restore(program: Program, table: str, lines: Iterable[str]) -> None:
    """Make the changes, each a line for iptables-restore(8), all or none. Raises IptablesError."""
    script = "\n".join([f"*{table}", *lines, "COMMIT", ""])
    run(program._replace(name=f"{program.name}-restore"), ["-w", "--noflush"], script)


def chain_name(prefix: str, network: str, container_id: str) -> str:
    """Return the name of a container's own chain, as the reference plugins make it."""
    return prefix + sha512((network + container_id).encode()).hexdigest()[: _CHAIN_LENGTH - len(prefix)]


def escaped(text: str) -> str:
    """Return a text as it is written between quotes in a line for iptables-restore(8)."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)
