"""The logs of a container's attempts, in the format of the Container Runtime Interface: time, stream, P or F, text."""

from pathlib import Path
from typing import Final

from harness.files import read_end

_CRI_FIELDS: Final = 4
_END_BYTES: Final = 8192


def log_attempts(folder: Path) -> list[Path]:
    """Return the logs of a container's attempts, the oldest first."""
    return sorted((path for path in folder.glob("*.log") if path.stem.isdecimal()), key=lambda path: int(path.stem))


def last_lines(log: Path, count: int) -> list[str]:
    """Return the texts of the last lines that are not empty, without time and stream. Raises OSError."""
    texts = []
    for line in read_end(log, _END_BYTES).decode(errors="replace").splitlines():
        fields = line.split(" ", _CRI_FIELDS - 1)
        if len(fields) == _CRI_FIELDS and fields[-1].strip():
            texts.append(fields[-1])
    return texts[-count:]
