"""Image files of two kinds: OCI image layouts, as a folder or an archive, and archives of `docker save`.

skopeo reads them, checks their digests and chooses this machine's platform. Each image gets a layout of its own with
the tag `image`, since tags of umoci have neither `/` nor `:`.
"""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.cri.service import RuntimeServiceError
from harness.files import naming

TAG: Final = "image"
_LAYOUT_FILE: Final = re.compile(r"oci-layout|index\.json|blobs/[a-z0-9]+/[a-f0-9]+")
_GZIP: Final = b"\x1f\x8b"
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class SourceImage(NamedTuple):
    """An image in a file: its name for skopeo, its references, and its ID if skopeo would change it.

    skopeo rewrites the configuration of an image from `docker save`, whose digest is the image's ID everywhere else.
    """

    source: str
    tags: list[str]
    id: str = ""


def source_images(file: Path, scratch: Path) -> Iterator[SourceImage]:
    """Yield the images of a file or folder; `scratch` is a folder for temporary files.

    Raises RuntimeServiceError for a file of another kind, OSError.
    """
    if file.is_dir():
        if not (file / "oci-layout").exists():
            raise _not_an_image(file)
        yield from _layout_images(file, scratch)
        return
    try:
        with tarfile.open(file) as archive:
            members = {member.name.removeprefix("./"): member for member in archive}
            if "oci-layout" in members:
                _unpack_layout(archive, members, scratch / "archive")
                images = _layout_images(scratch / "archive", scratch)
            elif "manifest.json" in members:
                images = _saved_images(archive, members, _plain(file, scratch))
            else:
                raise _not_an_image(file)
            yield from images
    except (tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise RuntimeServiceError(f"{file}: {error}") from None


def copy_to_layout(image: SourceImage, layout: Path) -> None:
    """Write one image to a new layout, with the tag TAG. Raises RuntimeServiceError."""
    run_tool(
        "skopeo",
        "--insecure-policy",
        "--tmpdir",
        str(layout.parent),
        "copy",
        "--quiet",
        image.source,
        f"oci:{layout}:{TAG}",
    )


def run_tool(*command: str) -> str:
    """Run a program and return its output. Raises RuntimeServiceError with its last line, or if it is missing."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        tool = command[0]
        raise RuntimeServiceError(f"images need {tool} (Debian: apt-get install {tool}), which is missing") from None
    if done.returncode:
        raise RuntimeServiceError(f"{command[0]}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout


def _layout_images(layout: Path, scratch: Path) -> Iterator[SourceImage]:
    """Yield the images of a layout, each through an index of its own: names in an index may be missing or repeated."""
    index = json.loads((layout / "index.json").read_bytes())
    for number, descriptor in enumerate(index.get("manifests", [])):
        own = scratch / f"layout{number}"
        own.mkdir(parents=True)
        (own / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (own / "blobs").symlink_to((layout / "blobs").resolve())
        named: dict[str, Any] = descriptor | {"annotations": {_NAMES[1]: TAG}}
        (own / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
        annotations = descriptor.get("annotations") or {}
        names = [annotations[name] for name in _NAMES if annotations.get(name)]
        yield SourceImage(f"oci:{own}:{TAG}", names[:1])


def _unpack_layout(archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo], folder: Path) -> None:
    """Unpack the plain files that a layout has, and nothing else: no path leads out of the folder."""
    for name, member in members.items():
        if member.isfile() and _LAYOUT_FILE.fullmatch(name):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = _content(archive, member)
            with naming(path):
                path.write_bytes(content)


def _saved_images(archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo], file: Path) -> Iterator[SourceImage]:
    for index, image in enumerate(json.loads(_content(archive, members["manifest.json"]))):
        digest = hashlib.sha256(_content(archive, members[image["Config"]])).hexdigest()
        yield SourceImage(f"docker-archive:{file}:@{index}", list(image.get("RepoTags") or []), f"sha256:{digest}")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise tarfile.ReadError(f"{member.name} is no file")
    return file.read()


def _plain(file: Path, scratch: Path) -> Path:
    """Return the archive, uncompressed if it is compressed by gzip: skopeo cannot choose an image of such a one."""
    with file.open("rb") as opened:
        if opened.read(len(_GZIP)) != _GZIP:
            return file
    plain = scratch / "archive.tar"
    with naming(plain), gzip.open(file) as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target)
    return plain


def _not_an_image(file: Path) -> RuntimeServiceError:
    return RuntimeServiceError(
        f"{file}: neither an OCI image layout (it has no file oci-layout) nor an archive of `docker save` (it has no "
        "file manifest.json)"
    )
