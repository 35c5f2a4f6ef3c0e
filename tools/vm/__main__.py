"""Run tests of this checkout in virtual machines: `python -m tools.vm [--limit SECONDS] -- ARGUMENT...` of pytest's."""

import shlex
import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from tools.vm.initramfs import make_initramfs
from tools.vm.kernel import debian_kernel
from tools.vm.machine import Machine

__all__ = ["main"]

_CHECKOUT: Final = Path(__file__).parents[2]
_BUILD: Final = _CHECKOUT / "build"


def main() -> int:
    """Boot, wait, and return the exit code of pytest in the guest."""
    parser = ArgumentParser(prog="python -m tools.vm", description=__doc__)
    parser.add_argument("--limit", type=float, default=900.0, metavar="SECONDS", help="for the whole  [%(default)s]")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    options = parser.parse_args()
    folder = _BUILD / "vm"
    kernel = debian_kernel(folder / "cache")
    exchange = folder / "exchange"
    shutil.rmtree(exchange, ignore_errors=True)
    exchange.mkdir(parents=True)
    guest = [_CHECKOUT / "tools" / "vm" / "guest.sh", sys.executable, _CHECKOUT, kernel.modules, *options.arguments]
    (exchange / "job").write_text(f"exec {shlex.join(map(str, guest))}\n")
    machine = Machine(
        name="cni-harness",
        image=kernel.image,
        initramfs=make_initramfs(kernel, folder, "/bin/bash /vm/job"),
        root=Path("/"),
        exchange=exchange,
        console=folder / "tests.log",
    )
    code = machine.run(options.limit)
    junit = exchange / "junit.xml"
    if junit.exists():
        shutil.copy2(junit, _BUILD / "junit-vm.xml")
    sys.stdout.write(f"vm: exit code {code}, log {machine.console}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
