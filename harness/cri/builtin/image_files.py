"""Image files of two kinds: OCI image layouts, as a folder or an archive, and archives of `docker save`.

skopeo reads them, checks their digests and chooses this machine's platform. Each image gets a layout of its own with
the tag `image`, since tags of umoci have neither `/` nor `:`.
"""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.cri.service import RuntimeServiceError

__all__ = ["TAG", "SourceImage", "copy_to_layout", "run_tool", "source_images"]

TAG: Final = "image"
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class SourceImage(NamedTuple):
    """An image in a file: its name for skopeo, and its references."""

    source: str
    tags: list[str]


def source_images(file: Path, scratch: Path) -> Iterator[SourceImage]:
    """Yield the images of a file or folder; archives of layouts are unpacked to `scratch`.

    Raises RuntimeServiceError for a file of another kind, OSError.
    """
    if file.is_dir():
        if not (file / "oci-layout").exists():
            raise _not_an_image(file)
        yield from _layout_images(file, scratch)
        return
    manifest: list[dict[str, Any]] = []
    try:
        with tarfile.open(file) as archive:
            members = {name.removeprefix("./") for name in archive.getnames()}
            if "oci-layout" in members:
                archive.extractall(scratch / "archive", filter="data")
            elif "manifest.json" not in members:
                raise _not_an_image(file)
            else:
                document = archive.extractfile("manifest.json")
                manifest = json.load(document) if document else manifest
    except (tarfile.TarError, ValueError, KeyError) as error:
        raise RuntimeServiceError(f"{file}: {error}") from None
    if "oci-layout" in members:
        yield from _layout_images(scratch / "archive", scratch)
        return
    for index, image in enumerate(manifest):
        yield SourceImage(f"docker-archive:{file}:@{index}", list(image.get("RepoTags") or []))


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


def _not_an_image(file: Path) -> RuntimeServiceError:
    return RuntimeServiceError(
        f"{file}: neither an OCI image layout (it has no file oci-layout) nor an archive of `docker save` (it has no "
        "file manifest.json)"
    )
