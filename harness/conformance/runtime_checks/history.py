"""The history of a runtime: its calls as operations, each a series of executions of one list's plugins."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.conformance.runtime_checks.networks import RecordedNetwork
from harness.conformance.runtime_checks.records import RecordedCall, Records, Report

ATTACHMENT_VERBS: Final = ("ADD", "DEL", "CHECK")


class AttachmentKey(NamedTuple):
    """An interface of a container on one of the networks."""

    network: str
    container_id: str
    ifname: str


@dataclass(frozen=True)
class Operation:
    """Calls of one verb for one list in a row; for GC and STATUS, the key has no container."""

    key: AttachmentKey
    verb: str
    calls: tuple[RecordedCall, ...]

    @property
    def start(self) -> int:
        """The number of its first start."""
        return self.calls[0].start

    @property
    def end(self) -> int:
        """The number of its last end, or of its last start if that one did not end."""
        return max(call.start if call.end is None else call.end for call in self.calls)

    @property
    def types(self) -> list[str]:
        """The executed recorders, in their order."""
        return [call.type for call in self.calls]

    @property
    def failed(self) -> bool:
        """Whether a recorder reported an error."""
        return any(call.failed for call in self.calls)

    @property
    def broken_off(self) -> bool:
        """Whether a recorder did not end by itself: the runtime or the machine ended it."""
        return any(call.end is None for call in self.calls)


class History:
    """The records, and the operations in them in the order of their starts."""

    def __init__(self, records: Records) -> None:
        """Group the calls. Calls of recorders that no network of the records has are left out."""
        self.records = records
        self._of_type = {type: network for network in records.networks for type in network.types}
        self.calls = [call for call in sorted(records.calls, key=lambda call: call.start) if call.type in self._of_type]
        self.operations = sorted(self._grouped(), key=lambda operation: operation.start)
        self._per_key: defaultdict[AttachmentKey, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            self._per_key[operation.key].append(operation)

    def network(self, call: RecordedCall) -> RecordedNetwork:
        """Return the network whose list has the recorder."""
        return self._of_type[call.type]

    def configuration(self, call: RecordedCall) -> Mapping[str, object]:
        """Return the plugin's configuration as it is in the list."""
        network = self.network(call)
        return (*network.inlined, *network.beside)[network.types.index(call.type)]

    def plugins(self, network: str) -> list[str]:
        """Return the recorders that a network consists of for this runtime.

        Those in the folder beside the list count if the runtime reads such folders.
        """
        [listed] = [each for each in self.records.networks if each.name == network]
        inlined = listed.types[: len(listed.inlined)]
        if listed.only_inlined or not any(call.type in listed.types[len(inlined) :] for call in self.calls):
            return inlined
        return listed.types

    def sent(self, *verbs: str) -> Iterator[RecordedCall]:
        """Yield the calls with one of these verbs."""
        return (call for call in self.calls if call.verb in verbs)

    def of(self, *verbs: str) -> Iterator[Operation]:
        """Yield the operations with one of these verbs."""
        return (operation for operation in self.operations if operation.verb in verbs)

    def before(self, operation: Operation, *verbs: str) -> Operation | None:
        """Return the attachment's last operation with one of these verbs before `operation`."""
        return self.last(operation.key, operation.start, *verbs)

    def last(self, key: AttachmentKey, before: int, *verbs: str) -> Operation | None:
        """Return an attachment's last operation with one of these verbs that started before a number."""
        found = [each for each in self._per_key[key] if each.verb in verbs and each.start < before]
        return found[-1] if found else None

    def after(self, operation: Operation, *verbs: str) -> list[Operation]:
        """Return the attachment's operations with one of these verbs after `operation`."""
        found = self._per_key[operation.key]
        return [each for each in found if each.verb in verbs and each.start > operation.start]

    def attachments(self) -> list[AttachmentKey]:
        """Return every attachment that was ever added."""
        return list(dict.fromkeys(operation.key for operation in self.of("ADD")))

    def result(self, operation: Operation) -> Mapping[str, object] | None:
        """Return the result of an ADD: its last recorder's, or None if it failed or did not come to its end."""
        if operation.failed or operation.broken_off or len(operation.calls) < len(self.plugins(operation.key.network)):
            return None
        return operation.calls[-1].result or None

    def is_deleted(self, key: AttachmentKey, before: int) -> bool:
        """Tell whether the attachment's last operation before a number is a DEL of all plugins, without an error."""
        last = self.last(key, before, "ADD", "DEL")
        if last is None or last.verb != "DEL" or last.failed or last.broken_off:
            return False
        return set(last.types) >= set(self.plugins(key.network))

    def prev_result(self, operation: Operation) -> Mapping[str, object] | None:
        """Return the result that a DEL or CHECK is to send on, None if there is none to be sent."""
        added = self.before(operation, "ADD")
        if added is None or self.is_deleted(operation.key, operation.start):
            return None
        return self.result(added)

    def reports(self, verb: str) -> Iterator[Report]:
        """Yield the runtime's answers to its caller for one verb."""
        return (report for report in self.records.reports if report.verb == verb)

    def _grouped(self) -> Iterator[Operation]:
        of_key: defaultdict[AttachmentKey, list[RecordedCall]] = defaultdict(list)
        for call in self.calls:
            name = self.network(call).name
            if call.verb in ATTACHMENT_VERBS:
                of_key[AttachmentKey(name, call.container_id, call.ifname)].append(call)
            elif call.verb in {"GC", "STATUS"}:
                of_key[AttachmentKey(name, "", call.verb)].append(call)
        for key, calls in of_key.items():
            # The third part tells GC from STATUS here, which have no interface.
            yield from _operations(key if key.container_id else key._replace(ifname=""), calls)


def without_empty(value: object) -> object:
    """Return a result without empty values, which runtimes leave out or write as they like, in all its parts."""
    if isinstance(value, Mapping):
        parts = {key: without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [], {})}
    if isinstance(value, list):
        return [without_empty(part) for part in value]
    return value


def _operations(key: AttachmentKey, calls: Sequence[RecordedCall]) -> Iterator[Operation]:
    """Yield the operations of calls in a row: one ends at another verb, and at a recorder that it has had already."""
    running: list[RecordedCall] = []
    for call in calls:
        if running and (call.verb != running[0].verb or call.type in [each.type for each in running]):
            yield Operation(key, running[0].verb, tuple(running))
            running = []
        running.append(call)
    if running:
        yield Operation(key, running[0].verb, tuple(running))
