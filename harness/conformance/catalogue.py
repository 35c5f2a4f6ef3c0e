"""The registry of checks (the ID, the sentences and the profiles of each), and the version of the suite."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Final

from harness.conformance.sentences import Level, Sentence, load
from harness.conformance.subject import Profile
from harness.conformance.threshold import Effect, Side, effects
from skel.versions import SUPPORTED, at_least

if TYPE_CHECKING:
    from harness.conformance.engine.trial import Trial

SPEC_VERSION: Final = "1.1.0"
"""The version of SPEC.md whose sentences the checks enforce."""
SUITE_VERSION: Final = f"{SPEC_VERSION}-3"
"""The suite's own version. A check that is added, removed or stricter makes the number behind the hyphen grow."""

ALL: Final = frozenset(Profile)

Action = Callable[["Trial"], str | None]


@dataclass(frozen=True)
class AnyCheck:
    """A check of plugins or of runtimes. `title` is the demand as a sentence; `level` is the one in today's SPEC.md."""

    side: ClassVar[Side]
    id: str
    title: str
    sentences: tuple[str, ...]
    level: Level

    @property
    def enforced(self) -> Sequence[Sentence]:
        """The sentences that it enforces, the most telling one first."""
        known = load()
        return [known[name] for name in self.sentences]

    @property
    def effect(self) -> Effect | None:
        """The effect of a violation on pods, the node or the runtime, None for no effect."""
        return effects(self.side).get(self.id)


@dataclass(frozen=True)
class Check(AnyCheck):
    """A check of plugins. `level_in` has its level in other versions of SPEC.md than the present one.

    In versions before `since` it does not apply. `attachments` is the number of simultaneous attachments that the check
    needs. `repeats` is how often it runs again if it fails, to tell whether it always does. `needs` has the IDs of
    checks whose demands it takes for granted.
    """

    side = "plugins"
    profiles: frozenset[Profile]
    since: str
    run: Action
    attachments: int = 1
    repeats: int = 0
    needs: tuple[str, ...] = ()

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
        title, first = described(id, sentences, run, _registry)
        told = first.levels[0][0]
        if since and at_least(told, since):
            message = f"check {id}: its first sentence came with {told}, so since={since} says nothing"
            raise ValueError(message)
        _registry[id] = Check(
            id=id,
            title=title,
            sentences=sentences,
            level=level or first.level,
            profiles=frozenset(profiles),
            since=since or told,
            run=run,
            attachments=attachments,
            repeats=repeats,
            needs=needs,
        )
        return run

    return register


def registered() -> Sequence[Check]:
    """Return every check whose module was imported, in the order of the modules and of the functions in them."""
    return list(_registry.values())


def described(
    id: str,  # noqa: A002 -- the name that is used everywhere
    sentences: Sequence[str],
    function: Callable[..., object],
    others: Iterable[str],
) -> tuple[str, Sentence]:
    """Return the title of a check, which is its function's docstring, and its first sentence.

    Raises ValueError if one of the `others` has its ID, or if it has no title or no sentences that exist.
    """
    known = load()
    title = (function.__doc__ or "").strip().partition("\n")[0]
    if id in others or not title or not sentences or any(name not in known for name in sentences):
        message = f"check {id}: a new ID, sentences that exist and a docstring are wanted, not {sentences}"
        raise ValueError(message)
    return title, known[sentences[0]]


def import_modules(package: ModuleType) -> None:
    """Import the modules of a package, whose checks register themselves, in the order of their names."""
    for module in sorted(iter_modules(package.__path__), key=lambda found: found.name):
        import_module(f"{package.__name__}.{module.name}")
