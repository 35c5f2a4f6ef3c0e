"""A volume that is ready for containers."""

from pathlib import Path
from typing import NamedTuple


class MountedVolume(NamedTuple):
    """A file or folder on the node; `readonly` holds for every container."""

    path: Path
    readonly: bool = False
