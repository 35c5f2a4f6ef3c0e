"""Container images made of this machine's files: no registry is asked for any.

An archive is what `ctr images import` reads: a tar of an OCI image layout (image-spec, image-layout.md), of one layer.
"""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAUSE = "images.test/pause:1"
BUSYBOX = "images.test/busybox:1"

_BUSYBOX = Path("/bin/busybox")
"""Of Debian's busybox-static."""
_APPLETS = ("cat", "httpd", "ip", "ping", "ping6", "sh", "sleep", "stty", "wget")
_PAUSE_PROGRAM = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pause_archive(folder: Path) -> Path:
    """Write the image of a pod's first process, which does nothing; return the archive's path."""
    program = folder / "pause"
    subprocess.run(
        ["cc", "-static", "-Os", "-s", "-x", "c", "-o", program, "-"], input=_PAUSE_PROGRAM, text=True, check=True
    )
    return _archive(folder / "pause.tar", PAUSE, {"pause": program.read_bytes()}, ["/pause"])


def busybox_archive(folder: Path) -> Path:
    """Write the image of a container with busybox and a few names for it; return the archive's path."""
    files: dict[str, bytes | str] = {"bin/busybox": _BUSYBOX.read_bytes()}
    files |= {f"bin/{applet}": "busybox" for applet in _APPLETS}
    return _archive(folder / "busybox.tar", BUSYBOX, files, ["/bin/sh"])


def _archive(path: Path, name: str, files: Mapping[str, bytes | str], command: list[str]) -> Path:
    layer = _layer(files)
    system = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    config = _json(
        system
        | {
            "config": {"Cmd": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer)],
        }
    )
    named = {"annotations": {"io.containerd.image.name": name}, "platform": system}
    index = _json({"schemaVersion": 2, "manifests": [_descriptor("manifest.v1+json", manifest) | named]})
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", index)
        for blob in (layer, config, manifest):
            _add(archive, _digest(blob).replace("sha256:", "blobs/sha256/"), blob)
    return path


def _layer(files: Mapping[str, bytes | str]) -> bytes:
    """A tar of `files`; text is the target of a symbolic link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        for name, content in files.items():
            if isinstance(content, bytes):
                _add(layer, name, content, mode=0o755)
                continue
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, content
            layer.addfile(link)
    return stream.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), mode
    archive.addfile(file, io.BytesIO(content))


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(document: object) -> bytes:
    return json.dumps(document).encode()
