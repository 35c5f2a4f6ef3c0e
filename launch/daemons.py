"""The daemon of a plugin as a program of this installation: `cni-harness install` writes it into a unit of systemd."""

import sys

from .plugin_list import load_daemon


def main() -> int:
    """Run the daemon of the plugin that the first argument names, with the other arguments; return its exit code."""
    _, name, *arguments = sys.argv
    return load_daemon(name)(arguments)
