"""The compared suites: our plugins with and without a server, the reference's, and the floor."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness.bench.suites import OURS, REFERENCE, REFERENCE_BIN_DIR, BenchSuite, own_plugins

DIRECT: Final = "direct"
FLOOR: Final = "floor"
PYTHON: Final = "python -IS"

_SOURCE: Final = Path(__file__).with_name("floor.c")
_COMPILE: Final = ("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o")


@contextmanager
def subjects() -> Iterator[dict[str, BenchSuite]]:
    """Compile the floor and yield the suites by their names. Raises OSError, CalledProcessError."""
    with own_plugins() as own, TemporaryDirectory(prefix="cni-harness-bench-") as folder:
        floor = Path(folder)
        subprocess.run([*_COMPILE, floor / "bridge", _SOURCE], check=True)
        yield {
            OURS: BenchSuite(OURS, (own,), served=True),
            DIRECT: BenchSuite(DIRECT, (own,), brief=True),
            REFERENCE: BenchSuite(REFERENCE, (REFERENCE_BIN_DIR,)),
            FLOOR: BenchSuite(FLOOR, (floor,)),
        }
