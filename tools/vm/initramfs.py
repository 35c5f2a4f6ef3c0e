"""The initramfs: busybox, the modules without which there is no root, and init.sh."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools.vm.kernel import Kernel

_MODULES: Final = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_MOUNT_POINTS: Final = ("dev", "proc", "lower", "upper", "root")


def make_initramfs(kernel: Kernel, folder: Path, command: str) -> Path:
    """Write the archive into `folder` and return its path; `command` is executed on the root."""
    tree = folder / "initramfs"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "modules", *_MOUNT_POINTS):
        (tree / name).mkdir(parents=True)
    busybox = tree / "bin" / "busybox"
    shutil.copy2(shutil.which("busybox") or "/bin/busybox", busybox)
    for applet in ("cat", "insmod", "mkdir", "mount", "sh", "switch_root", "uname"):
        (tree / "bin" / applet).symlink_to("busybox")
    modules = kernel.files_of(*_MODULES)
    for module in modules:
        shutil.copy2(module, tree / "modules")
    (tree / "modules" / "order").write_text("".join(f"{module.name}\n" for module in modules))
    (tree / "next").write_text(command)
    shutil.copy2(Path(__file__).with_name("init.sh"), tree / "init")
    (tree / "init").chmod(0o755)
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    archive = folder / "initramfs.cpio"
    with archive.open("wb") as file:
        pack = ["cpio", "--create", "--quiet", "--format=newc"]
        subprocess.run(pack, cwd=tree, input=names.encode(), stdout=file, check=True)
    return archive
