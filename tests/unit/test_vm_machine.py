"""Virtual machines are watched and ended in time: tools.vm with programs in the place of the emulator and of apt."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.nodes import HANG
from tools.vm import machine
from tools.vm.kernel import Kernel
from tools.vm.machine import NEVER_UP, OUT_OF_TIME, Machine

# Reads its arguments as qemu does, and goes on with the test's commands.
EMULATOR = """#!/bin/bash
echo $$ >> {folder}/started
for argument; do
    case $argument in
        file:*) console=${{argument#file:}} ;;
        q35,accel=*) accelerator=${{argument#*=}} ;;
    esac
done
exec > "$console"
{script}
"""

UP = "echo vm: the guest is up\n"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a machine whose emulator goes on with a script, where KVM is there to be tried or is not."""
    monkeypatch.setattr(machine, "_SECONDS_TO_COME_UP", {"kvm": 0.5, "tcg": HANG})
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(script: str, *, kvm: bool = False) -> Machine:
        monkeypatch.setattr(machine, "accelerators", lambda: ["kvm", "tcg"] if kvm else ["tcg"])
        emulator = tmp_path / "qemu-system-x86_64"
        emulator.write_text(EMULATOR.format(folder=tmp_path, script=script.format(folder=tmp_path)))
        emulator.chmod(0o755)
        kernel = Kernel("6.1.0", tmp_path)
        return Machine("m", kernel, tmp_path / "initramfs", Path("/"), tmp_path, tmp_path / "console.log")

    return make


def started(folder: Path) -> list[str]:
    """The process IDs of the emulators that there were."""
    return (folder / "started").read_text().split()


def test_the_exit_code_and_the_log_are_brought_back(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(f"{UP}echo one; printf two; echo 42 > {{folder}}/exit-code")

    assert made.run(HANG) == 42
    assert made.console.read_text() == "vm: the guest is up\none\ntwo"
    assert [line for line in capsys.readouterr().out.splitlines() if " after " not in line] == [
        "m: vm: the guest is up",
        "m: one",
        "m: two",
    ]


def test_network_cards_are_on_a_wire_without_another_machine(make: Any, tmp_path: Path) -> None:
    script = f'printf "%s\\n" "$@" > {{folder}}/arguments; {UP}echo 0 > {{folder}}/exit-code'
    cards = {"52:54:00:00:00:01": "virtio-net-pci", "52:54:00:00:00:02": "e1000"}

    assert make(script)._replace(network_cards=cards).run(HANG) == 0

    arguments = (tmp_path / "arguments").read_text().splitlines()
    options = {
        name: tuple(value for key, value in itertools.pairwise(arguments) if key == name)
        for name in ("-nic", "-netdev", "-device")
    }
    assert options == {
        "-nic": ("none",),
        "-netdev": ("hubport,hubid=0,id=wire0", "hubport,hubid=0,id=wire1"),
        "-device": (
            "virtio-net-pci,netdev=wire0,mac=52:54:00:00:00:01,romfile=",
            "e1000,netdev=wire1,mac=52:54:00:00:00:02,romfile=",
        ),
    }


def test_an_exit_code_of_the_run_before_does_not_count(make: Any, tmp_path: Path) -> None:
    (tmp_path / "exit-code").write_text("0\n")

    assert make(UP).run(HANG) == 1


def test_kvm_that_hangs_is_given_up_for_emulation(
    make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(f"[ $accelerator = tcg ] || exec sleep 1d\n{UP}echo 0 > {{folder}}/exit-code", kvm=True)

    assert made.run(HANG) == 0
    assert len(started(tmp_path)) == 2
    assert "by kvm" in capsys.readouterr().out


def test_a_guest_that_never_comes_up_is_an_error(make: Any) -> None:
    assert make("echo Kernel panic").run(HANG) == NEVER_UP


def test_a_guest_that_takes_too_long_is_ended(make: Any, tmp_path: Path) -> None:
    assert make(f"{UP}exec sleep 1d").run(1) == OUT_OF_TIME

    (pid,) = started(tmp_path)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("flags", "device", "expected"),
    [
        ("fpu vme vmx aes", "cpuinfo", ["kvm", "tcg"]),
        ("fpu svm", "cpuinfo", ["kvm", "tcg"]),
        ("fpu vme svme aes", "cpuinfo", ["tcg"]),
        ("fpu vmx", "none", ["tcg"]),
    ],
)
def test_kvm_is_tried_on_processors_with_virtualization(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, device: str, expected: list[str]
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: svm vmx\n")
    monkeypatch.setattr(machine, "_CPUINFO", cpuinfo)
    monkeypatch.setattr(machine, "_KVM", tmp_path / device)

    assert machine.accelerators() == expected
