"""What a run is to measure, and what it has measured."""

from dataclasses import dataclass, field

__all__ = ["QUICK", "Extent", "Memory", "Recording", "Series", "Work"]


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int = 60
    """How often each suite has its turn in a series of single executions."""
    pods: tuple[int, ...] = (0, 1000, 5000)
    """Of how many pods a node has the reservations and the masquerading already."""
    at_once: tuple[int, ...] = (1, 8, 32, 100)
    """How many ADDs at once, on a node that has had none."""
    repetitions: int = 5
    """How often each of these."""
    batch: int = 25
    """Over how many executions in a row the CPU time is taken."""
    timeout: float = 120.0
    """Seconds for an execution, or for all that run at once."""


QUICK = Extent(rounds=5, pods=(0, 20), at_once=(1, 4), repetitions=1, batch=3)
"""Enough to see that all of it works."""


@dataclass(frozen=True)
class Work:
    """What was timed, and under which conditions."""

    verb: str
    """ADD, DEL, VERSION or STATUS."""
    network: str = ""
    plugin: str = ""
    """One plugin's share of a list with several; empty for the whole list."""
    pods: int = 0
    at_once: int = 1
    cold: bool = False
    """On a node that began without pods; otherwise it has one, so the bridge and the firewall's tables are there."""


@dataclass(frozen=True)
class Series:
    """Wall times or CPU times of one suite's work, in seconds, in the order of their rounds."""

    work: Work
    suite: str
    samples: list[float]


@dataclass(frozen=True)
class Memory:
    """Memory at the end of an ADD, in bytes.

    What the process that the runtime starts had resident at most, and the proportional set size of the server
    with all its workers, the busy one among them.
    """

    network: str
    suite: str
    peak_rss: int
    server_pss: int


@dataclass
class Recording:
    """All that was measured."""

    overhead: list[float] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    _series: dict[tuple[str, Work], Series] = field(default_factory=dict)
    _cpu: dict[tuple[str, Work], Series] = field(default_factory=dict)

    @property
    def series(self) -> list[Series]:
        """All series of wall times, in the order in which they were begun."""
        return list(self._series.values())

    @property
    def cpu(self) -> list[Series]:
        """All series of CPU times, each of them that of one execution on the average of some."""
        return list(self._cpu.values())

    def add(self, suite: str, work: Work, seconds: float) -> None:
        """Note one more wall time."""
        self._series.setdefault((suite, work), Series(work, suite, [])).samples.append(seconds)

    def add_cpu(self, suite: str, work: Work, seconds: float) -> None:
        """Note one more CPU time."""
        self._cpu.setdefault((suite, work), Series(work, suite, [])).samples.append(seconds)

    def samples(self, suite: str, work: Work) -> list[float]:
        """Return the wall times of a series; none where it was not measured."""
        series = self._series.get((suite, work))
        return series.samples if series is not None else []

    def cpu_samples(self, suite: str, work: Work) -> list[float]:
        """Return the CPU times of a series; none where it was not measured."""
        series = self._cpu.get((suite, work))
        return series.samples if series is not None else []
