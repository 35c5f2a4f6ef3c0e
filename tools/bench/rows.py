"""The rows of the table: which medians are compared, and the most that their ratio may be."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final

from harness.bench.measurements import Measurements, Ratio, Work, percentile
from harness.bench.suites import MASQUERADED, OURS, PLAIN, REFERENCE
from harness.output import TextTable
from tools.bench.networks import CHAIN, CHAINED, FIVE, PORTS
from tools.bench.subjects import DIRECT, FLOOR, PYTHON

NOTHING: Final = "DEL of a gone attachment"
NO_WORK: Final = "start and end"
PROGRAM_ADD: Final = "cni-harness add"
"""Verbs of works that CNI has no verb for."""

AGAINST: Final = "other checkout"
"""The program of `--against`."""

PORTS_OF_A_POD: Final = 32

_LOWER: Final = 25


@dataclass(frozen=True)
class Extent:
    """The number of turns, pods and elements."""

    rounds: int = 60
    """Turns of each suite, one execution after the other."""
    batches: int = 8
    """Turns of each suite for CPU time."""
    batch: int = 20
    """Executions in each of these."""
    repetitions: int = 7
    """Turns of each suite with many at once."""
    at_once: int = 100
    gone_at_once: int = 20
    elements: tuple[int, ...] = (5_000, 20_000)
    """Numbers of pods whose reservations and masquerading are on the node before."""
    pods_with_ports: int = 500
    """The number of pods with ports that are on the node before."""
    records: int = 1_000
    """The number of records of pods that `cni-harness add` has beside it."""
    against: str = ""
    """The folder of another checkout, whose `cni-harness add` is measured in turns with this one's."""
    timeout: float = 120.0
    """Seconds for an execution, or for all that run at once."""


@dataclass(frozen=True)
class Row:
    """Two medians to be compared, both measured in the turns of one `loop`; without `at_most` it is only shown."""

    loop: str
    work: str
    ours: tuple[str, Work]
    theirs: tuple[str, Work]
    at_most: float | None = None
    cpu: bool = False


@dataclass(frozen=True)
class Judged:
    """A row that was measured: medians and 25th percentiles in seconds, the ratio of medians with its interval."""

    row: Row
    ours: float
    ours_lower: float
    theirs: float
    theirs_lower: float
    ratio: Ratio

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None for a row without one."""
        return None if self.row.at_most is None else self.ratio.value <= self.row.at_most

    def document(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return asdict(self) | {"reached": self.reached}


def rows(extent: Extent) -> list[Row]:
    """Return all rows, in the order of the table."""
    add, delete = Work("ADD", PLAIN), Work("DEL", PLAIN)
    masq_add, masq_delete = Work("ADD", MASQUERADED), Work("DEL", MASQUERADED)
    count = extent.at_once
    adds, deletes = (Work(verb, PLAIN, at_once=count, cold=True) for verb in ("ADD", "DEL"))
    masq_adds, masq_deletes = (Work(verb, MASQUERADED, at_once=count, cold=True) for verb in ("ADD", "DEL"))
    gone, all_gone = Work(NOTHING, PLAIN), Work(NOTHING, PLAIN, at_once=extent.gone_at_once)
    version = Work("VERSION")
    growth = (
        Row(
            "growth",
            f"ADD with `ipMasq` beside {elements:,} masqueraded, over none",
            (OURS, Work("ADD", MASQUERADED, pods=elements)),
            (OURS, masq_add),
            1.1,
        )
        for elements in extent.elements
    )
    return [
        *_both("one", "ADD", add, REFERENCE, 0.40, 0.45),
        Row("one", "ADD, over the floor", (OURS, add), (FLOOR, add)),
        Row("one", "DEL, over the floor (a bare RTM_DELLINK)", (OURS, delete), (FLOOR, delete), 0.5),
        *_both("one", "DEL", delete, REFERENCE, None, None),
        *_both("one, ipMasq", "ADD with `ipMasq`", masq_add, REFERENCE, 0.25, None),
        *_both("one, ipMasq", "DEL with `ipMasq`", masq_delete, REFERENCE, 0.10, None),
        *_both("at once", f"{count} ADDs at once, cold node", adds, REFERENCE, 0.45, 0.45),
        Row("at once", f"{count} ADDs at once, over the floor", (OURS, adds), (FLOOR, adds)),
        *_both("at once", f"{count} DELs at once", deletes, REFERENCE, 0.60, 0.60),
        Row("at once", f"{count} DELs at once, over the floor", (OURS, deletes), (FLOOR, deletes)),
        *_both("at once, ipMasq", f"{count} ADDs at once with `ipMasq`, cold node", masq_adds, REFERENCE, None, None),
        *_both("at once, ipMasq", f"{count} DELs at once with `ipMasq`", masq_deletes, REFERENCE, 0.10, None),
        *_both("VERSION", "VERSION", version, REFERENCE, 0.65, 0.70),
        Row("gone", f"{NOTHING}, CNI_NETNS empty", (OURS, gone), (REFERENCE, gone), 0.8),
        Row(
            "gone",
            f"{extent.gone_at_once} of these at once",
            (OURS, all_gone),
            (REFERENCE, all_gone),
            0.8,
        ),
        *growth,
        *_of_chain(),
        *_of_ports(extent.pods_with_ports),
        Row("no server", "no server: VERSION, over bare Python", (DIRECT, version), (PYTHON, Work(NO_WORK)), 1.6),
        Row("no server", "no server: ADD, over bare Python", (DIRECT, add), (PYTHON, Work(NO_WORK)), 6.5),
        *_gone_without_server(),
        *_of_program(extent),
    ]


def _of_program(extent: Extent) -> Iterator[Row]:
    """The program itself: beside many pods over none, many by one process over one, and over another checkout's."""
    one, beside = Work(PROGRAM_ADD), Work(PROGRAM_ADD, pods=extent.records)
    many = Work(PROGRAM_ADD, at_once=extent.at_once)
    alone, besides = "`cni-harness add`", f"`cni-harness add` beside {extent.records:,} pods"
    jobs = f"`cni-harness add` of {extent.at_once} pods with `--jobs 32`"
    for cpu, title in ((False, ""), (True, ": CPU")):
        yield Row("program", f"{besides}, over none{title}", (OURS, beside), (OURS, one), 1.1, cpu=cpu)
        yield Row("program", f"{jobs}, over one{title}", (OURS, many), (OURS, one), cpu=cpu)
        if extent.against:
            for words, work in ((alone, one), (besides, beside), (jobs, many)):
                yield Row("program", f"{words}{title}", (OURS, work), (AGAINST, work), 1.05, cpu=cpu)


def _of_chain() -> Iterator[Row]:
    for verb in ("ADD", "DEL"):
        whole = Work(verb, CHAIN)
        yield Row("chain", f"{verb} of the chain of six", (OURS, whole), (REFERENCE, whole), 0.4)
        for plugin in CHAINED:
            share = Work(verb, CHAIN, plugin=plugin)
            yield Row("chain", f"{verb} of {plugin} in it", (OURS, share), (REFERENCE, share))


def _of_ports(pods: int) -> Iterator[Row]:
    few, many = (Work("ADD", PORTS, plugin="portmap", pods=count) for count in (0, pods))
    name = f"ADD of portmap with {PORTS_OF_A_POD} ports beside {pods:,} such pods, over none"
    yield Row("ports", name, (OURS, many), (OURS, few), 1.1)


def _gone_without_server() -> Iterator[Row]:
    whole = Work(NOTHING, FIVE)
    name = "no server: DEL of a gone attachment"
    yield Row("no server, gone", f"{name}, five plugins", (DIRECT, whole), (REFERENCE, whole), 1.2)
    yield Row("no server, gone", f"{name}, five plugins: CPU", (DIRECT, whole), (REFERENCE, whole), cpu=True)
    for plugin in ("bridge", *CHAINED[:-1]):
        share = Work(NOTHING, FIVE, plugin=plugin)
        yield Row("no server, gone", f"{name}, {plugin} in it", (DIRECT, share), (REFERENCE, share))


def _both(loop: str, name: str, work: Work, other: str, wall: float | None, cpu: float | None) -> Iterator[Row]:
    yield Row(loop, name, (OURS, work), (other, work), wall)
    yield Row(loop, f"{name}: CPU", (OURS, work), (other, work), cpu, cpu=True)


def chosen(known: Sequence[Row], pattern: str) -> list[Row]:
    """Return the rows in whose loop and work a regular expression is found, whatever the case. Raises re.error."""
    return [row for row in known if re.search(pattern, f"{row.loop}: {row.work}", re.IGNORECASE)]


def judged(wanted: Sequence[Row], recordings: Mapping[str, Measurements]) -> list[Judged]:
    """Return the rows whose loops were run: those that are in `recordings`."""
    return [_judged(row, recordings[row.loop]) for row in wanted if row.loop in recordings]


def _judged(row: Row, recording: Measurements) -> Judged:
    ours, theirs = (recording.samples(*each, cpu=row.cpu) for each in (row.ours, row.theirs))
    return Judged(
        row,
        median(ours),
        percentile(ours, _LOWER),
        median(theirs),
        percentile(theirs, _LOWER),
        Ratio.of(ours, theirs),
    )


def table(results: Sequence[Judged]) -> TextTable:
    """Return them as a table, times in milliseconds."""
    headings = ("work", "ours, ms", "p25", "against", "ms", "p25", "ratio", "95 %", "at most", "reached")
    return TextTable(headings, [_cells(each) for each in results])


def _cells(each: Judged) -> list[str]:
    verdict = {None: "", True: "yes", False: "**no**"}[each.reached]
    return [
        each.row.work,
        _ms(each.ours),
        _ms(each.ours_lower),
        "none" if each.row.theirs[0] == each.row.ours[0] else each.row.theirs[0],
        _ms(each.theirs),
        _ms(each.theirs_lower),
        f"{each.ratio.value:.2f}",
        f"{each.ratio.low:.2f} to {each.ratio.high:.2f}",
        f"{each.row.at_most:.2f}" if each.row.at_most is not None else "",
        verdict,
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}" if seconds < 1 else f"{seconds * 1000:.0f}"
