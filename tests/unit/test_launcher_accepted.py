"""A launcher whose request the server has accepted never executes the plugin a second time."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from launch.server.protocol import GO, PIECE_BYTES, encode_answer
from tests.launchers import VERSION, Conversation, Installed, Script, is_stopped, ran_directly, serve
from tests.nodes import HANG, until, with_enough_time

DIED = {"cniVersion": "1.1.0", "code": 999, "msg": "the server's worker died while it ran the plugin"}


def die(talk: Conversation) -> None:
    talk.accept()


@pytest.mark.mostly_slow(2, "it waits; each launcher")
def test_an_execution_may_take_longer_than_the_timeout_of_the_queue(installed: Installed) -> None:
    timeout = 0.0

    def script(talk: Conversation) -> None:
        try:
            talk.accept()
        except (AssertionError, OSError):  # left already
            return
        assert not talk.says_something(within=2 * timeout)
        talk.finish(43)

    def run(seconds: float) -> subprocess.CompletedProcess[bytes] | None:
        nonlocal timeout
        timeout = seconds
        ran = installed.run(path=installed.write("loopback", timeout=timeout))
        return None if ran_directly(ran) else ran

    with installed.serving(script):
        assert with_enough_time(run).returncode == 43


def late_garbage(talk: Conversation) -> None:
    talk.accept()
    talk.connection.send(GO)
    assert talk.rest() == []


def short_end(talk: Conversation) -> None:
    talk.accept()
    (packet,) = encode_answer(0, b"", b"")
    talk.connection.send(packet[:-1])
    assert talk.rest() == []


@pytest.mark.parametrize("script", [die, late_garbage, short_end])
def test_death_of_the_worker_is_an_error_without_a_retry(installed: Installed, script: Script) -> None:
    with installed.serving(script) as server:
        ran = installed.run()

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout) == DIED
    assert len(server.talks) == 1


def test_a_worker_that_dies_while_it_answers_has_the_only_document(installed: Installed) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        talk.connection.send(b'O{"cniVersion": ')

    with installed.serving(script):
        ran = installed.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (1, b'{"cniVersion": ', b"")


@pytest.mark.parametrize("size", [PIECE_BYTES - 100, 20 * PIECE_BYTES + 1])
def test_an_answer_may_be_of_any_length(installed: Installed, size: int) -> None:
    log, result = b"l" * 100, bytes(range(256)) * (size // 256)

    def script(talk: Conversation) -> None:
        talk.accept()
        talk.finish(43, log, result)

    with installed.serving(script):
        ran = installed.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (43, result, log)


@pytest.mark.parametrize(("code", "expected"), [(0, 1), (43, 43)])
@pytest.mark.parametrize("size", [10, 3 * PIECE_BYTES])
def test_an_answer_that_cannot_be_written_is_no_success(
    installed: Installed, size: int, code: int, expected: int
) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        talk.finish(code, b"logged\n", b"x" * size)

    with installed.serving(script):
        full = installed.run(redirection=">/dev/full")
        closed = installed.run(redirection=">&-")

    for ran, error in ((full, errno.ENOSPC), (closed, errno.EBADF)):
        assert ran.returncode == expected
        assert re.fullmatch(rb"logged\nbridge: writing to stdout: .*%d\b.*\n" % error, ran.stderr), ran.stderr


def test_without_an_answer_a_closed_stdout_is_no_failure(installed: Installed) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        talk.finish(0, b"logged")

    with installed.serving(script):
        ran = installed.run(redirection=">&-")

    assert (ran.returncode, ran.stderr) == (0, b"logged")


def test_a_log_that_cannot_be_written_is_lost_and_the_answer_is_not(installed: Installed) -> None:
    with installed.serving(serve):
        ran = installed.run(redirection="2>/dev/full")

    assert (ran.returncode, ran.stdout) == (43, b"served ")


def test_broken_pipe_on_stdout_is_exit_code_1(installed: Installed) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    with installed.serving(die), os.fdopen(writer, "wb") as pipe:
        ran = subprocess.run([installed.path], env=VERSION, stdout=pipe, timeout=HANG, check=False)

    assert ran.returncode == 1


def test_error_with_closed_stdout_is_not_written_elsewhere(installed: Installed) -> None:
    """Least of all to the server, by a connection that has got its number."""
    with installed.serving(late_garbage):
        ran = installed.run(redirection=">&-")

    assert (ran.returncode, ran.stdout, ran.stderr) == (1, b"", b"")


# --- signals


def finish(talk: Conversation) -> None:
    talk.finish(1, stdout=b"ended")


def give_up(talk: Conversation) -> None:
    talk.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(("end", "stdout"), [(finish, b"ended"), (give_up, b"")])
def test_a_signal_ends_the_worker_and_then_the_launcher(
    installed: Installed, number: signal.Signals, end: Script, stdout: bytes
) -> None:
    said = []

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, number)
        said.append(talk.connection.recv(10))
        for other in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(talk.pid, other)
        assert not talk.says_something()
        end(talk)

    with installed.serving(script):
        ran = installed.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (-number, stdout, b"")
    assert said == [b"T%c" % number]


@pytest.mark.parametrize("result", [b"the result", b"x" * 3 * PIECE_BYTES], ids=["short", "long"])
def test_signal_after_a_success_keeps_exit_code_0(installed: Installed, result: bytes) -> None:
    """The result is on stdout: by the signal, the caller would take it for a failure."""

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, signal.SIGTERM)
        assert talk.connection.recv(10) == b"T%c" % signal.SIGTERM
        talk.finish(0, stdout=result)

    with installed.serving(script):
        ran = installed.run()

    assert (ran.returncode, ran.stdout) == (0, result)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_a_signal_that_would_not_have_ended_the_plugin_ends_nothing(installed: Installed, how: str) -> None:
    preparation = {
        "ignored": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    }[how]
    program = f"import os, signal, sys; {preparation}; os.execv(sys.argv[1], sys.argv[1:])"

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, signal.SIGTERM)
        assert not talk.says_something()
        talk.finish(43)

    with installed.serving(script):
        ran = installed.run(command=[sys.executable, "-c", program])

    assert ran.returncode == 43


@pytest.mark.parametrize("confirms", [False, True])
def test_a_signal_before_the_acceptance_withdraws_the_request(installed: Installed, *, confirms: bool) -> None:
    rest: list[bytes] = []

    def script(talk: Conversation) -> None:
        talk.read_request()
        if confirms:
            talk.ask()
        os.kill(talk.pid, signal.SIGTERM)
        rest.extend(talk.rest())
        assert not talk.take()

    with installed.serving(script):
        ran = installed.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGTERM, b"", b"")
    assert rest == []


def test_a_launcher_that_is_killed_ends_the_connection(installed: Installed) -> None:
    rest = []

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, signal.SIGKILL)
        rest.extend(talk.rest())

    with installed.serving(script):
        assert installed.run().returncode == -signal.SIGKILL

    assert rest == []


def test_stopped_launcher_continues(installed: Installed) -> None:
    def pause(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid))
        os.kill(pid, signal.SIGCONT)

    def script(talk: Conversation) -> None:
        talk.read_request()
        pause(talk.pid)
        talk.ask()
        pause(talk.pid)
        assert talk.take()
        pause(talk.pid)
        talk.finish(43)

    with installed.serving(script):
        assert installed.run().returncode == 43


# --- many


@pytest.mark.slow("two hundred processes; single launchers are in make test")
def test_two_hundred_at_once_are_all_served(installed: Installed) -> None:
    """By one who takes them one by one, with a queue that has no room for all."""
    with installed.serving(serve, backlog=20) as server:
        launchers = [installed.start() for _ in range(200)]
        outputs = [process.communicate(timeout=HANG) for process in launchers]

    assert outputs == [(b"served ", b"logged")] * 200
    assert {process.returncode for process in launchers} == {43}
    assert len(server.talks) == 200
