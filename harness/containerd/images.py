"""Images below the node's folder: `images/<id>/` with `image.json` and the unpacked `rootfs/`.

They come from files alone: `load` reads OCI layouts and archives of `docker save` with skopeo, and unpacks them with
umoci. Each container has an overlay over the image's files. A folder appears and disappears by rename(2). Names of
images are normalized as Docker does.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from harness.containerd.image_files import TAG, SourceImage, copy_to_layout, run_tool, source_images
from harness.cri.messages import Image
from harness.cri.service import ImageNotFoundError, RuntimeServiceError
from harness.files import locked, write_atomically
from skel.decoders import dict_of, integer, list_of, record, string
from skel.errors import CniError
from skel.record import Record, field

_DIGEST: Final = "sha256:"
_strings = list_of(string)

_DOMAIN: Final = "docker.io"
_FAMILIAR: Final = {"index.docker.io": _DOMAIN}


class ImageConfig(Record):
    """An image's settings for its process (image-spec, config.md); `stop_signal` is a name or a number.

    `volumes` are paths in the container that get a folder of their own.
    """

    user: str = field(string, "User", default="")
    env: list[str] = field(_strings, "Env", default=list)
    entrypoint: list[str] = field(_strings, "Entrypoint", default=list)
    cmd: list[str] = field(_strings, "Cmd", default=list)
    working_dir: str = field(string, "WorkingDir", default="")
    stop_signal: str = field(string, "StopSignal", default="")
    volumes: dict[str, object] = field(dict_of(lambda value, _: value), "Volumes", default=dict)


class StoredImage(Record):
    """An image as stored: `id` is the digest of its configuration, `tags` and `digests` are normalized references."""

    id: str = field(string)
    tags: list[str] = field(_strings, default=list)
    digests: list[str] = field(_strings, default=list)
    size: int = field(integer, default=0)
    config: ImageConfig = field(record(ImageConfig), default=ImageConfig)


class Images:
    """The images of a node: CRI's ImageService, and `load`."""

    are_required = False

    def __init__(self, folder: Path, in_use: Callable[[], set[str]] = set) -> None:
        """Take the node's folder; `in_use` returns the IDs of images that containers use."""
        self.folder = folder / "images"
        self._lock = folder / "images.lock"
        self._in_use = in_use

    def load(self, file: Path) -> list[Image]:
        """Store the images of a file; a tag moves from the image that had it. Raises RuntimeServiceError, OSError."""
        with self._scratch() as scratch:
            loaded = [self._load(image, scratch) for image in source_images(file, scratch)]
        if not loaded:
            raise RuntimeServiceError(f"{file}: no image in it")
        return loaded

    def list_images(self) -> list[Image]:
        """Return all images."""
        return [_message(image) for image in self._all()]

    def image_status(self, image: str) -> Image | None:
        """Return the image of a reference or an ID; None if there is none."""
        found = self.find(image)
        return None if found is None else _message(found)

    def pull_image(self, image: str) -> str:
        """Return the ID of an image that is here; nothing is fetched. Raises ImageNotFoundError."""
        found = self.find(image)
        if found is None:
            raise ImageNotFoundError(
                f'failed to pull image "{image}": this runtime fetches nothing from registries; load the image from '
                "a file with `cni-harness image load FILE`"
            )
        return found.id

    def remove_image(self, image: str) -> None:
        """Remove an image; a missing one is fine. Raises RuntimeServiceError if a container uses it."""
        with locked(self._lock):
            found = self.find(image)
            if found is None:
                return
            if found.id in self._in_use():
                raise RuntimeServiceError(f'image "{image}" is in use by a container')
            # Hidden first: a crash below leaves no image without some of its files.
            hidden = self.folder / f".removed-{self._path(found.id).name}-{os.urandom(4).hex()}"
            self._path(found.id).rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)

    def find(self, image: str) -> StoredImage | None:
        """Return the image of a reference, an ID or the beginning of one."""
        stored = list(self._all())
        name = normalized(image)
        for each in stored:
            if image == each.id or name in each.tags or name in each.digests:
                return each
        prefix = image.removeprefix(_DIGEST)
        matching = [each for each in stored if prefix and each.id.removeprefix(_DIGEST).startswith(prefix)]
        return matching[0] if len(matching) == 1 else None

    def rootfs(self, image_id: str) -> Path:
        """Return the folder with an image's files."""
        return self._path(image_id) / "rootfs"

    def recover(self) -> None:
        """Remove leftovers of crashed calls; no other call may be running."""
        with locked(self._lock):
            for path in self._paths():
                if path.name.startswith(".") or _read(path) is None:
                    shutil.rmtree(path, ignore_errors=True)

    def _load(self, source: SourceImage, scratch: Path) -> Image:
        layout = Path(tempfile.mkdtemp(dir=scratch))
        copy_to_layout(source, layout / "oci")
        index = json.loads((layout / "oci" / "index.json").read_bytes())
        digest = index["manifests"][0]["digest"]
        manifest = _blob(layout, digest)
        config_digest = manifest["config"]["digest"]
        image_id = source.id or config_digest
        tags = [normalized(tag) for tag in source.tags]
        sizes = [int(each["size"]) for each in (manifest["config"], *manifest["layers"])]
        image = StoredImage(
            id=image_id,
            tags=tags,
            digests=[f"{tag.rpartition(':')[0]}@{digest}" for tag in tags],
            size=sum(sizes),
            config=ImageConfig.decode(_blob(layout, config_digest).get("config") or {}, image_id),
        )
        new = layout / "image"
        new.mkdir()
        run_tool("umoci", "raw", "unpack", "--image", f"{layout / 'oci'}:{TAG}", str(new / "rootfs"))
        with locked(self._lock):
            self._take_tags(set(tags), image_id)
            known = _read(self._path(image_id))
            if known is None:
                _write(new, image)
                new.rename(self._path(image_id))
            else:
                image.tags = list(dict.fromkeys([*known.tags, *image.tags]))
                image.digests = list(dict.fromkeys([*known.digests, *image.digests]))
                _write(self._path(image_id), image)
        return _message(image)

    def _take_tags(self, tags: set[str], image_id: str) -> None:
        for other in self._all():
            if other.id != image_id and tags & set(other.tags):
                other.tags = [tag for tag in other.tags if tag not in tags]
                _write(self._path(other.id), other)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = Path(tempfile.mkdtemp(prefix=".load-", dir=self.folder))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _path(self, image_id: str) -> Path:
        return self.folder / image_id.removeprefix(_DIGEST)

    def _all(self) -> Iterator[StoredImage]:
        for path in self._paths():
            if not path.name.startswith(".") and (image := _read(path)) is not None:
                yield image

    def _paths(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []


def _message(image: StoredImage) -> Image:
    return Image(id=image.id, repo_tags=image.tags, repo_digests=image.digests, size=image.size, user=image.config.user)


def _blob(layout: Path, digest: str) -> dict[str, Any]:
    content = (layout / "oci" / "blobs" / digest.replace(":", "/")).read_bytes()
    document: dict[str, Any] = json.loads(content)
    return document


def _write(folder: Path, image: StoredImage) -> None:
    write_atomically(folder / "image.json", json.dumps(image.encode()).encode())


def _read(folder: Path) -> StoredImage | None:
    """Return the image of a folder; None if it is missing, or cannot be read."""
    try:
        return StoredImage.decode(json.loads((folder / "image.json").read_bytes()), str(folder))
    except (OSError, ValueError, CniError):
        return None


def normalized(reference: str) -> str:
    """Return `busybox` as `docker.io/library/busybox:latest`; with a digest, the tag is left out."""
    name, at, digest = reference.partition("@")
    first, slash, rest = name.partition("/")
    if not slash or not (set(first) & {".", ":"} or first == "localhost" or first != first.lower()):
        first, rest = _DOMAIN, name
    domain = _FAMILIAR.get(first, first)
    path, colon, tag = rest.rpartition(":")
    if not colon:
        path, tag = rest, "latest"
    if domain == _DOMAIN and "/" not in path:
        path = f"library/{path}"
    return f"{domain}/{path}@{digest}" if at else f"{domain}/{path}:{tag}"
