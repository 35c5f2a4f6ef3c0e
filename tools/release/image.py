"""The container image: `python -m tools.release.image` writes build/cni-harness-image-VERSION.tar.

It has the files of this project's Debian package, and of a few of Debian's with their dependencies. No package is
configured, so it has no user, cache or log of an installation.
"""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tools.release.archives import build_time, tar_of, write_image

BUILD: Final = Path(__file__).parents[2] / "build"
DEBIAN: Final = "bookworm"
"""The release of Debian in the image, on whichever release it is built."""
PACKAGES: Final = ("base-files", "busybox-static", "iproute2", "nftables", "python3")
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
# Scanners read packages of images without dpkg there.
_NOTE_PACKAGES: Final = (
    'mkdir -p "$1/var/lib/dpkg/status.d"; for deb in "$1"/var/cache/apt/archives/*.deb; do '
    'dpkg-deb --field "$deb" >"$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"; done'
)
# The shell's commands, as far as no package has them. The bytecode is for images on read-only storage; no file in an
# image changes, so Python is not to compare times.
_FINISH: Final = f"""
set -e
export PATH={_PATH}
/bin/busybox --install -s
cni-harness install --no-units --bin-dir /opt/cni/bin --state-dir /var/lib/cni-harness >/dev/null
python3 -I -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.* /usr/lib/cni-harness
"""
_USERS: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
_LEFT_OUT: Final = (
    # of the machine that builds, or for dpkg, apt and services
    *("boot", "dev/*", "etc/apt", "etc/cron.daily", "etc/fstab", "etc/hostname", "etc/logrotate.d", "etc/resolv.conf"),
    *("lib/systemd", "var/cache/*", "var/lib/apt", "var/lib/dpkg/[!s]*", "var/lib/dpkg/status", "var/log/*"),
    "var/lib/cni-harness/install.lock",
    # documents, but for licenses
    *("usr/share/[!cd]*", "usr/share/doc/*/[!c]*", "usr/share/doc/*/changelog*", "usr/share/doc-base"),
    "usr/share/debconf",
)


def main() -> int:
    """Build it, and print its path. Raises OSError, subprocess.CalledProcessError, ValueError without one package."""
    [package] = BUILD.glob("cni-harness_*.deb")
    _, version, architecture = package.stem.split("_")
    version = version.partition("-")[0]  # without Debian's revision
    path = BUILD / f"cni-harness-image-{version}.tar"
    with TemporaryDirectory(prefix="cni-harness-image-") as folder:
        root = Path(folder, "root")
        _fill(root, package)
        write_image(path, f"localhost/cni-harness:{version}", tar_of(root), configuration(version), architecture)
    sys.stdout.write(f"{path}\n")
    return 0


def configuration(version: str) -> dict[str, Any]:
    """Return the image's configuration (image-spec, config.md). GIT_COMMIT names the commit, if it is set."""
    created = datetime.fromtimestamp(build_time(), UTC).isoformat().replace("+00:00", "Z")
    labels = {
        "title": "cni-harness",
        "description": "Container network plugins (CNI 1.1.0), a runtime to try them, and a conformance suite",
        "version": version,
        "revision": os.environ.get("GIT_COMMIT", ""),
        "created": created,
    }
    run = {
        "Entrypoint": ["/usr/bin/cni-harness"],
        "Cmd": ["--help"],
        "Env": [f"PATH={_PATH}", "LC_ALL=C.UTF-8"],
        "Labels": {f"org.opencontainers.image.{key}": value for key, value in labels.items() if value},
    }
    return {"created": created, "config": run}


def _fill(root: Path, package: Path) -> None:
    """Write the files of the image. Raises OSError, subprocess.CalledProcessError."""
    options = ["--mode=root", "--variant=extract", "--quiet", f"--include={','.join(PACKAGES)}"]
    # Its mounts must not outlive it.
    _run("unshare", "--mount", "--", "mmdebstrap", *options, f"--extract-hook={_NOTE_PACKAGES}", DEBIAN, str(root))
    _run("dpkg-deb", "--extract", str(package), str(root))
    for name, content in _USERS.items():
        (root / name).write_text(content)
    own = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root / 'proc'}"]
    _run(*own, "chroot", str(root), "/bin/busybox", "sh", "-c", _FINISH)
    for pattern in _LEFT_OUT:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    root.chmod(0o755)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
