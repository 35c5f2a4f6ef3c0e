"""SIGKILL of the worker that carries out an ADD or a DEL, or of its launcher, at random moments; then DEL and GC."""

import os
import random
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import settled
from harness.conformance.engine.trial import Trial
from harness.libcni.execute import Execution
from harness.runtime.site import Site
from tools.soak.soak import subject_in
from tools.soak.suite import socket_in, start_server, stop_server, write_launchers
from tools.soak.workers import at_work

_OPTIONS = CheckOptions(timeout=300)
_RUNS_ON_A_NODE = 40
_AFTER = 1.1
"""Of the time that a call takes: some kills come when it is over."""


@dataclass
class Kills:
    """The outcome."""

    points: int = 0
    """Executions of which the worker, or the launcher, was killed while it was at work."""
    missed: int = 0
    """Executions that were over before."""
    left: list[str] = field(default_factory=list)
    """Leftovers after DEL and GC, in words."""


def kill(folder: Path, root: Path, points: int, seed: int) -> Kills:
    """Kill at so many points, workers and launchers in turns; the order of ADD, DEL and CHECK is random."""
    chance = random.Random(seed)  # noqa: S311 - the same moments each time
    kills = Kills()
    subject = subject_in(write_launchers(folder / "kills", root, str(socket_in(folder))))
    server = start_server(folder, root)
    try:
        while kills.points < points:
            with Site(folder / "state", "kills") as site, ThreadPoolExecutor(1) as thread:
                trial = Trial(subject, site, _OPTIONS)
                resident = trial.new_container()
                trial.attach(resident)
                trial.warm_up()
                seconds = _length(trial, thread, server.pid)
                left = len(kills.left)
                for _ in range(_RUNS_ON_A_NODE):
                    if kills.points < points and len(kills.left) == left:
                        _one(trial, resident, thread, server.pid, chance, seconds, kills)
    finally:
        stop_server(server)
    return kills


def _one(
    trial: Trial,
    resident: TrialContainer,
    thread: ThreadPoolExecutor,
    server: int,
    chance: random.Random,
    seconds: float,
    kills: Kills,
) -> None:
    verb, of_worker = chance.choice(("ADD", "ADD", "DEL")), chance.random() < 0.5  # noqa: PLR2004 -- every second time
    wait = chance.uniform(0, seconds * _AFTER)
    container = trial.new_container()
    before = trial.snapshot(container)
    if verb == "DEL":
        trial.attach(container)
    known = _launchers(trial)
    call = thread.submit(trial.call, verb, container)
    worker = _begun(call, server)
    time.sleep(wait)
    victim = worker if of_worker else next(iter(_launchers(trial) - known), None)
    if victim is not None and _is_killed(victim, of_worker=of_worker, server=server):
        kills.points += 1
    else:
        kills.missed += 1
    call.result()
    deleted = trial.delete(container)
    collected = trial.gc(resident)
    left = [each.in_words() for each in settled(trial, before, container)]
    if left or deleted.exit_code or collected.exit_code:
        what = "worker" if of_worker else "launcher"
        codes = f"DEL {deleted.exit_code}, GC {collected.exit_code}"
        kills.left.append(f"{verb}, {what} killed after {wait * 1e3:.2f} ms: {codes}: {'; '.join(left)}")


def _is_killed(victim: int, *, of_worker: bool, server: int) -> bool:
    """Kill a process; False if it had come to its end before."""
    if of_worker and victim not in at_work(server):
        return False
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _begun(call: Future[Execution], server: int) -> int | None:
    """Return the worker that carries out a call, as soon as one does; None if the call was faster."""
    while not call.done():
        if found := at_work(server):
            return found[0]
    return None


def _length(trial: Trial, thread: ThreadPoolExecutor, server: int) -> float:
    """Return the seconds for which a worker is at work for an ADD that is left alone."""
    found = []
    for _ in range(5):
        container = trial.new_container()
        call = thread.submit(trial.attach, container)
        while not call.done() and not at_work(server):
            pass
        began = time.monotonic()
        call.result()
        found.append(time.monotonic() - began)
        trial.detach(container)
    return sorted(found)[2]


def _launchers(trial: Trial) -> set[int]:
    """Return the processes that execute the plugin's file for this one."""
    own, found = os.getpid(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_it = (folder / "exe").samefile(trial.path)
            parent = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        except OSError:  # it has ended, or is a thread of the kernel
            continue
        if is_it and int(parent) == own:
            found.add(int(folder.name))
    return found
