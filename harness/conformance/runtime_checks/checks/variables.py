"""The variables of each verb and their values; and the versions: the highest that both sides know, for each verb."""

from collections.abc import Iterator
from contextlib import suppress

from harness.conformance.runtime_checks.catalogue import Observation, check, in_json, listed
from harness.conformance.runtime_checks.checks.delete_and_check import is_at_least
from harness.conformance.runtime_checks.history import ATTACHMENT_VERBS, History
from skel.environment import check_container_id, ifname_flaw, parse_cni_args
from skel.errors import CniError
from skel.versions import VERB_SINCE, parse

_REQUIRED = {
    "ADD": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "CHECK": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "DEL": ("CNI_CONTAINERID", "CNI_IFNAME"),
    "GC": ("CNI_PATH",),
}
_VERBS = (*ATTACHMENT_VERBS, "GC", "STATUS", "VERSION")
_ANY = "any request"
_ATTACHMENT = "a request for a container"


@check("command", "runtime-command", needs=_ANY)
def names_a_verb(history: History) -> Iterator[Observation]:
    """CNI_COMMAND is one of the specification's operations."""
    for call in history.calls:
        yield Observation(call, listed(_VERBS), "" if call.verb in _VERBS else repr(call.verb))


@check("variables-set", "runtime-required-variables", needs=_ANY)
def sets_the_variables(history: History) -> Iterator[Observation]:
    """Every required variable of the verb is set, and not empty."""
    for call in history.sent(*_REQUIRED):
        missing = [name for name in _REQUIRED[call.verb] if not call.environ.get(name)]
        yield Observation(call, listed(_REQUIRED[call.verb]), f"without {listed(missing)}" if missing else "")


@check("container-id", "runtime-container-id", "runtime-attachment-container-id", needs=_ATTACHMENT)
def names_the_container(history: History) -> Iterator[Observation]:
    """CNI_CONTAINERID begins with a letter or digit, and goes on with these, '_', '.' and '-'."""
    for call in history.sent(*ATTACHMENT_VERBS):
        got = repr(call.container_id)
        with suppress(CniError):
            check_container_id(call.container_id)
            got = ""
        yield Observation(call, "a valid container ID", got)


@check("ifname", "runtime-attachment-ifname", needs=_ATTACHMENT)
def names_the_interface(history: History) -> Iterator[Observation]:
    """CNI_IFNAME is a name that the kernel accepts for an interface."""
    for call in history.sent(*ATTACHMENT_VERBS):
        flaw = ifname_flaw(call.ifname)
        yield Observation(call, "the name of an interface", f"{call.ifname!r}: {flaw}" if flaw else "")


@check("netns-path", "runtime-attachment-netns", needs="an ADD or CHECK")
def names_the_namespace(history: History) -> Iterator[Observation]:
    """CNI_NETNS of ADD and CHECK is the absolute path of a network namespace."""
    for call in history.sent("ADD", "CHECK"):
        path = call.environ.get("CNI_NETNS", "")
        is_right = path.startswith("/") and call.netns != ""
        yield Observation(call, "the path of a network namespace", "" if is_right else repr(path))


@check("netns-constant", "runtime-attachment-netns", needs="several requests for one container with a namespace")
def keeps_the_namespace(history: History) -> Iterator[Observation]:
    """All requests for a container from its ADD to its DEL have the same network namespace."""
    first: dict[tuple[str, str], str] = {}
    for call in history.sent(*ATTACHMENT_VERBS):
        key = call.container_id, call.ifname
        if call.verb == "ADD" and call.type == history.plugins(history.network(call).name)[0]:
            first[key] = call.netns
        elif call.netns and first.get(key):
            got = "" if call.netns == first[key] else call.netns
            yield Observation(call, first[key], got)


@check("networking-domain", "runtime-networking-domain", needs="a request with a network namespace")
def executes_in_its_own_domain(history: History) -> Iterator[Observation]:
    """Plugins run in the runtime's network namespace, not in the container's."""
    for call in history.sent(*ATTACHMENT_VERBS):
        if call.netns and call.domain:
            inode = call.domain.partition("[")[2].rstrip("]")
            is_inside = call.netns.partition(":")[2] == inode
            yield Observation(call, "the runtime's network namespace", "the container's" if is_inside else "")


@check("cni-args", "runtime-attachment-args", needs="a request with CNI_ARGS")
def writes_args_as_pairs(history: History) -> Iterator[Observation]:
    """CNI_ARGS are pairs KEY=VALUE with semicolons between."""
    for call in history.sent(*ATTACHMENT_VERBS):
        if text := call.environ.get("CNI_ARGS"):
            got = repr(text)
            with suppress(CniError):
                parse_cni_args(text)
                got = ""
            yield Observation(call, "KEY=VALUE;KEY=VALUE", got)


@check("cni-path", "runtime-search-paths", needs="any request but VERSION")
def names_the_folders(history: History) -> Iterator[Observation]:
    """CNI_PATH lists the folders of plugins, among them that of the executed one."""
    for call in history.sent(*(verb for verb in _VERBS if verb != "VERSION")):
        yield Observation(call, "the plugin's folder", "" if call.found else repr(call.environ.get("CNI_PATH", "")))


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
