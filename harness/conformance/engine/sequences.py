"""Sequences of verbs that many checks use, and what they require of the node and of the result at the end."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Final, TypeAlias, Unpack

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.kernel import Address, links
from harness.conformance.engine.requests import Changes, TrialContainer
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.overload import once
from harness.snapshot import Difference, Snapshot
from skel.result import Result

RESULT_LISTS_SINCE: Final = "0.3.0"
"""The version that brought the lists of interfaces and addresses into results."""
VERSION_SINCE: Final = "0.2.0"
"""The version that brought the verb VERSION."""
BARE_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of a process of the system whose environment sets none."""
_SETTLING_SECONDS: Final = 5.0

_Kind: TypeAlias = tuple[str, str, str]


@contextmanager
def as_before(trial: Trial, when: str, *containers: TrialContainer) -> Iterator[None]:
    """Demand that the block leaves the node as it was, with everything that pods share already on it.

    The containers are new, since some plugins leave things in a pod until its end: `del-undoes-add` reports those. At
    the end the plugins before the one under test clean up as well, which also removes a chained plugin's leftovers on
    an interface: no runtime adds to the same interface again.
    """
    trial.warm_up()
    before = trial.snapshot(*containers)
    yield
    for container in containers or (trial.container,):
        trial.detach_others(container)
    demand_no_more(trial, before, when, *containers)


def round_trip(trial: Trial, when: str, **changes: Unpack[Changes]) -> Result:
    """Demand that ADD and DEL, both with the same changes, succeed and leave no more than ordinary ones.

    It returns the result of ADD. `when` names the difference: "without a PATH". Leftovers are looked for after the DEL
    of the plugins before this one. Each round trip has a container of its own.
    """
    if "config" in changes:
        _come_and_go(trial, trial.new_container(), when, changes)  # it may make more things that pods share
    _come_and_go(trial, trial.new_container(), "as usual", {})
    container = trial.new_container()
    before = trial.snapshot(container)
    result = _come_and_go(trial, container, when, changes)
    demand_no_more(trial, before, f"after ADD and DEL {when}", container)
    return result


def _come_and_go(trial: Trial, container: TrialContainer, when: str, changes: Changes) -> Result:
    result = expect.result(trial.add(container, **changes), trial.version, f"ADD {when}")
    expect.succeeded(trial.delete(container, **changes), f"DEL {when}")
    trial.detach_others(container)
    return result


def round_trip_rewritten(trial: Trial, rewrite: Callable[[object], object], words: str) -> None:
    """Demand that ADD in a chain, CHECK and DEL take a rewritten prevResult. `words` name it: "nulls in prevResult"."""
    with as_before(trial, f"after DEL with {words}"):
        trial.prepare(trial.container)
        given = trial.prev_result()
        added = trial.add() if given is None else trial.add(prev_result=rewrite(given))
        expect.result(added, trial.version)
        demand_taken(trial, rewrite(trial.result_document()), words)


def demand_taken(trial: Trial, prev_result: object, words: str) -> None:
    """Demand that CHECK and DEL take this prevResult."""
    if trial.has("CHECK"):
        expect.succeeded(trial.check(prev_result=prev_result), f"CHECK with {words}")
    expect.succeeded(trial.delete(prev_result=prev_result), f"DEL with {words}")


def demand_soon_same(trial: Trial, before: Snapshot, when: str, *containers: TrialContainer) -> None:
    """Demand that the node is as before, once the kernel has finished its removals in the background."""
    expect.no_difference(settled(trial, before, *containers), f"a node as it was before, {when}")


def demand_no_more(trial: Trial, before: Snapshot, when: str, *containers: TrialContainer) -> None:
    """Demand so after ADD and DEL of these containers, or of the trial's; leftovers of ordinary ones do not count."""
    attachments = max(1, len(containers))

    def are_usual(left: list[Difference]) -> bool:
        is_known = trial.version in trial.options.usual_leftovers
        return not left or (is_known and not unusual_leftovers(trial, left, attachments))

    left = once(lambda: trial.leftovers(before, trial.snapshot(*containers)), are_usual, _SETTLING_SECONDS)
    expect.no_difference(unusual_leftovers(trial, left, attachments), f"a node as it was before, {when}")


def demand_room(trial: Trial, attachments: int) -> None:
    """Raise NotApplicableError if the network has room for some attachments at once, but not for so many.

    The room is found out on another node, by one ADD after the other.
    """
    elsewhere, held = Trial(trial.subject, trial.site, trial.options), 0
    while held < attachments and elsewhere.add(elsewhere.new_container()).exit_code == 0:
        held += 1
    if 0 < held < attachments:
        raise NotApplicableError(f"the network holds only {held} of the {attachments} attachments that this takes")


def attach_unusual(trial: Trial, container: TrialContainer) -> None:
    """Attach a container of an unusual name; if that fails, demand first that the trial's container can be attached.

    An ADD that always fails is another check's finding, and its message may have the unusual name in it.
    """
    added = trial.add(container)
    if added.exit_code != 0:
        trial.attach()
    expect.result(added, trial.version)


def attach_also(trial: Trial, container: TrialContainer) -> None:
    """ADD of a container's second interface. Raises NotApplicableError if it fails."""
    if trial.add(container).exit_code != 0:
        raise NotApplicableError("the plugin gives a container no second interface, which it may refuse")


def clean_up(trial: Trial, container: TrialContainer) -> None:
    """DEL of the plugin under test, whose outcome is ignored, and then of those before it."""
    trial.delete(container)
    trial.detach_others(container)


def declared(trial: Trial, capability: str) -> None:
    """Raise NotApplicableError if the configuration does not declare a capability."""
    if capability not in trial.subject.plugin.capabilities:
        raise NotApplicableError(f'the configuration does not declare the capability "{capability}"')


def refuses(trial: Trial, **changes: Unpack[Changes]) -> bool:
    """Tell whether an ADD of a new container fails; a DEL follows, as in a runtime.

    A first ADD that fails may affect later ones, which is another check's subject: warm up before.
    """
    container = trial.new_container()
    execution = trial.add(container, **changes)
    clean_up(trial, container)
    return execution.exit_code != 0


def addresses(result: Result) -> list[str]:
    """Return the addresses of a result, without their prefix lengths."""
    return [str(each.address.ip) for each in result.ips]


def shared_addresses(trial: Trial, given: Iterable[Iterable[str]]) -> list[str]:
    """Return the addresses that several pods were given, without those that the configuration gives to each."""
    # In JSON an address ends at its quotation mark or at its prefix length, so that 10.0.0.1 is not found in 10.0.0.11.
    written = json.dumps(trial.subject.plugin.raw)
    times = Counter(address for each in given for address in set(each))
    return sorted(
        address
        for address, pods in times.items()
        if pods > 1 and not any(f'"{address}{end}' in written for end in '"/')
    )


def spare_addresses(trial: Trial, count: int = 1) -> list[Address]:
    """Return `count` free addresses that the plugin gives, none of them the one that it would give next.

    They are of one family. Raises NotApplicableError if the plugin gives none.
    """
    containers = [trial.new_container() for _ in range(count + 1)]
    given = [[each.address for each in trial.attach(container).ips] for container in containers]
    for container in containers:
        trial.detach(container)
    if not all(given):
        raise NotApplicableError("the plugin gives no addresses")
    if given[0][0] == given[1][0]:
        raise NotApplicableError("the plugin gives every pod the same address")
    # An allocator of the lowest address gives the first; one that goes on gives none of these.
    return [each[0] for each in given[1:]]


def pod_mac(trial: Trial) -> str:
    """Return the hardware address that the container's interface really has, or an empty string if it is missing."""
    link = links(trial.container.netns).get(trial.container.ifname)
    return link.mac if link else ""


def settled(
    trial: Trial, before: Snapshot, *containers: TrialContainer, seconds: float = _SETTLING_SECONDS
) -> list[Difference]:
    """Return the differences to `before` that remain after a time for what goes on in the background.

    The kernel removes the content of a namespace there, and processes end.
    """
    return once(lambda: trial.leftovers(before, trial.snapshot(*containers)), lambda left: not left, seconds)


def unusual_leftovers(trial: Trial, left: Sequence[Difference], attachments: int = 1) -> list[Difference]:
    """Return the differences of which there are more than an ordinary ADD and DEL leave, for so many attachments.

    `left` are the differences after unusual requests. They are compared by place and kind, since their names vary from
    container to container. A container on another node shows the ordinary ones; if it fails, all of `left` count.
    """
    if not left:
        return []
    usual, times = _usual_leftovers(trial), Counter(map(_kind_of, left))
    return [each for each in left if times[_kind_of(each)] > usual[_kind_of(each)] * attachments]


def _kind_of(difference: Difference) -> _Kind:
    """Return the place, the kind of thing and the kind of difference; all pods are one place."""
    return difference.place.rstrip("0123456789"), difference.thing, difference.kind


def _usual_leftovers(trial: Trial) -> Counter[_Kind]:
    known = trial.options.usual_leftovers
    if trial.version not in known:
        elsewhere = Trial(trial.subject, trial.site, trial.options)
        try:
            elsewhere.warm_up()
            before = elsewhere.snapshot()
            elsewhere.come_and_go()
        except (ViolationError, NotApplicableError):
            return Counter()
        known[trial.version] = Counter(map(_kind_of, settled(elsewhere, before)))
    return known[trial.version]


Mismatches: TypeAlias = Callable[[Trial, Result], Iterable[ViolationError]]


def check_of_result(id: str, *sentences: str, **settings: Any) -> Callable[[Mismatches], Mismatches]:  # noqa: A002, ANN401 -- as `check` has them
    """Register a check that demands a result that the kernel's state confirms. For the rest see `check`.

    The function yields the mismatches as violations, or raises NotApplicableError first. A mismatch that prevResult has
    already, compared with the kernel's state before this ADD, does not count: another plugin has made it.
    """

    def register(mismatches: Mismatches) -> Mismatches:
        @check(id, *sentences, **settings)
        @wraps(mismatches)
        def run(trial: Trial) -> None:
            trial.prepare(trial.container)
            given, known = trial.prev_result(), set[str]()
            if given is not None:
                with suppress(NotApplicableError):
                    known = {violation.expected for violation in mismatches(trial, Result.decode_any(given))}
            for violation in mismatches(trial, trial.attach()):
                if violation.expected not in known:
                    raise violation

        return mismatches

    return register
