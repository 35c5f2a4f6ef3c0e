"""Records of runs: the trace of one verb, and the node before and after it, in a file each."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.files import write_atomically
from harness.runtime.node_snapshot import NODE
from harness.snapshot.state import FILES
from harness.views.run_spans import read_spans
from harness.views.topology import Topology
from harness.views.trace_formats import otlp_document
from skel.spans import Span

FORMAT: Final = 1
"""The version of the files; one of another version is refused."""
_KEPT: Final = 20
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class RunError(Exception):
    """A record cannot be read."""


class ListedNetwork(NamedTuple):
    """A network list: its name, its file (empty if unknown) and its text."""

    name: str
    source: str
    text: str


@dataclass(frozen=True)
class Run:
    """One verb that was carried out. `started` is UTC, as RFC 3339 writes it; `seconds` without the snapshots.

    `command` is the command line, `prefix` how a command for the same node begins, `place` the words of a command that
    runs another one on the node. `changes` are the differences between the node before and after, in words; `pods` are
    titles, such as `default/pod1`.
    """

    verb: str
    command: str
    prefix: str
    started: str
    seconds: float
    error: str
    place: tuple[str, ...]
    pods: tuple[str, ...]
    networks: tuple[ListedNetwork, ...]
    spans: tuple[Span, ...]
    before: Topology
    after: Topology
    changes: tuple[str, ...]

    def to_document(self) -> dict[str, object]:
        """Return the record as a JSON object."""
        return {
            **vars(self),
            "format": FORMAT,
            "networks": [network._asdict() for network in self.networks],
            "spans": otlp_document(self.spans, own_pid=os.getpid(), version=version("cni-harness")),
            "before": self.before.to_document(),
            "after": self.after.to_document(),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Run":
        """Read what `to_document` returned. Raises RunError."""
        try:
            if document["format"] != FORMAT:
                raise RunError(f"a record of format {document['format']}: this program reads format {FORMAT}")
            return cls(
                **{key: str(document[key]) for key in ("verb", "command", "prefix", "started", "error")},
                seconds=float(document["seconds"]),
                place=tuple(document["place"]),
                pods=tuple(document["pods"]),
                networks=tuple(ListedNetwork(**network) for network in document["networks"]),
                spans=tuple(read_spans(document["spans"])),
                before=Topology.from_document(document["before"]),
                after=Topology.from_document(document["after"]),
                changes=tuple(document["changes"]),
            )
        except _UNREADABLE as error:
            raise RunError(f"not the record of a run: {error!r}") from error


def label_of(pod: str) -> str:
    """Return the label of a pod, such as `default/pod1`, in the changes of a run."""
    namespace, _, name = pod.partition("/")
    plain = namespace == "default" and name not in {NODE, FILES}
    return name if plain else f"{namespace}:{name}"


class RunStore:
    """The records of one node: the newest 20 are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, run: Run) -> Path:
        """Write a record, for its owner alone: a trace has whole configurations. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        moment = run.started.replace("-", "").replace(":", "")
        path = self.folder / f"{moment}-{run.verb}.json"
        write_atomically(path, json.dumps(run.to_document()).encode(), mode=0o600)
        for old in self._paths()[_KEPT:]:
            old.unlink(missing_ok=True)
        return path

    def latest(self, pod: str, verb: str = "") -> Run | None:
        """Return the newest record that has a pod, and is of `verb` if one is named. Raises OSError, RunError."""
        return next((run for run in self.all() if pod in run.pods and verb in ("", run.verb)), None)

    def all(self) -> Iterator[Run]:
        """Yield the records, the newest first. Raises OSError, RunError."""
        for path in self._paths():
            with suppress(FileNotFoundError):
                try:
                    yield Run.from_document(json.loads(path.read_bytes()))
                except (RunError, *_UNREADABLE) as error:
                    raise RunError(f"{path}: {error}") from error

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"), reverse=True)
