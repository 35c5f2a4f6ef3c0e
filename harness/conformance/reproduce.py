"""The command that repeats one finding: the same check of the same plugin, as the run examined it."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from harness.conformance.finding import Finding

__all__ = ["Arguments", "command_of"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of a run that decide how its checks execute plugins; none that selects checks or writes reports."""

    program: tuple[str, ...] = ("cni-harness",)
    bin_dirs: tuple[Path, ...] = ()
    """The folders that were searched for plugins; none for the default."""
    options: tuple[str, ...] = ()
    """The other options as written on a command line, for example `("--prepare", "/x/uplink.sh")`."""


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
