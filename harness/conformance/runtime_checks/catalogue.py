"""The checks on runtimes: their registry, and the findings that they make of a history of records."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.conformance.catalogue import AnyCheck, described, import_modules
from harness.conformance.finding import Outcome
from harness.conformance.runtime_checks.history import History, Operation
from harness.conformance.runtime_checks.records import RecordedCall, Records
from harness.conformance.sentences import Level
from harness.conformance.threshold import DEFAULT_THRESHOLD, Threshold

_SHOWN: Final = 2000
"""Characters of a JSON text in a finding."""


def in_json(value: object) -> str:
    """Return a value as compact JSON, cut at 2000 characters."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between."""
    return ", ".join(names) or "nothing"


class Observation(NamedTuple):
    """One case in which a check applies. `got` is empty if the runtime does as demanded; `call` shows it."""

    call: RecordedCall | None
    expected: str = ""
    got: str = ""


def compared(call: RecordedCall, wanted: object, got: object) -> Observation:
    """Return the observation of a value that has to be the wanted one; both are JSON."""
    return Observation(call, in_json(wanted), "" if got == wanted else in_json(got))


def compared_types(operation: Operation, wanted: Sequence[str]) -> Observation:
    """Return the observation of an operation that has to execute the wanted plugins, in this order."""
    return Observation(operation.calls[0], listed(wanted), "" if operation.types == wanted else listed(operation.types))


def compared_order(history: History, verb: str, *, backwards: bool = False) -> Iterator[Observation]:
    """Yield an observation for each operation: it has to execute the list's plugins in order, up to an error."""
    for operation in history.of(verb):
        plugins = history.plugins(operation.key.network)[:: -1 if backwards else 1]
        yield compared_types(
            operation, plugins[: len(operation.calls)] if operation.failed or operation.broken_off else plugins
        )


Observe = Callable[[History], Iterator[Observation]]


@dataclass(frozen=True)
class RuntimeCheck(AnyCheck):
    """A check of runtimes. `needs` is the case without which nothing is examined."""

    side = "runtimes"
    needs: str
    look: Observe


_registry: Final[dict[str, RuntimeCheck]] = {}


def check(id: str, *sentences: str, needs: str, level: Level | None = None) -> Callable[[Observe], Observe]:  # noqa: A002 -- the name that is used everywhere
    """Register a function as the check of these sentences about runtimes.

    Its docstring's first line is the title. `level` is that of the first sentence, unless it is given.
    """

    def register(look: Observe) -> Observe:
        title, first = described(id, sentences, look, _registry)
        _registry[id] = RuntimeCheck(id, title, sentences, level or first.level, needs, look)
        return look

    return register


def runtime_checks() -> Sequence[RuntimeCheck]:
    """Return every check, in the order of the modules and of the functions in them."""
    from harness.conformance.runtime_checks import checks as package

    import_modules(package)
    return list(_registry.values())


class RuntimeFinding(NamedTuple):
    """One check's finding about a runtime: `cases` were looked at, and `breaches` of them are not as demanded."""

    check: RuntimeCheck
    outcome: Outcome
    cases: int = 0
    breaches: tuple[Observation, ...] = ()

    @property
    def violates_must(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST


def judge(
    records: Records, checks: Sequence[RuntimeCheck] = (), threshold: Threshold = DEFAULT_THRESHOLD
) -> list[RuntimeFinding]:
    """Return the findings of `checks`, or of all checks, in their order; `threshold` tells which violations fail."""
    history = History(records)
    return [_finding(check, history, threshold) for check in checks or runtime_checks()]


def _finding(check: RuntimeCheck, history: History, threshold: Threshold) -> RuntimeFinding:
    observations = list(check.look(history))
    breaches = tuple(each for each in observations if each.got)
    if breaches:
        outcome = Outcome.FAIL if threshold.counts(check.id, check.level, check.side) else Outcome.WARN
    else:
        outcome = Outcome.PASS if observations else Outcome.NOT_EXAMINED
    return RuntimeFinding(check, outcome, len(observations), breaches)
