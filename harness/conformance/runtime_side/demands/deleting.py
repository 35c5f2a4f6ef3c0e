"""DEL: the reverse order, the result of the ADD, unchanged parameters and configuration."""

from collections.abc import Iterator, Mapping

from harness.conformance.runtime_side.demand import Observation, demand
from harness.conformance.runtime_side.history import History, without_empty
from harness.conformance.runtime_side.records import Call
from harness.conformance.runtime_side.wording import in_json, listed
from skel.errors import CniError
from skel.versions import VERB_SINCE, at_least

_DEL_OF_ADDED = "a DEL after an ADD"


@demand("del-reverse-order", "runtime-delete-reversed", needs="a DEL")
def executes_every_plugin_in_reverse(history: History) -> Iterator[Observation]:
    """DEL executes every plugin of the list once, in reverse order; it may end at an error."""
    for operation in history.of("DEL"):
        plugins = history.plugins(operation.key.network)[::-1]
        wanted = plugins[: len(operation.calls)] if operation.failed or operation.broken_off else plugins
        is_right = operation.types == wanted
        yield Observation(operation.calls[0], listed(wanted), "" if is_right else listed(operation.types))


@demand("del-prev-result", "runtime-del-prev-result", "runtime-stores-result", needs="a DEL after a successful ADD")
def sends_the_result_of_the_add(history: History) -> Iterator[Observation]:
    """Each plugin of a DEL gets the final result of the ADD as prevResult, from version 0.4.0 on."""
    for operation in history.of("DEL"):
        result = history.prev_result(operation)
        for call in operation.calls if result is not None else ():
            if is_at_least(call, VERB_SINCE["CHECK"]):
                wanted = without_empty(result)
                got = without_empty(call.request.get("prevResult"))
                yield Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


@demand("del-stops-at-error", "runtime-delete-halts", needs="a DEL that failed, after a successful ADD")
def stops_at_an_error(history: History) -> Iterator[Observation]:
    """DEL of an attachment ends at the first error, and returns it."""
    for operation in history.of("DEL"):
        failing = [index for index, call in enumerate(operation.calls) if call.failed]
        if failing and history.prev_result(operation) is not None:
            later = operation.types[failing[0] + 1 :]
            call = operation.calls[failing[0]]
            yield Observation(call, f"no DEL after that of {call.type}", listed(later) if later else "")


@demand("del-parameters", "runtime-configuration-per-attachment", needs=_DEL_OF_ADDED)
def keeps_the_parameters(history: History) -> Iterator[Observation]:
    """DEL has the namespace (or none), CNI_ARGS and runtimeConfig of the ADD."""
    for call, added in _pairs(history):
        netns = call.environ.get("CNI_NETNS", "")
        wanted, got = parameters(added), parameters(call)
        if not netns:
            wanted.pop("CNI_NETNS")
            got.pop("CNI_NETNS")
        yield Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


@demand("del-configuration", "runtime-configuration-until-delete", needs=_DEL_OF_ADDED)
def keeps_the_configuration(history: History) -> Iterator[Observation]:
    """DEL has the configuration of the ADD, apart from prevResult and runtimeConfig."""
    for call, added in _pairs(history):
        wanted, got = _configuration(added), _configuration(call)
        yield Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


@demand("namespace-removed", "runtime-netns-cleanup", needs="a container whose every attachment is deleted")
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


def parameters(call: Call) -> dict[str, object]:
    """Return the parameters of an attachment, as a request has them; the order of CNI_ARGS has no meaning."""
    variables = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")
    found: dict[str, object] = {name: call.environ.get(name, "") for name in variables}
    found["CNI_ARGS"] = sorted(call.environ.get("CNI_ARGS", "").split(";"))
    return {**found, "runtimeConfig": without_empty(call.request.get("runtimeConfig", {}))}


def is_at_least(call: Call, version: str) -> bool:
    """Tell whether a request is of a version or a later one; one without a version is of the oldest."""
    try:
        return at_least(call.version, version)
    except CniError:
        return False


def _pairs(history: History) -> Iterator[tuple[Call, Call]]:
    """Yield each call of a DEL with that of the ADD of the same plugin before it."""
    for operation in history.of("DEL"):
        added = history.before(operation, "ADD")
        of_type = {call.type: call for call in added.calls} if added else {}
        yield from ((call, of_type[call.type]) for call in operation.calls if call.type in of_type)


def _configuration(call: Call) -> Mapping[str, object]:
    return {key: value for key, value in call.request.items() if key not in {"prevResult", "runtimeConfig"}}
