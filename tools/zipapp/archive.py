"""The content of cni-harness.pyz, and the writing of it: our packages, and what they need from this environment.

The archive runs on any machine, so compiled modules are left out. It is the same for the same files.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tools.zipapp.start import CONTENT, DIGEST

_ROOT: Final = Path(__file__).parents[2]
_START: Final = Path(__file__).with_name("start.py")
_SHEBANG: Final = b"#!/usr/bin/env python3\n"
_OURS: Final = "cni-harness"
_WITH_SUBSTITUTE: Final = {"markupsafe", "pyyaml"}
"""Distributions that do without their compiled modules."""
_LEFT_OUT: Final = {"jsonschema"}
"""Only `validate` uses it, and its rpds-py is compiled."""
_RECORD: Final = "RECORD"
"""pip's list of a distribution's files; it has digests of commands with the path of this environment in them."""
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time in a zip archive, for each file in it."""


class CompiledError(Exception):
    """A distribution has compiled modules, and is not known to do without them."""


def write(target: Path) -> None:
    """Write the archive. Raises CompiledError, PackageNotFoundError, OSError."""
    files = content()
    digest = sha256()
    for name, data in sorted(files.items()):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.new")
    with unfinished.open("wb") as file:
        file.write(_SHEBANG)
        with ZipFile(file, "w", ZIP_DEFLATED) as archive:
            _add(archive, "__main__.py", _START.read_bytes())
            _add(archive, DIGEST, digest.hexdigest()[:32].encode())
            for name, data in sorted(files.items()):
                _add(archive, CONTENT + name, data)
    unfinished.chmod(0o755)
    unfinished.rename(target)


def content() -> Mapping[str, bytes]:
    """Return the files by their path in the archive's folder of modules. Raises as `write` does."""
    ours = distribution(_OURS)
    files = {name: path.read_bytes() for name, path in _own_files()}
    described = ours.read_text("METADATA") or ours.read_text("PKG-INFO") or ""
    for name, text in (("METADATA", described), ("entry_points.txt", ours.read_text("entry_points.txt") or "")):
        files[f"cni_harness-{ours.version}.dist-info/{name}"] = text.encode()
    for needed in _needed(ours, set(_LEFT_OUT)):
        files |= _files_of(needed)
    return files


def _own_files() -> Iterator[tuple[str, Path]]:
    with (_ROOT / "pyproject.toml").open("rb") as file:
        packages = tomllib.load(file)["tool"]["setuptools"]["packages"]["find"]["include"]
    for package in packages:
        for path in (_ROOT / package.removesuffix("*")).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.name != "_launcher":
                yield str(path.relative_to(_ROOT)), path


def _needed(user: Distribution, seen: set[str]) -> Iterator[Distribution]:
    """Yield the distributions that another needs, without extras, and those that they need."""
    for requirement in user.requires or ():
        words, _, marker = requirement.partition(";")
        name = _normal(re.split(r"[^\w.-]", words.strip(), maxsplit=1)[0])
        if name in seen or "extra" in marker:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if marker:  # for another Python, or another system
                continue
            raise
        yield found
        yield from _needed(found, seen)


def _files_of(needed: Distribution) -> dict[str, bytes]:
    files = {}
    for path in needed.files or ():
        if path.suffix == ".so" and _normal(needed.name) not in _WITH_SUBSTITUTE:
            raise CompiledError(f"{needed.name}: {path}")
        if ".." not in path.parts and path.suffix not in {".pyc", ".so"} and path.name != _RECORD:
            files[str(path)] = path.read_binary()
    return files


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _add(archive: ZipFile, name: str, data: bytes) -> None:
    entry = ZipInfo(name, _LONG_AGO)
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
