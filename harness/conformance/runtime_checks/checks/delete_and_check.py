"""DEL and CHECK: the order, the result and the parameters of the ADD; and CHECK only of existing attachments."""

from collections.abc import Iterator, Mapping

from harness.conformance.runtime_checks.catalogue import (
    Observation,
    check,
    compared,
    compared_order,
    listed,
)
from harness.conformance.runtime_checks.history import History, without_empty
from harness.conformance.runtime_checks.records import RecordedCall
from skel.errors import CniError
from skel.versions import VERB_SINCE, at_least

_DEL_OF_ADDED = "a DEL after an ADD"
_CHECK = "a CHECK"


@check("del-reverse-order", "runtime-delete-reversed", needs="a DEL")
def deletes_in_reverse_order(history: History) -> Iterator[Observation]:
    """DEL executes every plugin of the list once, in reverse order; it may end at an error."""
    yield from compared_order(history, "DEL", backwards=True)


@check("del-prev-result", "runtime-del-prev-result", "runtime-stores-result", needs="a DEL after a successful ADD")
def deletes_with_the_result(history: History) -> Iterator[Observation]:
    """Each plugin of a DEL gets the final result of the ADD as prevResult, from version 0.4.0 on."""
    for operation in history.of("DEL"):
        result = history.prev_result(operation)
        for call in operation.calls if result is not None else ():
            if is_at_least(call, VERB_SINCE["CHECK"]):
                yield compared(call, without_empty(result), without_empty(call.request.get("prevResult")))


@check("del-stops-at-error", "runtime-delete-halts", needs="a DEL that failed, after a successful ADD")
def stops_at_an_error(history: History) -> Iterator[Observation]:
    """DEL of an attachment ends at the first error, and returns it."""
    for operation in history.of("DEL"):
        failing = [index for index, call in enumerate(operation.calls) if call.failed]
        if failing and history.prev_result(operation) is not None:
            later = operation.types[failing[0] + 1 :]
            call = operation.calls[failing[0]]
            yield Observation(call, f"no DEL after that of {call.type}", listed(later) if later else "")


@check("del-parameters", "runtime-configuration-per-attachment", needs=_DEL_OF_ADDED)
def deletes_with_the_parameters(history: History) -> Iterator[Observation]:
    """DEL has the namespace (or none), CNI_ARGS and runtimeConfig of the ADD."""
    for call, added in _pairs(history, "DEL"):
        netns = call.environ.get("CNI_NETNS", "")
        wanted, got = _parameters(added), _parameters(call)
        if not netns:
            wanted.pop("CNI_NETNS")
            got.pop("CNI_NETNS")
        yield compared(call, wanted, got)


@check("del-configuration", "runtime-configuration-until-delete", needs=_DEL_OF_ADDED)
def keeps_the_configuration(history: History) -> Iterator[Observation]:
    """DEL has the configuration of the ADD, apart from prevResult and runtimeConfig."""
    for call, added in _pairs(history, "DEL"):
        yield compared(call, _configuration(added), _configuration(call))


@check("namespace-removed", "runtime-netns-cleanup", needs="a container whose every attachment is deleted")
def removes_the_namespace(history: History) -> Iterator[Observation]:
    """The network namespace of a container is gone, once its attachments are deleted and the container has ended."""
    last = history.calls[-1].start + 1 if history.calls else 0
    keys = history.attachments()
    living = {key.container_id for key in keys if not history.is_deleted(key, last)}
    for key in keys:
        operation = history.last(key, last, "ADD")
        if key.container_id not in living and operation is not None and operation.calls[0].netns:
            call = operation.calls[0]
            is_there = call.netns in history.records.living
            yield Observation(call, "no namespace", f"{call.environ['CNI_NETNS']} exists" if is_there else "")


def _parameters(call: RecordedCall) -> dict[str, object]:
    """Return the parameters of an attachment, as a request has them; the order of CNI_ARGS has no meaning."""
    variables = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")
    found: dict[str, object] = {name: call.environ.get(name, "") for name in variables}
    found["CNI_ARGS"] = sorted(call.environ.get("CNI_ARGS", "").split(";"))
    return {**found, "runtimeConfig": without_empty(call.request.get("runtimeConfig", {}))}


def is_at_least(call: RecordedCall, version: str) -> bool:
    """Tell whether a request is of a version or a later one; one without a version is of the oldest."""
    try:
        return at_least(call.version, version)
    except CniError:
        return False


def _pairs(history: History, verb: str) -> Iterator[tuple[RecordedCall, RecordedCall]]:
    """Yield each call of a verb with that of the ADD of the same plugin before it."""
    for operation in history.of(verb):
        added = history.before(operation, "ADD")
        of_type = {call.type: call for call in added.calls} if added else {}
        yield from ((call, of_type[call.type]) for call in operation.calls if call.type in of_type)


def _configuration(call: RecordedCall) -> Mapping[str, object]:
    return {key: value for key, value in call.request.items() if key not in {"prevResult", "runtimeConfig"}}


@check("check-order", "runtime-check-every-plugin", needs=_CHECK)
def checks_in_order(history: History) -> Iterator[Observation]:
    """CHECK executes every plugin of the list once, in the list's order; it may end at an error."""
    yield from compared_order(history, "CHECK")


@check("check-prev-result", "runtime-check-prev-result", "runtime-stores-result", needs="a CHECK after an ADD")
def checks_with_the_result(history: History) -> Iterator[Observation]:
    """Each plugin of a CHECK gets the final result of the ADD as prevResult."""
    for operation in history.of("CHECK"):
        result = history.prev_result(operation)
        for call in operation.calls if result is not None else ():
            yield compared(call, without_empty(result), without_empty(call.request.get("prevResult")))


@check("check-parameters", "runtime-check-parameters", "runtime-check-same-parameters", needs="a CHECK after an ADD")
def checks_with_the_parameters(history: History) -> Iterator[Observation]:
    """CHECK has the same parameters as the ADD, except CNI_PATH."""
    for call, added in _pairs(history, "CHECK"):
        yield compared(call, _parameters(added), _parameters(call))


@check("check-added-only", "runtime-check-added-only", needs=_CHECK)
def asks_for_attachments_only(history: History) -> Iterator[Observation]:
    """CHECK is sent only between a successful ADD and the DEL."""
    for operation in history.of("CHECK"):
        before = history.before(operation, "ADD", "DEL")
        got = "no ADD before it" if before is None else "a DEL before it" if before.verb == "DEL" else ""
        if before is not None and before.verb == "ADD" and history.result(before) is None:
            got = "an ADD before it that failed"
        yield Observation(operation.calls[0], "a CHECK of an existing attachment", got)


@check(
    "check-disabled",
    "runtime-disable-check",
    "runtime-check-disabled",
    needs="a CHECK, and pods on the network with disableCheck",
)
def obeys_disable_check(history: History) -> Iterator[Observation]:
    """No CHECK is sent for a list with disableCheck."""
    yield from disabled(history, "CHECK")


def disabled(history: History, verb: str) -> Iterator[Observation]:
    """Yield an observation for each network that forbids a verb, and on which there were attachments.

    If the runtime never sends the verb at all, nothing is known of its obedience.
    """
    uses_it = next(history.sent(verb), None) is not None
    for network in history.records.networks:
        if not network.is_disabled(verb):
            continue
        sent = [call for call in history.sent(verb) if history.network(call) == network]
        if sent:
            yield Observation(sent[0], f"no {verb} for {network.name}", listed([call.type for call in sent]))
        elif uses_it and any(key.network == network.name for key in history.attachments()):
            yield Observation(None, f"no {verb} for {network.name}")
