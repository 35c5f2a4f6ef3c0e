"""Records of verbs under `--record`, in a file each for `explain`: the trace, and the node before and after."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.files import write_atomically
from harness.libcni.networks import NetworkError, load_networks
from harness.locations import own_version
from harness.output import message_of
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST, label_of, new_sandbox_state, node_differences
from harness.snapshot import Snapshot, take
from harness.views.attachments import KnownAttachment, known_attachments
from harness.views.namespaces import read_namespaces
from harness.views.run_steps import pods_of, read_spans
from harness.views.topology import Topology, TopologyPlace, build_topology
from harness.views.trace_formats import otlp_document
from skel.spans import Span

FORMAT: Final = 1
"""The version of the files; one of another version is refused."""
_KEPT: Final = 20
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)

_VARIABLES: Final = ("CNI_PATH", "NETCONFPATH", "CNI_HARNESS_NODE", "CNI_HARNESS_STATE_DIR")
"""Variables that stand for options of the command."""


class RunRecordError(Exception):
    """A record cannot be read."""


class ListedNetwork(NamedTuple):
    """A network list: its name, its file (empty if unknown) and its text."""

    name: str
    source: str
    text: str


@dataclass(frozen=True)
class RecordedRun:
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
            "spans": otlp_document(self.spans, own_pid=os.getpid(), version=own_version()),
            "before": self.before.to_document(),
            "after": self.after.to_document(),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "RecordedRun":
        """Read what `to_document` returned. Raises RunRecordError."""
        try:
            if document["format"] != FORMAT:
                raise RunRecordError(f"a record of format {document['format']}: this program reads format {FORMAT}")
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
            raise RunRecordError(f"not the record of a run: {error!r}") from error


class RecordedRuns:
    """The records of one node: the newest 20 are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, run: RecordedRun) -> Path:
        """Write a record, for its owner alone: a trace has whole configurations. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        moment = run.started.replace("-", "").replace(":", "")
        path = self.folder / f"{moment}-{run.verb}.json"
        write_atomically(path, json.dumps(run.to_document()).encode(), mode=0o600)
        for old in self._paths()[_KEPT:]:
            old.unlink(missing_ok=True)
        return path

    def latest(self, pod: str, verb: str = "") -> RecordedRun | None:
        """Return the newest record that has a pod, and is of `verb` if one is named. Raises OSError, RunRecordError."""
        return next((run for run in self.all() if pod in run.pods and verb in ("", run.verb)), None)

    def all(self) -> Iterator[RecordedRun]:
        """Yield the records, the newest first. Raises OSError, RunRecordError."""
        for path in self._paths():
            with suppress(FileNotFoundError):
                try:
                    yield RecordedRun.from_document(json.loads(path.read_bytes()))
                except (RunRecordError, *_UNREADABLE) as error:
                    raise RunRecordError(f"{path}: {error}") from error

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"), reverse=True)


@dataclass
class RecordedVerb:
    """A verb to be recorded: its node, its name, and the pods that its arguments name, such as `default/pod1`.

    `pods` is None for all pods. `conf_dirs` have the network lists.
    """

    node: Node
    name: str
    pods: Collection[str] | None
    conf_dirs: Sequence[Path]


@contextmanager
def recorded_run(verb: RecordedVerb, say: Callable[[str], None]) -> Iterator[Callable[[Sequence[Span]], None]]:
    """Record the block, which carries out a verb, and calls the yielded function with its spans.

    Raises SnapshotError, NetlinkError, OSError, before the block only. Later errors are told by `say`.
    """
    node, spans, error = verb.node, list[Span](), ""
    begun = _Begun(verb, _State(verb, say), new_sandbox_state(node), datetime.now(UTC), time.monotonic())
    try:
        yield spans.extend
    except BaseException as raised:
        error = message_of(raised)
        raise
    finally:
        seconds = time.monotonic() - begun.clock
        try:
            if node.exists():
                _keep(begun, spans, seconds, error, say)
            else:
                say(f"Warning: no record is kept: node {node.name} was removed")
        except Exception as failed:  # noqa: BLE001 -- the verb's own outcome must not be lost
            say(f"Warning: no record is kept: {message_of(failed)}")


class _Begun(NamedTuple):
    """A verb that has begun: the node before it, a new sandbox for comparison, and the times in UTC and seconds."""

    verb: RecordedVerb
    before: "_State"
    sandbox: Snapshot
    started: datetime
    clock: float


def _keep(begun: _Begun, spans: Sequence[Span], seconds: float, error: str, say: Callable[[str], None]) -> None:
    """Read the node again, and write the record. Raises SnapshotError, NetlinkError, OSError."""
    verb, before = begun.verb, begun.before
    node, named = verb.node, pods_of(spans)
    if verb.pods is not None:
        verb.pods = [*dict.fromkeys([*verb.pods, *named])]
    after = _State(verb, say, also=before.namespaces)
    pods = dict.fromkeys([*(verb.pods or ()), *named, *(each.pod for each in before.attachments)])
    changes = node_differences(node, before.snapshot, after.snapshot, begun.sandbox)
    # The command can be typed again, with the variables that take part in it.
    variables = [f"{name}={shlex.quote(os.environ[name])}" for name in _VARIABLES if os.environ.get(name)]
    run = RecordedRun(
        verb=verb.name,
        command=" ".join([*variables, "cni-harness", shlex.join(sys.argv[1:])]),
        prefix=node.program(),
        started=begun.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        seconds=seconds,
        error=error,
        place=node.shell_words(),
        pods=tuple(filter(None, pods)),
        networks=tuple(_listed_networks([*after.attachments, *before.attachments], spans, verb.conf_dirs)),
        spans=tuple(spans),
        before=before.topology,
        after=after.topology,
        changes=tuple(each.in_words() for each in changes),
    )
    RecordedRuns(node.runs).write(run)


class _State:
    """A node and pods at one moment; a named node that does not exist is empty."""

    def __init__(self, verb: RecordedVerb, say: Callable[[str], None], also: "dict[str, str] | None" = None) -> None:
        node = verb.node
        self.attachments: list[KnownAttachment] = []
        self.namespaces: dict[str, str] = {}
        self.snapshot = Snapshot({})
        if not node.exists():
            self.topology = Topology({NODE: TopologyPlace(NODE, node.netns or THIS_HOST, (), (), ())})
            return
        known = known_attachments(node, warn=say)
        self.attachments = [each for each in known if verb.pods is None or each.pod in verb.pods]
        self.namespaces = {label_of(each.pod): each.netns for each in self.attachments if each.netns and each.pod}
        places = {NODE: node.netns or THIS_HOST} | (also or {}) | self.namespaces
        self.snapshot = take(places, [node.var_lib_cni] if node.var_lib_cni.is_dir() else [])
        self.topology = build_topology(read_namespaces(node, known), self.snapshot, known)


def _listed_networks(
    known: Sequence[KnownAttachment], spans: Sequence[Span], conf_dirs: Sequence[Path]
) -> Iterator[ListedNetwork]:
    """Yield the network lists of attachments; of networks whose ADD failed, those in the folders."""
    told = {each.network.name: each.network for each in known}
    for network in told.values():
        yield ListedNetwork(network.name, network.source, network.config)
    listed = {str(span.attributes["network"]) for span in spans if "network" in span.attributes} - told.keys()
    unreadable: list[NetworkError] = []
    for folder in conf_dirs:
        with suppress(NetworkError, OSError):
            for each in load_networks(folder, on_error=unreadable.append):
                if each.name in listed:
                    listed.discard(each.name)
                    yield ListedNetwork(each.name, str(each.source or ""), each.raw.decode(errors="replace"))
