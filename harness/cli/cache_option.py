"""The option --cache-dir of the verbs that look at the attachments of other runtimes."""

from pathlib import Path

import click

cache_dir_option = click.option(
    "--cache-dir",
    "cache_dirs",
    multiple=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIR",
    help="A runtime's cache of results; may be repeated.  [default: /var/lib/cni]",
)
"""Decorates a verb, which gets `cache_dirs`: a tuple of existing folders, empty by default."""
