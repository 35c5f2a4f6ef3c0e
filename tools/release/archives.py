"""Archives with the same bytes for the same files: sorted, of root's, and of one time."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any, Final

_LEVEL: Final = 6
"""Of gzip; its highest takes three times as long for an image."""


def build_time() -> int:
    """Return the time of what is built, in seconds since 1970: SOURCE_DATE_EPOCH, which `make release` sets, or 0."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def tar_of(folder: Path, prefix: str = "") -> bytes:
    """Return a tar of all below a folder, their names after `prefix`. Raises OSError."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            member = archive.gettarinfo(path, prefix + str(path.relative_to(folder)))
            _add(archive, member, path.read_bytes() if member.isreg() else b"")
    return stream.getvalue()


def same_bytes(source: Path) -> bytes:
    """Return the members of a tar, compressed or not, as a tar of root's files. Raises OSError, tarfile.TarError."""
    stream = io.BytesIO()
    with (
        tarfile.open(source) as found,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for member in sorted(found, key=lambda member: member.name):
            content = found.extractfile(member) if member.isreg() else None
            member.pax_headers = {}
            _add(archive, member, content.read() if content else b"")
    return stream.getvalue()


def compressed(content: bytes) -> bytes:
    """Return the content in gzip's form, without a name and a time."""
    return gzip.compress(content, _LEVEL, mtime=0)


def write_image(path: Path, name: str, layer: bytes, config: dict[str, Any], architecture: str) -> None:
    """Write a container image: an OCI layout (image-spec, image-layout.md) with one layer, as a tar.

    `layer` is a tar, `config` is what containers of the image run with, `name` has registry and tag. Raises OSError.
    """
    system = {"architecture": architecture, "os": "linux"}
    layer_blob = compressed(layer)
    described = _json(system | {"rootfs": {"type": "layers", "diff_ids": [_digest(layer)]}} | config)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", described),
            "layers": [_descriptor("layer.v1.tar+gzip", layer_blob)],
        }
    )
    # containerd reads the first, skopeo and Podman the second.
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    entry = _descriptor("manifest.v1+json", manifest) | {"annotations": names, "platform": system}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
    } | {_digest(blob).replace("sha256:", "blobs/sha256/"): blob for blob in (layer_blob, described, manifest)}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(file)
            member.size, member.mode = len(content), 0o644
            _add(archive, member, content)


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, content: bytes) -> None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = build_time()
    archive.addfile(member, io.BytesIO(content))


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
