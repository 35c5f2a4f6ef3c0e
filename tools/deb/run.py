"""Programs that the build calls; one that fails ends it."""

import subprocess


def run(*command: str) -> None:
    """Run a command. Raises subprocess.CalledProcessError."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def output(*command: str) -> str:
    """Return the output of a command. Raises subprocess.CalledProcessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
