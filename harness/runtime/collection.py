"""Garbage collection of one network: leftovers are freed by DEL, and by GC if no other runtime can be harmed."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from harness.files import write_atomically
from harness.libcni.networks import NetworkError, NetworkList, parse_network_list
from harness.libcni.operations import Libcni
from harness.libcni.request import ContainerAttachment
from harness.output import message_of
from harness.runtime.leftovers import AttachmentSurvey, Key, TracedAttachment

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_ANY_IFNAME: Final = "eth0"
"""For a reservation of an old release, which names the container alone: any interface name frees it."""


def suspect_ages(path: Path, suspects: Iterable[TracedAttachment]) -> dict[Key, float]:
    """Note in a file of the node when each suspect was first seen as it is now, and forget all others.

    Returns for how many seconds each was seen unchanged since this boot. Raises OSError.
    """
    boot = _BOOT_ID.read_text().strip()
    before, now = _read_suspects(path, boot), time.clock_gettime(time.CLOCK_BOOTTIME)
    seen: dict[str, list[object]] = {}
    ages: dict[Key, float] = {}
    for each in suspects:
        name = "/".join(each.key)
        stamp, since = before.get(name, ("", now))
        if stamp != each.stamp or since > now:
            since = now
        seen[name] = [each.stamp, since]
        ages[each.key] = now - since
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"boot": boot, "seen": seen}, indent=1).encode() + b"\n")
    return ages


def _read_suspects(path: Path, boot: str) -> dict[str, tuple[str, float]]:
    """Return the stamp and the time of each suspect; nothing if the file is damaged or of an earlier boot."""
    try:
        document = json.loads(path.read_bytes())
        if document["boot"] != boot:
            return {}
        return {str(name): (str(stamp), float(since)) for name, (stamp, since) in document["seen"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


class WaitingLeftover(NamedTuple):
    """A leftover that is not old enough; `seconds` remain."""

    attachment: TracedAttachment
    seconds: float


@dataclass
class Collection:
    """What was found in a network, and freed. `valid` counts the attachments of this program's pods."""

    network: str
    valid: int
    kept: list[TracedAttachment] = field(default_factory=list)
    """Attachments of other runtimes that live."""
    waiting: list[WaitingLeftover] = field(default_factory=list)
    unnameable: list[TracedAttachment] = field(default_factory=list)
    """Leftovers whose container ID is not known: no DEL can name them."""
    deleted: list[TracedAttachment] = field(default_factory=list)
    remaining: list[TracedAttachment] = field(default_factory=list)
    """Leftovers of which a trace has stayed after DEL."""
    sent_gc: bool = False
    is_disabled: bool = False
    error: str = ""


@dataclass(frozen=True)
class Collector:
    """Collects the garbage of networks on a node that is in use alone.

    `ages` says for how many seconds each suspect was seen unchanged, and `min_age` how many are enough. `own` are the
    attachments of this program's pods: network, container ID, interface.
    """

    libcni: Libcni
    found: AttachmentSurvey
    own: Sequence[Key]
    ages: Mapping[Key, float]
    min_age: float
    sends_gc: bool

    def collect(self, network: NetworkList, *, dry_run: bool) -> Collection:
        """Free the leftovers of a network; with `dry_run`, only find them. Failures are in the outcome."""
        own = [key for key in self.own if key[0] == network.name]
        done = Collection(network.name, len(own), is_disabled=network.disable_gc)
        leftovers = self._sort(network.name, done)
        if dry_run or network.disable_gc:
            done.waiting += [WaitingLeftover(each, 0) for each in leftovers]
            return done
        failures: list[Exception] = []
        for each in leftovers:
            if not each.is_unchanged():
                each.living = "it has changed since it was looked at"
                done.kept.append(each)
                continue
            failed = self._delete(network, each)
            failures += failed
            if not failed:
                done.deleted.append(each)
        if self.sends_gc:
            # Without the leftovers: GC may free those that DEL could not.
            gone = {each.key for each in leftovers} - {each.key for each in done.kept}
            known = [each.key for each in self.found.attachments if each.network == network.name]
            valid = dict.fromkeys([*own, *(key for key in known if key not in gone)])
            try:
                self.libcni.gc(network, [(container_id, ifname or _ANY_IFNAME) for _, container_id, ifname in valid])
            except ExceptionGroup as errors:
                failures += errors.exceptions
            done.sent_gc = True
        if failures:
            done.error = message_of(ExceptionGroup(f"garbage collection of network {network.name}", failures))
        return done

    def check(self, after: AttachmentSurvey, collections: Sequence[Collection]) -> None:
        """Note the leftovers of which a trace has stayed."""
        there = {each.key for each in after.suspects()}
        for done in collections:
            done.remaining = [each for each in done.deleted if each.key in there]
            done.deleted = [each for each in done.deleted if each.key not in there]

    def _sort(self, network: str, done: Collection) -> list[TracedAttachment]:
        """Put the attachments of a network where they belong; return the leftovers that a DEL may free now."""
        leftovers = []
        for each in self.found.attachments:
            if each.network != network or each.is_ours:
                continue
            age = self.ages.get(each.key)
            if age is None:
                done.kept.append(each)
            elif not each.can_be_deleted:
                done.unnameable.append(each)
            elif age < self.min_age:
                done.waiting.append(WaitingLeftover(each, self.min_age - age))
            else:
                leftovers.append(each)
        return leftovers

    def _delete(self, network: NetworkList, leftover: TracedAttachment) -> list[Exception]:
        """Execute DEL by the list as it was at the ADD, if that is known."""
        if leftover.cached is not None and leftover.cached.config:
            with suppress(NetworkError):
                network = parse_network_list(leftover.cached.config)
        # The namespace is gone: SPEC.md has DEL succeed without one, not with a dead path.
        attachment = ContainerAttachment(leftover.container_id, "", leftover.ifname or _ANY_IFNAME)
        return self.libcni.delete_leftover(network, attachment)
