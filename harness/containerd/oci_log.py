"""The log of an OCI runtime with `--log-format json`. Only the standard library is imported: the shim reads it."""

import json
import os


def last_error(path: str | os.PathLike[str]) -> str:
    """Return the last message of a log, empty if it has none."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.read().splitlines()[-1])["msg"])
    except (OSError, IndexError, ValueError, KeyError):
        return ""
