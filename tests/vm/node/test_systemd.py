"""The server as systemd runs it, from the installation to its end."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from launch.installation import DEFAULT_SOCKET
from tests.nodes import until
from tests.vm.node.installation import BIN_DIR, SERVICE, SOCKET, Installation

UNITS = [Path("/etc/systemd/system", name) for name in (SOCKET, SERVICE)]


def test_install_has_systemd_listen_and_start_nothing_yet(fresh: Installation) -> None:
    assert fresh.state(SOCKET) == "active"
    assert (fresh.state(SERVICE), fresh.server()) == ("inactive", 0)
    assert Path(DEFAULT_SOCKET).is_socket()
    assert fresh.run("systemctl", "is-enabled", SOCKET) == "enabled\n"


def test_the_first_add_starts_the_server_and_the_second_uses_it(fresh: Installation) -> None:
    fresh.harness("add", "one")
    server = fresh.server()

    assert fresh.state(SERVICE) == "active"
    # The launcher waits for two seconds, and then executes the plugin: on a slow machine the server comes later.
    until(fresh.is_serving)

    fresh.harness("add", "two")
    assert fresh.server() == server
    fresh.harness("check")
    fresh.harness("exec", "one", "--", "ping", "-c", "1", "-W", "5", "10.86.0.1")


def test_a_server_that_was_killed_is_followed_by_another(fresh: Installation) -> None:
    fresh.plugin("bridge", CNI_COMMAND="VERSION")
    killed = fresh.server()
    assert killed != 0
    os.kill(killed, 9)
    until(lambda: fresh.server() != killed)

    fresh.harness("add", "one")
    assert fresh.state(SERVICE) == "active"
    assert fresh.server() not in {0, killed}


def test_a_server_that_cannot_start_for_a_while_is_not_given_up(fresh: Installation) -> None:
    """As while its code is replaced: more often than systemd has patience for by itself."""
    fresh.plugin("bridge", CNI_COMMAND="VERSION")
    # On a slow machine the launcher has answered by itself, and the server would lack the code that is about to go.
    until(fresh.is_serving)
    starts = set()

    def has_failed_often() -> bool:
        starts.add(fresh.start_time())
        return len(starts) > 6

    with ThreadPoolExecutor(1) as threads:
        with fresh.without_server_code():
            if server := fresh.server():
                with suppress(ProcessLookupError):  # on a slow machine it may end by itself meanwhile
                    os.kill(server, 9)
            waiting = threads.submit(fresh.plugin, "bridge", CNI_COMMAND="VERSION")
            until(has_failed_often)
        assert waiting.result()["cniVersion"] == "1.1.0"

    fresh.plugin("bridge", CNI_COMMAND="VERSION")
    assert (fresh.state(SOCKET), fresh.state(SERVICE)) == ("active", "active")


def test_install_brings_back_a_server_that_was_given_up(fresh: Installation) -> None:
    drop_in = Path("/run/systemd/system", f"{SERVICE}.d", "limit.conf")
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Unit]\nStartLimitBurst=2\n")
    fresh.run("systemctl", "daemon-reload")
    with fresh.without_server_code():
        fresh.plugin("bridge", CNI_COMMAND="VERSION")
        until(lambda: (fresh.state(SOCKET), Path(DEFAULT_SOCKET).exists()) == ("failed", False))

    fresh.install()
    assert fresh.state(SOCKET) == "active"
    fresh.plugin("bridge", CNI_COMMAND="VERSION")
    assert fresh.state(SERVICE) == "active"
    shutil.rmtree(drop_in.parent)


def test_an_upgrade_in_place_gets_a_server_of_its_own(fresh: Installation) -> None:
    fresh.harness("add", "one")
    before, launcher = fresh.server(), (BIN_DIR / "bridge").read_bytes()
    fresh.upgrade("one")
    # Between the new code and the installation of its launchers, too, a pod can come.
    fresh.harness("add", "between")
    fresh.install()
    assert (BIN_DIR / "bridge").read_bytes() != launcher
    assert fresh.state(SOCKET) == "active"

    fresh.harness("add", "two")
    assert fresh.server() not in {0, before}
    assert not Path(f"/proc/{before}").exists()
    fresh.harness("check")
    fresh.harness("del", "--all")
    assert fresh.pods() == []


def test_no_plugin_fails_while_an_upgrade_is_going_on(fresh: Installation) -> None:
    fresh.plugin("bridge", CNI_COMMAND="VERSION")
    fresh.upgrade("two")
    with ThreadPoolExecutor(3) as threads:
        upgrade = threads.submit(fresh.install)
        callers = [threads.submit(versions_until, fresh, upgrade.done) for _ in range(2)]

        upgrade.result()
        assert all(caller.result() > 0 for caller in callers)


def versions_until(installation: Installation, is_over: Callable[[], bool]) -> int:
    """Ask for versions, at least once after it is over; return how often."""
    asked = 0
    last = False
    while not last:
        last = is_over()
        assert installation.plugin("bridge", CNI_COMMAND="VERSION")["cniVersion"] == "1.1.0"
        asked += 1
    return asked


def test_uninstall_leaves_nothing(fresh: Installation) -> None:
    fresh.harness("add", "one")
    server = fresh.server()
    assert Path(f"/proc/{server}").exists()
    fresh.harness("del", "--all", "--prune")
    fresh.harness("uninstall")

    assert not Path(f"/proc/{server}").exists()
    assert not Path(DEFAULT_SOCKET).exists()
    assert not any(unit.exists() for unit in UNITS)
    assert [fresh.unit(name)["LoadState"] for name in (SOCKET, SERVICE)] == ["not-found", "not-found"]
    assert not BIN_DIR.exists() or list(BIN_DIR.iterdir()) == []
    assert fresh.run("systemctl", "--failed", "--no-legend", "--plain") == ""
    assert fresh.run("ip", "-o", "link", "show", "type", "bridge") == ""
