"""A container that starts again after a reboot has its reservations still, and gets them again."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipam.reservation import Boot
from tests.unit.host_local import SEAL, HostLocal

NS = 10**9


def before_this_boot(path: Path) -> None:
    """As of a program that marks nothing, two minutes before this boot."""
    moment = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 120 * NS
    os.utime(path, ns=(moment, moment - moment % NS))


def another_boot_s_mark(path: Path) -> None:
    """As ours of an earlier boot, on a machine whose clock has stood still since."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns ^ 1))


reboots = pytest.mark.parametrize("reboot", [before_this_boot, another_boot_s_mark])


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path)


def reboot_all(net: HostLocal, reboot: Callable[[Path], None]) -> None:
    """Have all reservations be of an earlier boot, and the seal too."""
    for address in net.reservations():
        reboot(net.folder / address)
    for sealed in (net.folder / ".owners", net.folder):
        os.utime(sealed, (SEAL ^ 1, SEAL ^ 1))


@reboots
@pytest.mark.parametrize("others", [0, 100])
def test_the_reservation_of_an_earlier_boot_is_taken_again(
    net: HostLocal, reboot: Callable[[Path], None], others: int
) -> None:
    for number in range(others):
        net.write(f"192.0.2.{number + 100}", f"other{number}\r\neth0")
    net.add("neighbour")
    given = net.add("pod")
    reboot_all(net, reboot)
    before = net.reservations()

    assert net.add("pod") == given
    assert net.reservations() == before
    assert net.is_sealed()
    assert net.fail("ADD", "pod")[0] == 100

    net.succeed("CHECK", "pod")
    net.succeed("DEL", "pod")

    assert "pod\r\neth0" not in net.reservations().values()
    assert len(net.reservations()) == len(before) - 2


@reboots
def test_an_address_that_was_asked_for_is_taken_again(net: HostLocal, reboot: Callable[[Path], None]) -> None:
    wanted: dict[str, Any] = {"runtimeConfig": {"ips": ["192.0.2.77"]}}
    given = net.add("pod", **wanted)
    reboot_all(net, reboot)

    assert net.add("pod", **wanted) == given


def test_another_interface_and_another_container_take_nothing(net: HostLocal) -> None:
    net.add("pod")
    reboot_all(net, before_this_boot)

    assert net.add("pod", "net1")[0] == "192.0.2.3"
    assert net.add("other")[0] == "192.0.2.4"


def test_a_requested_address_that_is_taken_names_its_holder(net: HostLocal) -> None:
    net.add("pod")

    code, message = net.fail("ADD", "third", runtimeConfig={"ips": ["192.0.2.2"]})

    assert code == 11
    assert message.startswith("requested address 192.0.2.2 is not available in ipam.ranges[0]")
    assert message.endswith(": it is reserved for eth0 of container pod")


def test_an_add_that_fails_keeps_nothing_of_an_earlier_boot(net: HostLocal) -> None:
    net.add("holder", runtimeConfig={"ips": ["2001:db8::77"]})
    net.add("pod")
    reboot_all(net, before_this_boot)

    assert net.fail("ADD", "pod", runtimeConfig={"ips": ["2001:db8::77"]})[0] == 11

    assert "192.0.2.3" not in net.reservations()
    net.succeed("DEL", "pod")
    assert set(net.reservations().values()) == {"holder\r\neth0"}


def test_a_clock_that_was_set_forward_makes_no_earlier_boot(net: HostLocal) -> None:
    """As when a machine without a battery learns the time after its first pods."""
    net.add("pod")
    for address in net.reservations():
        path = net.folder / address
        modified = path.stat().st_mtime_ns
        os.utime(path, ns=(modified, modified % NS + 1_000_000_000 * NS))

    assert net.fail("ADD", "pod")[0] == 100


def test_without_a_mark_the_time_of_this_boot_decides(net: HostLocal) -> None:
    net.write("192.0.2.9", "pod\r\neth0")

    assert net.fail("ADD", "pod")[0] == 100

    before_this_boot(net.folder / "192.0.2.9")

    assert net.add("pod")[0] == "192.0.2.9"


def test_an_entry_without_an_interface_is_of_no_certain_attachment(net: HostLocal) -> None:
    net.write("192.0.2.9", "pod")
    before_this_boot(net.folder / "192.0.2.9")

    assert net.fail("ADD", "pod")[0] == 100


def test_boot_mark_keeps_the_second_of_the_file_time(tmp_path: Path) -> None:
    marked = tmp_path / "marked"
    marked.touch()
    before = time.time_ns()
    Boot.read().mark(str(marked))

    assert before // NS <= marked.stat().st_mtime_ns // NS <= time.time_ns() // NS
    assert Boot.read().number is not None
