"""One virtual machine: booted, watched, and ended within a time that is set."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

from tools.vm.kernel import Kernel

OUT_OF_TIME: Final = 124
"""Exit code of a command that took too long, as of timeout(1)."""
NEVER_UP: Final = 125

_UP: Final = "vm: the guest is up"
_CPUINFO: Final = Path("/proc/cpuinfo")
_KVM: Final = Path("/dev/kvm")
# Page tables of five levels and checks of each access make the emulation a sixth slower; "max" has these.
_PROCESSORS: Final = {"kvm": "max", "tcg": "Nehalem,+rdrand"}
_MEBIBYTES: Final = 2048
_SECONDS_TO_COME_UP: Final = {"kvm": 30, "tcg": 300}
_LOOK_AGAIN_SECONDS: Final = 0.2


class Machine(NamedTuple):
    """Kernel and root to boot, and the folder that the guest shares with the host. No packet leaves it."""

    name: str
    kernel: Kernel
    initramfs: Path
    root: Path
    """The guest's root, to be read; its own writes are gone with it."""
    exchange: Path
    """Both sides' folder: the guest leaves its exit code there, in `exit-code`."""
    console: Path
    """The log."""
    parameters: str = ""
    """The kernel's, besides those of all machines."""
    network_cards: Mapping[str, str] = {}
    """The MAC addresses of its network cards, and the device that QEMU emulates for each.

    They are on a wire of their own, which no other machine is on.
    """

    def run(self, limit: float) -> int:
        """Boot it and wait, `limit` seconds at most, for its end; return the exit code that it left."""
        deadline = time.monotonic() + limit
        exit_code = self.exchange / "exit-code"
        exit_code.unlink(missing_ok=True)
        code = NEVER_UP
        for accelerator in accelerators():
            code = self._attempt(accelerator, deadline)
            if code != NEVER_UP:
                break
        return int(exit_code.read_text()) if exit_code.exists() else code

    def _attempt(self, accelerator: str, deadline: float) -> int:
        began = time.monotonic()
        self.console.write_text("")
        with (
            self.console.open(errors="replace") as console,
            subprocess.Popen(self._emulator(accelerator), stdin=subprocess.DEVNULL) as process,
        ):
            try:
                for line in _lines(process, console, began + _SECONDS_TO_COME_UP[accelerator]):
                    self._say(line)
                    if _UP in line:
                        break
                else:
                    self._say(f"not up after {time.monotonic() - began:.0f} s, by {accelerator}")
                    return NEVER_UP
                self._say(f"up after {time.monotonic() - began:.0f} s, by {accelerator}")
                for line in _lines(process, console, deadline):
                    self._say(line)
                self._say(f"over after {time.monotonic() - began:.0f} s")
                return OUT_OF_TIME if process.poll() is None else 1
            finally:
                process.kill()

    def _emulator(self, accelerator: str) -> list[str]:
        # One processor is faster than two, and the guest needs no defence against itself.
        parameters = f"console=ttyS0 loglevel=4 panic=-1 mitigations=off random.trust_cpu=on {self.parameters}"
        shares = {
            "root": f"path={self.root},readonly=on",
            "modules": f"path={self.kernel.modules},readonly=on",
            "exchange": f"path={self.exchange}",
        }
        virtfs = [f"local,mount_tag={tag},security_model=none,multidevs=remap,{rest}" for tag, rest in shares.items()]
        return [
            # It does not outlive whoever started it, whatever happens to that.
            *("setpriv", "--pdeathsig", "KILL", "--"),
            *("qemu-system-x86_64", "-name", self.name, "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-machine", f"q35,accel={accelerator}", "-cpu", _PROCESSORS[accelerator]),
            *("-smp", "1", "-m", str(_MEBIBYTES)),
            *("-display", "none", "-nic", "none", "-serial", f"file:{self.console}"),
            *(argument for share in virtfs for argument in ("-virtfs", share)),
            *_wired(self.network_cards),
            *("-kernel", str(self.kernel.image), "-initrd", str(self.initramfs), "-append", parameters),
        ]

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{self.name}: {line}\n")
        sys.stdout.flush()


def accelerators() -> list[str]:
    """What to try, in this order: KVM may open and still hang where the processor has nothing for it."""
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", _CPUINFO.read_text(), re.MULTILINE)
    return ["kvm", "tcg"] if flags and os.access(_KVM, os.R_OK | os.W_OK) else ["tcg"]


def _wired(network_cards: Mapping[str, str]) -> list[str]:
    """Return the options for network cards that are on one hub, with nothing else on it."""
    options = []
    for number, (mac, device) in enumerate(network_cards.items()):
        options += ["-netdev", f"hubport,hubid=0,id=wire{number}"]
        options += ["-device", f"{device},netdev=wire{number},mac={mac},romfile="]
    return options


def _lines(process: subprocess.Popen[bytes], console: IO[str], deadline: float) -> Iterator[str]:
    """Yield the lines of the console, until the machine has ended or the time is over."""
    begun = ""
    while True:
        ended = process.poll() is not None
        while chunk := console.readline():
            begun += chunk
            if begun.endswith("\n"):
                yield begun.rstrip()
                begun = ""
        if ended or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_AGAIN_SECONDS)
    if begun:
        yield begun
