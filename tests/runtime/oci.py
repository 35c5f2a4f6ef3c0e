"""Container images made of this machine's files: no registry is asked for any.

An archive is what `ctr images import` reads: a tar of an OCI image layout (image-spec, image-layout.md), of one layer.
"""

import io
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tools.release.archives import write_image

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
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = {"config": {"Cmd": command, "Env": ["PATH=/bin"]}}
    write_image(path, name, _layer(files), config, architecture)
    return path


def _layer(files: Mapping[str, bytes | str]) -> bytes:
    """A tar of `files`; text is the target of a symbolic link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        for name, content in files.items():
            if isinstance(content, bytes):
                _add(layer, name, content)
                continue
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, content
            layer.addfile(link)
    return stream.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), 0o755
    archive.addfile(file, io.BytesIO(content))
