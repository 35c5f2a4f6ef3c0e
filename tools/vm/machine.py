"""One virtual machine: booted, watched, and ended within a time that is set."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

__all__ = ["NEVER_UP", "OUT_OF_TIME", "Machine", "accelerators"]

OUT_OF_TIME: Final = 124
"""Exit code of what was ended because it took too long, as timeout(1) has it."""
NEVER_UP: Final = 125

_UP: Final = "vm: the guest is up"
_MEBIBYTES: Final = 2048
_SECONDS_TO_COME_UP: Final = {"kvm": 30, "tcg": 300}
_LOOK_AGAIN_SECONDS: Final = 0.2


class Machine(NamedTuple):
    """What is booted, and what the guest is given. It has no network."""

    name: str
    image: Path
    initramfs: Path
    root: Path
    """The guest's root, to be read; what it writes there is its own, and gone with it."""
    exchange: Path
    """Both sides' folder: the guest leaves its exit code there, in `exit-code`."""
    console: Path
    """The log."""

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
            subprocess.Popen(self._command(accelerator), stdin=subprocess.DEVNULL) as process,
        ):
            try:
                said = ""
                for text in _output(process, console, began + _SECONDS_TO_COME_UP[accelerator]):
                    self._show(text)
                    said += text
                    if _UP in said:
                        break
                else:
                    self._show(f"\nvm: not up after {time.monotonic() - began:.0f} s, by {accelerator}\n")
                    return NEVER_UP
                self._show(f"\nvm: up after {time.monotonic() - began:.0f} s, by {accelerator}\n")
                for text in _output(process, console, deadline):
                    self._show(text)
                self._show(f"\nvm: over after {time.monotonic() - began:.0f} s\n")
                return OUT_OF_TIME if process.poll() is None else 1
            finally:
                process.kill()

    def _command(self, accelerator: str) -> list[str]:
        # One processor is faster than two, and the guest needs no defence against itself.
        parameters = "console=ttyS0 loglevel=4 panic=-1 mitigations=off random.trust_cpu=on"
        shares = {"root": f"path={self.root},readonly=on", "exchange": f"path={self.exchange}"}
        virtfs = [f"local,mount_tag={tag},security_model=none,multidevs=remap,{rest}" for tag, rest in shares.items()]
        return [
            *("qemu-system-x86_64", "-name", self.name, "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-machine", f"q35,accel={accelerator}", "-cpu", "max", "-smp", "1", "-m", str(_MEBIBYTES)),
            *("-display", "none", "-nic", "none", "-serial", f"file:{self.console}"),
            *(argument for share in virtfs for argument in ("-virtfs", share)),
            *("-kernel", str(self.image), "-initrd", str(self.initramfs), "-append", parameters),
        ]

    def _show(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def accelerators() -> list[str]:
    """What to try, in this order: KVM may open and still hang where the processor has nothing for it."""
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return ["kvm", "tcg"] if flags and os.access("/dev/kvm", os.R_OK | os.W_OK) else ["tcg"]


def _output(process: subprocess.Popen[bytes], console: IO[str], deadline: float) -> Iterator[str]:
    """Yield what the console says, until the machine has ended or the time is over."""
    while True:
        ended = process.poll() is not None
        yield console.read()
        if ended or time.monotonic() > deadline:
            return
        time.sleep(_LOOK_AGAIN_SECONDS)
