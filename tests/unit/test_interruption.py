"""Signals that are deferred: any thread knows of their arrival, and they end the program when the block does."""

import signal
import subprocess
import sys

import pytest

from harness.cli.interruption import interruption_deferred
from tests.cli import ROOT

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CODES = {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: 143, signal.SIGHUP: 129}

PROGRAM = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from harness.cli.interruption import interrupted_once, interruption_deferred

number, ENDING = int(sys.argv[1]), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(*words):
    print(*words, flush=True)


def in_a_thread(ask):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask).result()


with interrupted_once():
    with interruption_deferred(lambda: say("heard")) as arrival:
"""


def run(body: str, number: signal.Signals) -> tuple[list[str], int]:
    """Return the lines that the body of the block and what follows it print, and the exit code."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM + body, str(int(number))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return ran.stdout.splitlines(), ran.returncode


@pytest.mark.parametrize("number", ENDING)
def test_signal_ends_the_program_when_the_block_is_over(number: signal.Signals) -> None:
    body = """
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        say("end of the block")
    say("behind it")
"""

    assert run(body, number) == (["heard", "end of the block"], CODES[number])


@pytest.mark.parametrize("number", ENDING)
def test_any_thread_knows_of_a_signal_that_was_delivered(number: signal.Signals) -> None:
    body = """
        say(in_a_thread(lambda: bool(arrival)))
        os.kill(os.getpid(), number)
        say(in_a_thread(lambda: bool(arrival)))
"""

    assert run(body, number) == (["False", "heard", "True"], CODES[number])


@pytest.mark.parametrize("number", ENDING)
def test_any_thread_knows_of_a_signal_before_its_delivery(number: signal.Signals) -> None:
    body = """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        os.kill(os.getpid(), number)
        say(in_a_thread(lambda: bool(arrival)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
"""

    assert run(body, number) == (["True", "heard"], CODES[number])


def test_signal_that_is_ignored_is_none() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption_deferred(int) as arrival:
            signal.raise_signal(signal.SIGHUP)
            assert not arrival
    finally:
        signal.signal(signal.SIGHUP, before)


def test_asking_leaves_the_signals_as_they_were() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    with interruption_deferred(int) as arrival:
        assert not arrival
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
