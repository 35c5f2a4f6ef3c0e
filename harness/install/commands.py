"""Commands that change the system: dpkg-divert and systemctl."""

import subprocess


class CommandError(Exception):
    """A command failed; the message has its answer."""


def run(command: str, *arguments: str) -> str:
    """Run a command and return its standard output. Raises CommandError."""
    try:
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CommandError(f"{command}: {error.strerror}") from error
    if done.returncode != 0:
        raise CommandError(f"{command} {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
