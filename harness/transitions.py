"""Life cycles as tables: every change of state is a row, and a change without a row is an error.

After h11's `_state.py`: all that affects a state machine is in one table, from which its drawing is made.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class TransitionError(Exception):
    """The table has no row for this event in this state."""


class Transitions(Generic[S, E]):
    """The states that follow each state, by event."""

    def __init__(self, start: S, rows: Mapping[tuple[S, E], S]) -> None:
        self.start = start
        self._rows = rows

    def after(self, state: S, event: E) -> S:
        """Return the state that follows. Raises TransitionError."""
        try:
            return self._rows[state, event]
        except KeyError:
            raise TransitionError(f"{event} cannot happen in state {state}") from None

    def allows(self, state: S, event: E) -> bool:
        """Tell whether the table has a row for this event in this state."""
        return (state, event) in self._rows

    def drawing(self) -> str:
        """Return the state diagram in Mermaid's language; a state that nothing follows is an end."""
        followed = {state for state, _ in self._rows}
        ends = sorted({after for after in self._rows.values() if after not in followed})
        # One arrow for all events between two states: Mermaid would draw several over each other.
        arrows: dict[tuple[S, S], list[E]] = {}
        for (before, event), after in self._rows.items():
            arrows.setdefault((before, after), []).append(event)
        lines = [f"    [*] --> {self.start}"]
        lines += [f"    {before} --> {after} : {', '.join(events)}" for (before, after), events in arrows.items()]
        return "\n".join(["stateDiagram-v2", *lines, *(f"    {end} --> [*]" for end in ends)]) + "\n"
