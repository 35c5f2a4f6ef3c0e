"""ADD: the order of the list, the results that are passed on, errors, and the DEL that must follow."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import (
    Observation,
    check,
    compared,
    compared_order,
    in_json,
    listed,
)
from harness.conformance.runtime_checks.history import AttachmentKey, History, Operation, without_empty
from harness.conformance.sentences import Level

_ADD = "an ADD"


@check("add-order", "runtime-add-every-plugin", needs=_ADD)
def executes_every_plugin_in_order(history: History) -> Iterator[Observation]:
    """ADD executes every plugin of the list once, in the list's order."""
    yield from compared_order(history, "ADD")


@check("add-no-prev-result", "runtime-prev-result-not-first", needs=_ADD)
def gives_the_first_plugin_no_result(history: History) -> Iterator[Observation]:
    """The first plugin of an ADD gets no prevResult."""
    for operation in history.of("ADD"):
        first = operation.calls[0]
        got = in_json(first.request["prevResult"]) if "prevResult" in first.request else ""
        yield Observation(first, "no prevResult", got)


@check("add-prev-result", "runtime-prev-result", "runtime-add-result", needs="an ADD that came to its second plugin")
def passes_results_on(history: History) -> Iterator[Observation]:
    """Each later plugin of an ADD gets the result of the plugin before it as prevResult."""
    for operation in history.of("ADD"):
        for before, call in zip(operation.calls, operation.calls[1:], strict=False):
            yield compared(call, without_empty(before.result), without_empty(call.request.get("prevResult")))


@check("add-stops-at-error", "runtime-add-halts", needs="an ADD that failed")
def stops_at_the_first_error(history: History) -> Iterator[Observation]:
    """ADD executes no further plugin after one has failed."""
    for operation in history.of("ADD"):
        for index, call in enumerate(operation.calls):
            if call.failed:
                later = operation.types[index + 1 :]
                yield Observation(call, f"no ADD after that of {call.type}", listed(later) if later else "")
                break


@check("add-once", "runtime-add-once", needs=_ADD)
def adds_an_interface_once(history: History) -> Iterator[Observation]:
    """No interface of a container is added twice without a DEL in between."""
    added: set[tuple[str, str]] = set()
    for operation in history.of("ADD", "DEL"):
        key = operation.key.container_id, operation.key.ifname
        if operation.verb == "DEL":
            added.discard(key)
            continue
        got = f"another ADD of {key[1]} of container {key[0]}" if key in added else ""
        yield Observation(operation.calls[0], "a DEL before another ADD", got)
        added.add(key)


@check("add-then-del", "runtime-add-then-delete", needs="an ADD that succeeded, of a container that is gone")
def deletes_in_the_end(history: History) -> Iterator[Observation]:
    """Every ADD is followed by a DEL, at the latest when the container has ended."""
    for operation in history.of("ADD"):
        if not operation.failed:
            yield from _followed(history, operation)


@check("del-after-failed-add", "runtime-delete-after-failed-add", needs="an ADD that failed")
def deletes_after_a_failure(history: History) -> Iterator[Observation]:
    """An ADD that failed is followed by a DEL, too."""
    for operation in history.of("ADD"):
        if operation.failed:
            yield from _followed(history, operation)


@check("add-new-namespace", "runtime-new-netns", needs="an ADD in a network namespace")
def makes_a_namespace_before(history: History) -> Iterator[Observation]:
    """The container's network namespace exists before the first plugin runs, and is no other container's."""
    owners: dict[str, str] = {}
    seen: set[str] = set()
    for operation in history.of("ADD", "DEL"):
        call, container = operation.calls[0], operation.key.container_id
        if operation.verb == "DEL":
            owners = {netns: owner for netns, owner in owners.items() if owner != container}
            continue
        if container not in seen:
            got = "" if call.netns else f"no network namespace at {call.environ.get('CNI_NETNS', '')!r}"
            if owners.get(call.netns, container) != container:
                got = f"the namespace of container {owners[call.netns]}"
            yield Observation(call, "a network namespace of its own", got)
        seen.add(container)
        owners[call.netns] = container


@check(
    "add-result-reported",
    "runtime-stores-result",
    level=Level.CONVENTION,
    needs="a report of the result that the runtime returned",
)
def returns_the_last_result(history: History) -> Iterator[Observation]:
    """The runtime returns the result of the list's last plugin."""
    for report in history.reports("ADD"):
        for operation in history.of("ADD"):
            same = (report.network, report.container_id, report.ifname) == tuple(operation.key)
            wanted = history.result(operation)
            if same and wanted is not None and not report.error:
                yield compared(operation.calls[-1], without_empty(wanted), without_empty(report.result))
                break


@check("add-error-reported", "runtime-add-halts", needs="a report of an ADD that failed")
def returns_the_error(history: History) -> Iterator[Observation]:
    """The runtime returns the error of the plugin that failed an ADD."""
    yield from reported_errors(history, "ADD")


def reported_errors(history: History, verb: str) -> Iterator[Observation]:
    """Yield the observations of errors that the runtime told its caller: every plugin's message is in each."""
    for report in history.reports(verb):
        key = AttachmentKey(report.network, report.container_id, report.ifname)
        operation = next((each for each in history.of(verb) if each.failed and each.key == key), None)
        if operation is not None:
            failed = [call for call in operation.calls if call.failed]
            messages = [call.message for call in failed]
            got = "" if all(message in report.error for message in messages) else report.error or "success"
            yield Observation(failed[-1], "; ".join(messages), got)


def _followed(history: History, operation: Operation) -> Iterator[Observation]:
    if history.after(operation, "DEL"):
        yield Observation(operation.calls[0])
    elif operation.calls[0].netns not in history.records.living:
        key = operation.key
        expected = f"a DEL of {key.ifname} of container {key.container_id}"
        yield Observation(operation.calls[0], expected, "none, and its network namespace is gone")
