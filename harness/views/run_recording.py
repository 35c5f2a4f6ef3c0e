"""A verb under `--record`: its trace, and the node before and after it, become a record for `explain`."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from harness.libcni.networks import NetworkError, load_networks
from harness.output import message_of
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST, new_sandbox_state, node_differences
from harness.snapshot import Snapshot, take
from harness.views.attachments import KnownAttachment, known_attachments
from harness.views.namespaces import read_namespaces
from harness.views.run_spans import pods_of
from harness.views.runs import ListedNetwork, Run, RunStore, label_of
from harness.views.topology import Topology, TopologyPlace, build_topology
from skel.spans import Span

_VARIABLES: Final = ("CNI_PATH", "NETCONFPATH", "CNI_HARNESS_NODE", "CNI_HARNESS_STATE_DIR")
"""Variables that stand for options of the command."""


@dataclass
class Recording:
    """A verb to be recorded: its node, its name, and the pods that its arguments name, such as `default/pod1`.

    `pods` is None for all pods. `conf_dirs` have the network lists.
    """

    node: Node
    verb: str
    pods: Collection[str] | None
    conf_dirs: Sequence[Path]

    def wants(self, attachment: KnownAttachment) -> bool:
        """Tell whether the namespace of an attachment is compared before and after."""
        return self.pods is None or attachment.pod in self.pods


@contextmanager
def recorded_run(recording: Recording, say: Callable[[str], None]) -> Iterator[Callable[[Sequence[Span]], None]]:
    """Record the block, which carries out a verb, and calls the yielded function with its spans.

    Raises SnapshotError, NetlinkError, OSError, before the block only. Later errors are told by `say`.
    """
    node, spans, error = recording.node, list[Span](), ""
    begun = _Begun(recording, _State(recording, say), new_sandbox_state(node), datetime.now(UTC), time.monotonic())
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

    recording: Recording
    before: "_State"
    sandbox: Snapshot
    started: datetime
    clock: float


def _keep(begun: _Begun, spans: Sequence[Span], seconds: float, error: str, say: Callable[[str], None]) -> None:
    """Read the node again, and write the record. Raises SnapshotError, NetlinkError, OSError."""
    recording, before = begun.recording, begun.before
    node, named = recording.node, pods_of(spans)
    if recording.pods is not None:
        recording.pods = [*dict.fromkeys([*recording.pods, *named])]
    after = _State(recording, say, also=before.namespaces)
    pods = dict.fromkeys([*(recording.pods or ()), *named, *(each.pod for each in before.attachments)])
    changes = node_differences(node, before.snapshot, after.snapshot, begun.sandbox)
    run = Run(
        verb=recording.verb,
        command=_typed(),
        prefix=node.program(),
        started=begun.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        seconds=seconds,
        error=error,
        place=node.shell_words(),
        pods=tuple(filter(None, pods)),
        networks=tuple(_networks([*after.attachments, *before.attachments], spans, recording.conf_dirs)),
        spans=tuple(spans),
        before=before.topology,
        after=after.topology,
        changes=tuple(each.in_words() for each in changes),
    )
    RunStore(node.runs).write(run)


class _State:
    """A node and pods at one moment; a named node that does not exist is empty."""

    def __init__(self, recording: Recording, say: Callable[[str], None], also: "dict[str, str] | None" = None) -> None:
        node = recording.node
        self.attachments: list[KnownAttachment] = []
        self.namespaces: dict[str, str] = {}
        self.snapshot = Snapshot({})
        if not node.exists():
            self.topology = Topology({NODE: TopologyPlace(NODE, node.netns or THIS_HOST, (), (), ())})
            return
        known = known_attachments(node, warn=say)
        self.attachments = [each for each in known if recording.wants(each)]
        self.namespaces = {label_of(each.pod): each.netns for each in self.attachments if each.netns and each.pod}
        places = {NODE: node.netns or THIS_HOST} | (also or {}) | self.namespaces
        self.snapshot = take(places, [node.var_lib_cni] if node.var_lib_cni.is_dir() else [])
        self.topology = build_topology(read_namespaces(node, known), self.snapshot, known)


def _networks(
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


def _typed() -> str:
    """Return the command as it can be typed again, with the variables that take part in it."""
    variables = [f"{name}={shlex.quote(os.environ[name])}" for name in _VARIABLES if os.environ.get(name)]
    return " ".join([*variables, "cni-harness", shlex.join(sys.argv[1:])])
