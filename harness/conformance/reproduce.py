"""The command that repeats one finding: the same check of the same plugin, as the run examined it."""

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

from harness.conformance.finding import Finding, KeptNode

_NAME: Final = "cni-harness"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of a run that decide how its checks execute plugins; none that selects checks or writes reports."""

    program: tuple[str, ...] = (_NAME,)
    bin_dirs: tuple[Path, ...] = ()
    """The folders that were searched for plugins; none for the default."""
    options: tuple[str, ...] = ()
    """The other options as written on a command line, for example `("--prepare", "/x/uplink.sh")`."""


def this_program() -> tuple[str, ...]:
    """Return the words that start this program from any folder: its name if PATH has it, otherwise its path."""
    path = Path(sys.argv[0]).absolute()
    if path.suffix == ".py" or not path.is_file():  # executed as a module, or by another program
        return (_NAME,)
    if (found := which(path.name)) and Path(found).samefile(path):
        return (path.name,)
    return (str(path),) if os.access(path, os.X_OK) else (sys.executable, str(path))


def option_words(name: str, value: object) -> list[str]:
    """Return an option as on a command line: once for each of several values, alone for True, and none for False."""
    if isinstance(value, bool):
        return [name] if value else []
    if isinstance(value, tuple):
        return [word for each in value for word in option_words(name, each)]
    text = value.absolute() if isinstance(value, Path) else f"{value:g}" if isinstance(value, float) else value
    return [name, str(text)]


def command_of(finding: Finding, arguments: Arguments) -> str:
    """Return a line for a shell, as root, that runs the finding's check again, on this plugin alone.

    A check that was not examined is repeated by the check that is its cause.
    """
    subject, network = finding.subject, finding.subject.network
    words = [*arguments.program, "conformance"]
    if arguments.bin_dirs:
        words += ["--bin-dir", ":".join(map(str, arguments.bin_dirs))]
    words += ["--conf", str(network.source.absolute())] if network.source else ["--network", network.name]
    words += ["--plugin", subject.type, "--check", finding.cause or finding.check.id, *arguments.options]
    return shlex.join(words)


def clean_command(kept: KeptNode, arguments: Arguments) -> list[str]:
    """Return the words of the command that removes a node that was kept."""
    return [*arguments.program, "--state-dir", str(kept.state_dir), "conformance", "clean", kept.name]
