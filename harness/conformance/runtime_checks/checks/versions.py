"""Versions: the highest that both sides know, and verbs only in versions that have them."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, in_json
from harness.conformance.runtime_checks.checks.delete_and_check import is_at_least
from harness.conformance.runtime_checks.history import History
from skel.errors import CniError
from skel.versions import VERB_SINCE, parse


@check(
    "version-highest",
    "runtime-highest-version",
    needs="evidence of the versions that the runtime speaks: VERSION, the highest version of a list, or --speaks",
)
def takes_the_highest_version(history: History) -> Iterator[Observation]:
    """Requests are of the highest version that the list offers and the runtime speaks."""
    said = history.records.speaks or max((call.version for call in history.sent("VERSION")), key=_order, default="")
    highest = max([said, *(call.version for call in history.calls)], key=_order)
    for call in history.sent("ADD", "DEL", "CHECK", "GC", "STATUS"):
        offered = history.network(call).versions
        spoken = [version for version in offered if _order(version) <= _order(highest)]
        wanted = max(spoken or offered, key=_order)
        if said or call.version != wanted or wanted == max(offered, key=_order):
            yield Observation(call, wanted, "" if call.version == wanted else call.version or "no version")


@check("version-constant", "runtime-configuration-until-delete", needs="requests after an ADD")
def keeps_the_version(history: History) -> Iterator[Observation]:
    """CHECK and DEL are of the version of the ADD."""
    for operation in history.of("CHECK", "DEL"):
        added = history.before(operation, "ADD")
        for call in operation.calls if added else ():
            wanted = added.calls[0].version if added else ""
            yield Observation(call, wanted, "" if call.version == wanted else call.version or "no version")


@check("verb-in-version", "runtime-verb-since", needs="a CHECK, GC or STATUS")
def sends_known_verbs(history: History) -> Iterator[Observation]:
    """CHECK is sent from version 0.4.0 on, GC and STATUS from 1.1.0 on."""
    for call in history.sent(*VERB_SINCE):
        since = VERB_SINCE[call.verb]
        got = "" if is_at_least(call, since) else f"{call.verb} in {call.version or 'no version'}"
        yield Observation(call, f"version {since} or later", got)


@check("version-input", "runtime-version-input", needs="a VERSION")
def gives_version_its_input(history: History) -> Iterator[Observation]:
    """VERSION gets an object with `cniVersion`."""
    for call in history.sent("VERSION"):
        got = call.request.get("cniVersion")
        yield Observation(call, 'cniVersion: "…"', "" if isinstance(got, str) and got else in_json(got))


def _order(version: str) -> tuple[int, int, int]:
    try:
        return parse(version) if version else (0, 0, 0)
    except CniError:
        return (0, 0, 0)
