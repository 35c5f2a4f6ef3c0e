"""The registry of checks on runtimes: each looks at a history, and yields an observation for each case."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, NamedTuple

from harness.conformance.runtime_side.history import History
from harness.conformance.runtime_side.records import Call
from harness.conformance.sentences import Level, Sentence, load


class Observation(NamedTuple):
    """One case in which a check applies. `got` is empty if the runtime does as demanded; `call` shows it."""

    call: Call | None
    expected: str = ""
    got: str = ""


Look = Callable[[History], Iterator[Observation]]


class RuntimeCheck(NamedTuple):
    """One check. `title` is the demand as a sentence; `needs` is the case without which nothing is examined."""

    id: str
    title: str
    sentences: tuple[str, ...]
    level: Level
    needs: str
    look: Look

    @property
    def enforced(self) -> Sequence[Sentence]:
        """The sentences that it enforces, the most telling one first."""
        known: Mapping[str, Sentence] = load()
        return [known[name] for name in self.sentences]


_registry: Final[dict[str, RuntimeCheck]] = {}


def demand(id: str, *sentences: str, needs: str, level: Level | None = None) -> Callable[[Look], Look]:  # noqa: A002 -- the name that is used everywhere
    """Register a function as the check of these sentences about runtimes.

    Its docstring's first line is the title. `level` is that of the first sentence, unless it is given.
    """

    def register(look: Look) -> Look:
        known = load()
        title = (look.__doc__ or "").strip().partition("\n")[0]
        if id in _registry or not title or not sentences or any(name not in known for name in sentences):
            message = f"check {id}: a new ID, sentences that exist and a docstring are wanted, not {sentences}"
            raise ValueError(message)
        _registry[id] = RuntimeCheck(id, title, sentences, level or Level(known[sentences[0]].level), needs, look)
        return look

    return register


def runtime_checks() -> Sequence[RuntimeCheck]:
    """Return every check, in the order of the modules and of the functions in them."""
    from harness.conformance.runtime_side import demands as package

    for module in sorted(iter_modules(package.__path__), key=lambda found: found.name):
        import_module(f"{package.__name__}.{module.name}")
    return list(_registry.values())
