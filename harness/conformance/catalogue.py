"""The registry of checks (the ID, the sentences and the profiles of each), and the version of the suite."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.conformance.sentences import Level, Sentence, load
from harness.conformance.subject import Profile
from harness.conformance.threshold import Effect, effects
from skel.versions import SUPPORTED, at_least

if TYPE_CHECKING:
    from harness.conformance.engine.trial import Trial

SPEC_VERSION: Final = "1.1.0"
"""The version of SPEC.md whose sentences the checks enforce."""
SUITE_VERSION: Final = f"{SPEC_VERSION}-3"
"""The suite's own version. A check that is added, removed or stricter makes the number behind the hyphen grow."""

ALL: Final = frozenset(Profile)

Action = Callable[["Trial"], str | None]


class Check(NamedTuple):
    """One check. `title` is the demand as a sentence; `level` is its level in the present version of SPEC.md.

    In versions before `since` it does not apply. `attachments` is the number of simultaneous attachments that the check
    needs. `repeats` is how often it runs again if it fails, to tell whether it always does. `needs` has the IDs of
    checks whose demands it takes for granted.
    """

    id: str
    title: str
    sentences: tuple[str, ...]
    level: Level
    profiles: frozenset[Profile]
    since: str
    run: Action
    attachments: int = 1
    repeats: int = 0
    needs: tuple[str, ...] = ()

    @property
    def enforced(self) -> Sequence[Sentence]:
        """The sentences that it enforces, the most telling one first."""
        known = load()
        return [known[name] for name in self.sentences]

    def level_in(self, version: str) -> Level | None:
        """Return its level in a version of SPEC.md, None if it does not apply there.

        The level is that of its first sentence. A check that has another one of its own keeps that, unless the sentence
        is less binding in that version.
        """
        sentence = self.enforced[0]
        level = sentence.level_in(version)
        if level is None or not at_least(version, self.since):
            return None
        return self.level if level is sentence.level else max(self.level, level, key=list(Level).index)

    @property
    def levels(self) -> Mapping[str, Level]:
        """Its levels by the version that each came with, the first one first."""
        found: dict[str, Level] = {}
        for version in SUPPORTED:
            level = self.level_in(version)
            if level is not None and level is not next(reversed(found.values()), None):
                found[version] = level
        return found

    @property
    def effect(self) -> Effect | None:
        """The effect of a violation on pods, the node or the runtime, None for no effect."""
        return effects().get(self.id)


_registry: dict[str, Check] = {}


def check(
    id: str,  # noqa: A002 -- the name that is used everywhere
    *sentences: str,
    profiles: Iterable[Profile] = ALL,
    since: str = "",
    level: Level | None = None,
    attachments: int = 1,
    repeats: int = 0,
    needs: tuple[str, ...] = (),
) -> Callable[[Action], Action]:
    """Register a function as the check of these sentences.

    Its docstring's first line is the title. `level` is that of the first sentence, unless it is given. `since` is given
    if the check needs something that is newer than its first sentence, such as a verb. A violation counts only if the
    network has room for `attachments` at once. A check that depends on chance `repeats` if it fails. `needs` has IDs of
    checks: if one of them fails, a violation in the same verb counts as theirs. The function returns if the plugin does
    as demanded; it may return words on the evidence. It raises ViolationError or NotApplicableError otherwise.
    """

    def register(run: Action) -> Action:
        if id in _registry:
            message = f"two checks are called {id}"
            raise ValueError(message)
        title = (run.__doc__ or "").strip().partition("\n")[0]
        known = load()
        unknown = [name for name in sentences if name not in known]
        if unknown or not sentences or not title:
            message = f"check {id}: sentences that exist and a docstring are wanted, not {unknown or sentences}"
            raise ValueError(message)
        told = known[sentences[0]].levels[0][0]
        if since and at_least(told, since):
            message = f"check {id}: its first sentence came with {told}, so since={since} says nothing"
            raise ValueError(message)
        _registry[id] = Check(
            id=id,
            title=title,
            sentences=sentences,
            level=level or known[sentences[0]].level,
            profiles=frozenset(profiles),
            since=since or told,
            run=run,
            attachments=attachments,
            repeats=repeats,
            needs=needs,
        )
        return run

    return register


def checks() -> Sequence[Check]:
    """Return every check, in the order of the modules and of the functions in them."""
    from harness.conformance import checks as package

    for module in sorted(iter_modules(package.__path__), key=lambda found: found.name):
        import_module(f"{package.__name__}.{module.name}")
    return list(_registry.values())
