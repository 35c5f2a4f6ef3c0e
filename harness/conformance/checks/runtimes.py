"""The requests of every runtime that the specification does not mention: nulls, empty strings, capitals, long names."""

from typing import Any, Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import (
    addresses,
    as_before,
    demand_taken,
    round_trip,
    round_trip_rewritten,
    shared_addresses,
)
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD, Profile
from skel.result import Result

_NULL_SETTINGS: Final = dict.fromkeys(("args", "runtimeConfig", "prevResult", "capabilities", "dns"))
_NULL_DNS: Final = dict.fromkeys(("nameservers", "search", "options"))


@check("null-settings", "habit-null-lists", profiles=GIVING_ADDRESSES)
def null_settings(trial: Trial) -> None:
    """Keys of the protocol that are null are treated as absent."""
    round_trip(trial, "with keys of the protocol that are null", config=_NULL_SETTINGS)
    round_trip(trial, "with lists in dns that are null", config={"dns": _NULL_DNS})


@check("null-in-prev-result", "habit-null-lists")
def null_in_prev_result(trial: Trial) -> None:
    """Empty lists in prevResult may be null: for CHECK and DEL, and for ADD in a chain."""
    round_trip_rewritten(trial, _with_nulls, "nulls in prevResult")


@check("empty-variables", "habit-empty-variables", needs=("del-twice", "del-netns-gone"))
def empty_variables(trial: Trial) -> None:
    """CNI_ARGS, and CNI_NETNS for DEL, may be set and empty."""
    with as_before(trial, "after DEL with CNI_ARGS empty"):
        expect.result(trial.add(environ={"CNI_ARGS": "", "CNI_NETNS_OVERRIDE": ""}), trial.version)
        expect.succeeded(trial.delete(environ={"CNI_ARGS": ""}), "DEL with CNI_ARGS empty")
    expect.succeeded(trial.delete(environ={"CNI_ARGS": "", "CNI_NETNS": ""}), "DEL with CNI_ARGS and CNI_NETNS empty")


@check("prev-result-keys-in-any-case", "habit-keys-in-any-case")
def prev_result_keys_in_any_case(trial: Trial) -> None:
    """The keys in prevResult come in any case: for CHECK and DEL, and for ADD in a chain, which hands it on."""
    with as_before(trial, "after DEL with capitals in prevResult"):
        trial.prepare(trial.container)
        given = trial.prev_result()
        if given is None:
            trial.attach()
        else:
            wanted = addresses(Result.decode_any(given))
            found = addresses(expect.result(trial.add(prev_result=_capitalised(given)), trial.version))
            if not set(wanted) <= set(found):
                raise ViolationError(f"the addresses of prevResult, {wanted}, in the result", f"{found}")
        demand_taken(trial, _capitalised(trial.result_document()), "capitals in prevResult")


@check("long-container-ids", "habit-long-container-id", attachments=3)
def long_container_ids(trial: Trial) -> None:
    """Containers whose IDs of 64 digits differ in the last one only, or the first, are told apart."""
    digits = trial.container.container_id
    last = trial.new_container(container_id=digits[:-1] + ("0" if digits[-1] != "0" else "1"))
    first = trial.new_container(container_id=("0" if digits[0] != "0" else "1") + digits[1:])
    containers = (trial.container, last, first)
    with as_before(trial, "after DEL of them all", *containers):
        given = [addresses(trial.attach(container)) for container in containers]
        shared = shared_addresses(trial, given)
        if shared and trial.subject.profile is not Profile.CHAINED:
            raise ViolationError("addresses of its own for each container", f"shared: {', '.join(shared)}")
        state = trial.snapshot(trial.container)
        for other in (last, first):
            expect.succeeded(trial.delete(other), "DEL of one of them")
        kept = {name: things for name, things in state.sections.items() if name.startswith("pod/")}
        now = trial.snapshot(trial.container).sections
        changed = sorted(name.removeprefix("pod/") for name in kept if kept[name] != now.get(name))
        if changed:
            raise ViolationError("a pod that the DEL of others leaves alone", f"its {', '.join(changed)} changed")
        if trial.has("CHECK"):
            expect.succeeded(trial.check(), "CHECK after DEL of the others")
        expect.succeeded(trial.delete())


@check("first-add-failed", "habit-failed-add-undone", profiles=IN_POD)
def first_add_failed(trial: Trial) -> None:
    """After an ADD that failed, on a node without any ADD before, the next one succeeds."""
    if not trial.subject.delegate:
        raise NotApplicableError("the configuration has no IPAM plugin that could be missing")
    missing = {"ipam": {"type": "no-such-plugin"}}
    expect.failed(trial.add(config=missing), "its IPAM plugin does not exist")
    trial.delete(config=missing)
    trial.attach(trial.new_container())


def _with_nulls(document: object) -> object:
    """Return a result whose lists are null if they are empty or missing."""
    if not isinstance(document, dict):
        return ABSENT
    lists = {key: document.get(key) or None for key in ("interfaces", "ips", "routes")}
    dns = {**_NULL_DNS, **(document.get("dns") or {})}
    return {**document, **lists, "dns": dns}


def _capitalised(document: object) -> Any:  # noqa: ANN401 -- JSON of any shape
    """Return a JSON value with every key of its objects as Go writes the name of a field."""
    if isinstance(document, dict):
        return {key[:1].upper() + key[1:]: _capitalised(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_capitalised(value) for value in document]
    return document
