"""The extent of a run, and its measurements."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class BenchExtent:
    """The extent of the measurements."""

    rounds: int = 60
    """The number of turns of each suite in a series of single executions."""
    pods: tuple[int, ...] = (0, 1000, 5000)
    """For each node, the number of pods whose reservations and masquerading it already has."""
    at_once: tuple[int, ...] = (1, 8, 32, 100)
    """The numbers of simultaneous ADDs, each on a node without any ADD before."""
    repetitions: int = 5
    """The number of repetitions of each of these."""
    batch: int = 25
    """The number of consecutive executions that share one reading of CPU time."""
    timeout: float = 120.0
    """Seconds for an execution, or for all that run at once."""


QUICK = BenchExtent(rounds=5, pods=(0, 20), at_once=(1, 4), repetitions=1, batch=3)
"""Enough to see that every measurement works."""


@dataclass(frozen=True)
class Work:
    """The timed work, and its conditions."""

    verb: str
    """ADD, DEL, VERSION or STATUS."""
    network: str = ""
    plugin: str = ""
    """One plugin's share of a list with several; empty for the whole list."""
    pods: int = 0
    at_once: int = 1
    cold: bool = False
    """On a node that began without pods; otherwise it has one, so the bridge and the firewall's tables exist."""


@dataclass(frozen=True)
class Series:
    """Wall times or CPU times of one suite's work, in seconds, in the order of their rounds."""

    work: Work
    suite: str
    samples: list[float]


@dataclass(frozen=True)
class Memory:
    """Memory at the end of an ADD, in bytes.

    `peak_rss` is the peak resident memory of the process that the runtime starts. `server_pss` is the proportional set
    size of the server with all its workers, including the busy one.
    """

    network: str
    suite: str
    peak_rss: int
    server_pss: int


@dataclass
class Measurements:
    """All measurements."""

    overhead: list[float] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    _series: dict[tuple[bool, str, Work], Series] = field(default_factory=dict)
    """All series; the first part of the key tells those of CPU times."""

    @property
    def series(self) -> list[Series]:
        """All series of wall times, in the order in which they were begun."""
        return [series for (cpu, *_), series in self._series.items() if not cpu]

    @property
    def cpu(self) -> list[Series]:
        """All series of CPU times; each time is the average of several executions."""
        return [series for (cpu, *_), series in self._series.items() if cpu]

    @property
    def works(self) -> list[Work]:
        """The work of all series of wall times."""
        return list(dict.fromkeys(series.work for series in self.series))

    def add(self, suite: str, work: Work, seconds: float, *, cpu: bool = False) -> None:
        """Note one more wall time, or CPU time."""
        self._series.setdefault((cpu, suite, work), Series(work, suite, [])).samples.append(seconds)

    def samples(self, suite: str, work: Work, *, cpu: bool = False) -> list[float]:
        """Return the wall times, or CPU times, of a series; none if it was not measured."""
        series = self._series.get((cpu, suite, work))
        return series.samples if series is not None else []
