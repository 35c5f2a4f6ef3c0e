"""CHECK: only for existing attachments, with the result and the parameters of the ADD, if the list allows it."""

from collections.abc import Iterator

from harness.conformance.runtime_side.demand import Observation, demand
from harness.conformance.runtime_side.demands.deleting import parameters
from harness.conformance.runtime_side.history import History, without_empty
from harness.conformance.runtime_side.wording import in_json, listed

_CHECK = "a CHECK"


@demand("check-order", "runtime-check-every-plugin", needs=_CHECK)
def executes_every_plugin_in_order(history: History) -> Iterator[Observation]:
    """CHECK executes every plugin of the list once, in the list's order; it may end at an error."""
    for operation in history.of("CHECK"):
        plugins = history.plugins(operation.key.network)
        wanted = plugins[: len(operation.calls)] if operation.failed or operation.broken_off else plugins
        is_right = operation.types == wanted
        yield Observation(operation.calls[0], listed(wanted), "" if is_right else listed(operation.types))


@demand("check-prev-result", "runtime-check-prev-result", "runtime-stores-result", needs="a CHECK after an ADD")
def sends_the_result_of_the_add(history: History) -> Iterator[Observation]:
    """Each plugin of a CHECK gets the final result of the ADD as prevResult."""
    for operation in history.of("CHECK"):
        result = history.prev_result(operation)
        for call in operation.calls if result is not None else ():
            wanted = without_empty(result)
            got = without_empty(call.request.get("prevResult"))
            yield Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


@demand("check-parameters", "runtime-check-parameters", "runtime-check-same-parameters", needs="a CHECK after an ADD")
def keeps_the_parameters(history: History) -> Iterator[Observation]:
    """CHECK has the same parameters as the ADD, except CNI_PATH."""
    for operation in history.of("CHECK"):
        added = history.before(operation, "ADD")
        of_type = {call.type: call for call in added.calls} if added else {}
        for call in operation.calls:
            if call.type in of_type:
                wanted, got = parameters(of_type[call.type]), parameters(call)
                yield Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


@demand("check-added-only", "runtime-check-added-only", needs=_CHECK)
def asks_for_attachments_only(history: History) -> Iterator[Observation]:
    """CHECK is sent only between a successful ADD and the DEL."""
    for operation in history.of("CHECK"):
        before = history.before(operation, "ADD", "DEL")
        got = "no ADD before it" if before is None else "a DEL before it" if before.verb == "DEL" else ""
        if before is not None and before.verb == "ADD" and history.result(before) is None:
            got = "an ADD before it that failed"
        yield Observation(operation.calls[0], "a CHECK of an existing attachment", got)


@demand(
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
