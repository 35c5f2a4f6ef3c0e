"""Network lists: names that are valid, and plugins that are in a folder beside the list."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, listed
from harness.conformance.runtime_checks.history import History
from harness.conformance.runtime_checks.networks import RecordedNetwork


@check("network-name", "runtime-network-name-characters", needs="a request for, or a report of, a list with a bad name")
def refuses_bad_names(history: History) -> Iterator[Observation]:
    """A list whose name has forbidden characters is refused."""
    for network in history.records.networks:
        if not network.valid and network.document["name"] != network.name:
            yield from _refused(history, network, "no execution of a list with this name")


@check("plugin-type", "runtime-type-characters", needs="a request for, or a report of, a list with a bad type")
def refuses_bad_types(history: History) -> Iterator[Observation]:
    """A plugin whose `type` is a path is not executed."""
    for network in history.records.networks:
        if not network.valid and network.document["name"] == network.name:
            yield from _refused(history, network, "no execution of a type with a slash")


@check(
    "beside-appended",
    "runtime-aggregated-plugins-appended",
    "runtime-aggregated-plugins-associated",
    "runtime-aggregated-plugins-validated",
    "runtime-inlined-plugins-merged",
    needs="an ADD with a plugin from the folder beside the list",
)
def appends_plugins_beside(history: History) -> Iterator[Observation]:
    """Plugins from the folder with the network's name come after those of the list, with this network."""
    for operation in history.of("ADD"):
        [network] = [each for each in history.records.networks if each.name == operation.key.network]
        count = len(network.inlined)
        beside = [type for type in operation.types if type in network.types[count:]]
        if beside and not network.only_inlined:
            is_right = operation.types[count:] == network.types[count:]
            yield Observation(operation.calls[0], listed(network.types), "" if is_right else listed(operation.types))


@check("only-inlined", "runtime-only-inlined", needs="an ADD with loadOnlyInlinedPlugins, and one with a plugin beside")
def obeys_load_only_inlined(history: History) -> Iterator[Observation]:
    """With loadOnlyInlinedPlugins, plugins from the folder are ignored."""
    reads_folders = any(
        call.type in history.network(call).types[len(history.network(call).inlined) :] for call in history.calls
    )
    for operation in history.of("ADD") if reads_folders else ():
        [network] = [each for each in history.records.networks if each.name == operation.key.network]
        if network.only_inlined and network.beside:
            wanted = network.types[: len(network.inlined)]
            strange = [type for type in operation.types if type not in wanted]
            yield Observation(operation.calls[0], listed(wanted), listed(strange) if strange else "")


def _refused(history: History, network: RecordedNetwork, expected: str) -> Iterator[Observation]:
    calls = [call for call in history.sent("ADD", "DEL", "CHECK", "GC", "STATUS") if history.network(call) == network]
    if calls:
        yield Observation(calls[0], expected, listed([f"{call.verb} {call.type}" for call in calls]))
    elif any(report.network == network.name and report.error for report in history.reports("ADD")):
        yield Observation(None, expected)
