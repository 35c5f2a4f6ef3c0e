"""Run the unit tests with other versions of Python: `python -m tools.pythons [--python VERSION...] [NEED...]`.

NEEDs are those of the Makefile, WHAT=PACKAGE. Each version runs in a folder with the Debian that has it, in namespaces
of its own. Results are in build/junit-python-VERSION.xml.
"""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.vm.debian import debian_root, pack_checkout, wheels

_RELEASES: Final = {"3.13": "trixie", "3.14": "forky"}
_EXTRAS: Final = ("bench", "cri", "docs", "otel", "release", "test", "lint")
"""Those of `make test-venv`, and all that they consist of."""
_FURTHER: Final = {"e2fsprogs", "make"}
"""Packages that each Debian 12 has, or whoever runs `make`."""

_HERE: Final = Path(__file__).parent
_CHECKOUT: Final = _HERE.parents[1]
_BUILD: Final = _CHECKOUT / "build"


def main(arguments: list[str]) -> int:
    """Run them all; return the first exit code that is not 0. Raises OSError, subprocess.CalledProcessError."""
    parser = ArgumentParser(prog="python -m tools.pythons", description=__doc__)
    parser.add_argument("--python", action="append", choices=_RELEASES, help="may be repeated  [all]")
    parser.add_argument("--tests", action="append", metavar="PATH", help="may be repeated  [tests/unit]")
    parser.add_argument("needs", nargs="*", metavar="NEED")
    options = parser.parse_args(arguments)

    packages = sorted({need.partition("=")[2] for need in options.needs} | _FURTHER)
    codes = [_run(version, packages, options.tests or ["tests/unit"]) for version in options.python or _RELEASES]
    return next((code for code in codes if code), 0)


def _run(version: str, packages: list[str], tests: list[str]) -> int:
    cache = _BUILD / "vm" / "cache"
    root = debian_root(cache, *packages, f"python{version}-venv", release=_RELEASES[version])
    needed = wheels(cache, _CHECKOUT, python=version, extras=_EXTRAS)
    with TemporaryDirectory(prefix="cni-harness-python-") as folder:
        pack_checkout(_CHECKOUT, Path(folder, "checkout.tar"))
        inside = [str(_HERE / "inside.sh"), str(root), str(needed), folder, version, *tests]
        code = subprocess.run([str(_CHECKOUT / "tools/test_run.sh"), *inside], check=False).returncode
        for junit in Path(folder).glob("junit.xml"):
            (_BUILD / f"junit-python-{version}.xml").write_bytes(junit.read_bytes())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
