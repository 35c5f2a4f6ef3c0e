"""GC and STATUS: every plugin past errors, the list of valid attachments, and no attachment's parameters."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, compared_types, in_json, listed
from harness.conformance.runtime_checks.checks.add import reported_errors
from harness.conformance.runtime_checks.checks.delete_and_check import disabled
from harness.conformance.runtime_checks.history import AttachmentKey, History, Operation
from harness.conformance.runtime_checks.records import RecordedCall

_GC = "a GC"
_VALID = "cni.dev/valid-attachments"


@check("gc-every-plugin", "runtime-gc-every-plugin", "runtime-gc-continues", needs=_GC)
def executes_every_plugin(history: History) -> Iterator[Observation]:
    """GC executes every plugin of the list once, also after one has failed."""
    for operation in history.of("GC"):
        wanted = history.plugins(operation.key.network)
        if not operation.broken_off:
            yield compared_types(operation, wanted)


@check("gc-valid-attachments", "runtime-gc-valid-attachments", "runtime-gc-configuration", needs=_GC)
def lists_attachments(history: History) -> Iterator[Observation]:
    """GC has `cni.dev/valid-attachments`, a list of objects with `containerID` and `ifname`."""
    expected = f'{_VALID}: [{{"containerID": "…", "ifname": "…"}}, …]'
    for call in history.sent("GC"):
        is_right = _valid(call) is not None
        yield Observation(call, expected, "" if is_right else in_json(call.request.get(_VALID)))


@check("gc-lists-existing", "runtime-gc-valid-attachments", needs="a GC with a list of attachments")
def lists_existing_attachments_only(history: History) -> Iterator[Observation]:
    """GC lists no attachment that is deleted, or that the network never had."""
    for call in history.sent("GC"):
        listing = _valid(call)
        if listing is None:
            continue
        network = history.network(call).name
        keys = [AttachmentKey(network, *each) for each in listing]
        strangers = [key for key in keys if not history.last(key, call.start, "ADD")]
        strangers += [key for key in keys if history.is_deleted(key, call.start)]
        got = listed([f"{key.container_id} {key.ifname}" for key in strangers]) if strangers else ""
        yield Observation(call, "attachments of this network that are not deleted", got)


@check("gc-lists-all", "runtime-gc-no-substitute", needs="a GC while the network has attachments")
def lists_what_was_not_deleted(history: History) -> Iterator[Observation]:
    """GC lists every attachment that has had no DEL: GC is no substitute for DEL."""
    for call in history.sent("GC"):
        listing = _valid(call)
        network = history.network(call).name
        for key in history.attachments() if listing is not None else ():
            last = history.last(key, call.start, "ADD", "DEL")
            if key.network == network and last is not None and last.verb == "ADD" and not last.failed:
                is_there = (key.container_id, key.ifname) in (listing or ())
                expected = f"{key.container_id} {key.ifname} in the list, or a DEL of it before"
                yield Observation(call, expected, "" if is_there else "neither")


@check("gc-no-attachment", "runtime-gc-no-parameters", needs=_GC)
def gc_has_no_attachment(history: History) -> Iterator[Observation]:
    """GC has no parameters of an attachment."""
    yield from (_without_attachment(call) for call in history.sent("GC"))


@check("gc-alone", "runtime-gc-waits", "runtime-gc-exclusive", needs="a GC, and an ADD or DEL")
def collects_alone(history: History) -> Iterator[Observation]:
    """No ADD or DEL of any network runs during a GC."""
    others = list(history.of("ADD", "DEL"))
    for collection in history.of("GC") if others else ():
        at_once = [each for each in others if overlap(each, collection)]
        got = listed([in_words(each) for each in at_once]) if at_once else ""
        yield Observation(collection.calls[0], "no ADD or DEL at the same time", got)


@check("gc-disabled", "runtime-disable-gc", needs="a GC, and pods on the network with disableGC")
def obeys_disable_gc(history: History) -> Iterator[Observation]:
    """No GC is sent for a list with disableGC."""
    yield from disabled(history, "GC")


@check("gc-errors-reported", "runtime-gc-continues", needs="a report of a GC that failed")
def returns_all_errors(history: History) -> Iterator[Observation]:
    """The runtime returns the errors of all plugins that failed a GC."""
    yield from reported_errors(history, "GC")


@check("status-no-attachment", "runtime-status-configuration", needs="a STATUS")
def status_has_no_attachment(history: History) -> Iterator[Observation]:
    """STATUS has the plugin's configuration, and no parameters of an attachment."""
    yield from (_without_attachment(call) for call in history.sent("STATUS"))


def overlap(one: Operation, other: Operation) -> bool:
    """Tell whether two operations run at the same time, at least in part."""
    return one.start < other.end and other.start < one.end


def in_words(operation: Operation) -> str:
    """Return an operation in words."""
    return f"{operation.verb} of {operation.key.ifname} of container {operation.key.container_id}"


def _valid(call: RecordedCall) -> list[tuple[str, str]] | None:
    """Return the listed attachments, None if the list is missing or malformed."""
    listing = call.request.get(_VALID)
    if not isinstance(listing, list):
        return None
    pairs = []
    for each in listing:
        match each:
            case {"containerID": str(container_id), "ifname": str(ifname)}:
                pairs.append((container_id, ifname))
            case _:
                return None
    return pairs


def _without_attachment(call: RecordedCall) -> Observation:
    variables = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS")
    found = [f"{name}={call.environ[name]}" for name in variables if call.environ.get(name)]
    found += [key for key in ("prevResult", "runtimeConfig") if key in call.request]
    return Observation(call, "no parameter of an attachment", listed(found) if found else "")
