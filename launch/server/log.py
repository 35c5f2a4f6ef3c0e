"""The log of the server and its workers, on stderr."""

import os
from contextlib import suppress


def log(message: str) -> None:
    """Write one line. Raises nothing."""
    with suppress(OSError):
        os.write(2, f"cni-harness server: {message}\n".encode("utf-8", "backslashreplace"))
