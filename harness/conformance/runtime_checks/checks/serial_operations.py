"""Operations for one container: one after the other."""

from collections.abc import Iterator

from harness.conformance.runtime_checks.catalogue import Observation, check, listed
from harness.conformance.runtime_checks.checks.gc_and_status import in_words, overlap
from harness.conformance.runtime_checks.history import ATTACHMENT_VERBS, History


@check("one-at-a-time", "runtime-one-operation-a-container", needs="several operations for one container")
def takes_turns_for_a_container(history: History) -> Iterator[Observation]:
    """No two operations for one container run at the same time, also for different networks and interfaces."""
    operations = list(history.of(*ATTACHMENT_VERBS))
    for index, operation in enumerate(operations):
        others = [each for each in operations[:index] if each.key.container_id == operation.key.container_id]
        if others:
            at_once = [each for each in others if overlap(each, operation)]
            got = listed([in_words(each) for each in at_once]) if at_once else ""
            yield Observation(operation.calls[0], f"{in_words(operation)} alone", got)
