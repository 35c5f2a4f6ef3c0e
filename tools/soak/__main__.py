"""End ADDs, DELs and agents by signals, and let workers live: `python -m tools.soak [OPTION...]`.

Run as root; only nodes made for it are touched.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.conformance.engine.chaos import PointUnit
from tools.soak.agents import kill_agents
from tools.soak.connections import connect_often
from tools.soak.kills import kill
from tools.soak.long_life import live
from tools.soak.soak import Soak, Tally, random_points, soak, subject_in, survey
from tools.soak.suite import ROOT, served, write_launchers

_COLUMNS = (("PLUGINS", 7), ("VERB", 4), ("SIGTERM", 19), ("EXECUTIONS", 10), ("FAILED", 6), ("LEFT SOMETHING", 14))
_LAST_COLUMN = "LEFT IT AFTER DEL"


def main(arguments: list[str]) -> int:
    """Soak and print the table; return 1 if anything was left."""
    parser = ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--adds", type=int, default=2000, help="ended at random moments, of each kind  [%(default)s]")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="end at each N-th system call  [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments  [%(default)s]")
    parser.add_argument("--kills", type=int, default=200, help="of workers and launchers, by SIGKILL  [%(default)s]")
    parser.add_argument("--cycles", type=int, default=3000, help="of ADD, CHECK and DEL through workers  [%(default)s]")
    parser.add_argument("--connections", type=int, default=10_000, help="of one pod to one network  [%(default)s]")
    parser.add_argument("--agents", type=int, default=500, help="ended by SIGKILL  [%(default)s]")
    parser.add_argument("--jobs", type=int, default=2, help="nodes at once  [%(default)s]")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose plugins are ended  [%(default)s]")
    options = parser.parse_args(arguments)
    tallies = []
    _print((*(heading for heading, _ in _COLUMNS), _LAST_COLUMN))
    with TemporaryDirectory(prefix="cni-harness-soak-") as folder, ExitStack() as stack:
        for wanted in _soaks(options, Path(folder), stack):
            tally = soak(wanted, Path(folder) / "state", options.jobs)
            tallies.append(tally)
            _print(_row(tally))  # at once: the next one may take an hour
            for fault in (*tally.left, *tally.left_for_good):
                sys.stderr.write(f"{wanted.kind} {wanted.verb} {fault}\n")
    faults = _killed(options) + _lived(options) + _connected(options) + _followed(options)
    return int(bool(faults) or any(tally.left or tally.left_for_good for tally in tallies))


def _killed(options: Namespace) -> list[str]:
    if not options.kills:
        return []
    with TemporaryDirectory(prefix="cni-harness-soak-") as folder:
        kills = kill(Path(folder), options.root.resolve(), options.kills, options.seed)
    left = len(kills.left)
    sys.stdout.write(f"SIGKILL at {kills.points} points ({kills.missed} calls were faster): {left} left something\n")
    return _told(kills.left)


def _lived(options: Namespace) -> list[str]:
    if not options.cycles:
        return []
    with TemporaryDirectory(prefix="cni-harness-soak-") as folder:
        life = live(Path(folder), options.root.resolve(), options.cycles, jobs=options.jobs)
    sizes = ", ".join(f"{whose} {kib} KiB" for whose, kib in life.rss_kib.items())
    growth = {
        "server": life.growth_of_server(),
        "worker": life.growth_of_workers(),
        "next": life.growth_of_generations(),
    }
    grown = ", ".join(f"{whose} {kib:+} KiB and {files:+} descriptors" for whose, (kib, files) in growth.items())
    sys.stdout.write(f"{life.cycles} cycles, {len(life.workers)} workers: {sizes}; growth: {grown}\n")
    return _told(life.faults())


def _connected(options: Namespace) -> list[str]:
    if not options.connections:
        return []
    with TemporaryDirectory(prefix="cni-harness-soak-") as folder:
        left = connect_often(Path(folder), options.root.resolve(), options.connections)
    sys.stdout.write(f"{options.connections} connections of one pod left {len(left)} things\n")
    return _told(left)


def _followed(options: Namespace) -> list[str]:
    if not options.agents:
        return []
    with TemporaryDirectory(prefix="cni-harness-soak-") as folder:
        outcome = kill_agents(Path(folder), options.root.resolve(), options.agents, options.seed)
    seconds = f"at most {outcome.slowest:.2f} s after a start, {outcome.slowest_loss:.2f} s after a loss"
    counts = f"{outcome.lives} starts and {outcome.losses} losses were looked at"
    sys.stdout.write(f"{outcome.kills} agents killed: {counts}: {len(outcome.left)} stale or missing; {seconds}\n")
    return _told(outcome.left)


def _told(faults: list[str]) -> list[str]:
    sys.stdout.flush()
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return faults


def _soaks(options: Namespace, folder: Path, stack: ExitStack) -> Iterator[Soak]:
    direct = subject_in(write_launchers(folder / "direct", options.root.resolve()))
    server = subject_in(stack.enter_context(served(folder, options.root.resolve())))
    state_dir = folder / "state"
    for verb in ("ADD", "DEL") if options.every else ():
        calls, _ = survey(direct, verb, state_dir)
        yield Soak("direct", direct, verb, PointUnit.CALLS, tuple(range(1, calls + 1, options.every)))
    for kind, subject in (("direct", direct), ("served", server)) if options.adds else ():
        _, microseconds = survey(subject, "ADD", state_dir)
        yield Soak(kind, subject, "ADD", PointUnit.TIME, random_points(options.adds, microseconds, options.seed))


def _row(tally: Tally) -> tuple[str, ...]:
    wanted = tally.soak
    when = "at its system calls" if wanted.by is PointUnit.CALLS else "at random moments"
    counts = (len(wanted.points), tally.ended, len(tally.left), len(tally.left_for_good))
    return (wanted.kind, wanted.verb, when, *map(str, counts))


def _print(cells: Sequence[str]) -> None:
    *padded, last = cells
    row = "  ".join(cell.ljust(width) for cell, (_, width) in zip(padded, _COLUMNS, strict=True))
    sys.stdout.write(f"{row}  {last}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
