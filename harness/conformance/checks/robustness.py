"""Unusual circumstances of the process: environment, folder, input and output."""

import os
from contextlib import suppress
from threading import Timer

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT, CLOSED_STDERR, CLOSED_STDIN, FULL_STDOUT, LOST_FOLDER
from harness.conformance.engine.sequences import BARE_PATH, as_before, round_trip
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import ViolationError
from harness.libcni.execute import Execution, inherited

_MEGABYTE = 1 << 20
_RUNTIME_DIES_AFTER = 1.0
"""Seconds, in which an ADD comes to writing its result."""


@check("environment-without-home", "habit-bare-environment")
def environment_without_home(trial: Trial) -> None:
    """ADD and DEL need no variable but the protocol's and a bare PATH."""
    bare: dict[str, object] = {**dict.fromkeys(inherited(), ABSENT), "PATH": BARE_PATH}
    round_trip(trial, "without HOME and all other variables but a bare PATH", environ=bare)


@check("environment-without-path", "habit-bare-environment")
def environment_without_path(trial: Trial) -> None:
    """ADD and DEL need no variable but the protocol's, not even a PATH."""
    round_trip(trial, "without PATH and all the other variables", environ=dict.fromkeys(inherited(), ABSENT))


@check("folder-any", "habit-cwd")
def folder_any(trial: Trial) -> None:
    """ADD and DEL work in any folder, such as a bundle's, and write nothing into it."""
    bundle = trial.folder()
    round_trip(trial, "in another folder", cwd=str(bundle))
    expect.nothing((path.name for path in bundle.iterdir()), "nothing written into the working folder")


@check("folder-removed", "habit-cwd")
def folder_removed(trial: Trial) -> None:
    """ADD and DEL work in a folder that has been removed."""
    round_trip(trial, "in a folder that was removed", wrapper=LOST_FOLDER)


@check("stdin-closed", "habit-stdin-closed", "error-structure")
def stdin_closed(trial: Trial) -> None:
    """ADD without a standard input is answered with an error object, soon."""
    expect.refused(trial.add(wrapper=CLOSED_STDIN), "standard input is closed")


@check("stdin-megabyte", "skel-no-size-limit")
def stdin_megabyte(trial: Trial) -> None:
    """A megabyte of configuration is read to its end."""
    try:
        round_trip(trial, "with a megabyte of args in the configuration", config={"args": _ballast(_MEGABYTE)})
    except ViolationError:
        try:
            round_trip(trial, "with a byte of unknown args in the configuration", config={"args": _ballast(1)})
        except ViolationError as error:  # the key is at fault, and not the size
            raise error.following("args-passed-over") from None
        raise


def _ballast(size: int) -> dict[str, object]:
    return {"org.example": {"ballast": "x" * size}}


@check("stdout-released", "habit-stdout-released")
def stdout_released(trial: Trial) -> None:
    """No process that is left behind holds standard output or standard error open."""
    for execution in _every_verb(trial):
        if execution.output_held:
            raise ViolationError(
                f"the end of its output with that of {execution.verb}",
                "a process that it left behind holds it open: a runtime waits for that",
                execution,
            )


@check("stdout-reader-gone", "habit-stdout-unread")
def stdout_reader_gone(trial: Trial) -> None:
    """After an ADD whose output was not read, because the runtime is gone, DEL cleans up."""
    with as_before(trial, "after DEL of an ADD whose output nobody read"):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            _demand_end(trial.add(stdout=writer), "nobody can read its output")
        finally:
            os.close(writer)
        _clear_up(trial)


@check("stdout-stuck", "habit-stdout-unread")
def stdout_stuck(trial: Trial) -> None:
    """An ADD that waits for a runtime to read its result ends when that runtime ends, and DEL cleans up."""
    with as_before(trial, "after DEL of an ADD that could not tell its result"):
        reader, writer = os.pipe()
        _fill(writer)
        gone = Timer(_RUNTIME_DIES_AFTER, os.close, [reader])
        gone.start()
        try:
            _demand_end(trial.add(stdout=writer), "the runtime that did not read its output is gone")
        finally:
            gone.join()
            os.close(writer)
        _clear_up(trial)


@check("stdout-full", "habit-stdout-unread", "exit-code", "add-result")
def stdout_full(trial: Trial) -> None:
    """An ADD that cannot write its result does not exit with 0."""
    expect.failed(trial.add(wrapper=FULL_STDOUT), "there is no space for its result")


@check("stderr-closed", "habit-stderr-lost")
def stderr_closed(trial: Trial) -> None:
    """ADD and DEL work without a standard error."""
    round_trip(trial, "without a standard error", wrapper=CLOSED_STDERR)


def _every_verb(trial: Trial) -> list[Execution]:
    executions = [trial.ask_version(), trial.add()]
    if trial.has("CHECK"):
        executions.append(trial.check())
    if trial.has("GC"):
        executions += [trial.status(), trial.gc(trial.container)]
    return [*executions, trial.delete()]


def _demand_end(execution: Execution, why: str) -> None:
    if execution.timed_out:
        raise ViolationError(f"the end of ADD, since {why}", expect.ending(execution), execution)


def _clear_up(trial: Trial) -> None:
    """DEL as after an ADD without output: its prevResult is the result of the plugins before."""
    expect.succeeded(trial.delete(prev_result=trial.prev_result() or ABSENT))


def _fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    # Whole pages, then single bytes: a write of a page fails while less than a page is free (pipe(7)).
    for size in (1 << 12, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(pipe, b" " * size)
    os.set_blocking(pipe, True)


@check("gc-says-nothing", "gc-output")
def gc_says_nothing(trial: Trial) -> None:
    """GC that succeeds prints nothing on standard output."""
    trial.attach()
    expect.silent(expect.succeeded(trial.gc()))


@check("verbs-say-nothing", "skel-no-output")
def verbs_say_nothing(trial: Trial) -> None:
    """DEL, CHECK and STATUS that succeed print nothing on standard output."""
    trial.attach()
    if trial.has("CHECK"):
        expect.silent(expect.succeeded(trial.check()))
    if trial.has("STATUS"):
        expect.silent(expect.succeeded(trial.status()))
    expect.silent(expect.succeeded(trial.delete()))
