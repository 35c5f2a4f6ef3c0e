"""Tables of states: which event leads from which state to which, and the drawing of a table for documents."""

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

__all__ = ["StateError", "Transition", "TransitionTable"]

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


class StateError(Exception):
    """An event that the table does not allow in this state."""


class Transition(NamedTuple, Generic[State, Event]):
    """An edge; `before` is None for an object that does not exist yet, `after` for one that exists no more."""

    before: State | None
    event: Event
    after: State | None


class TransitionTable(Generic[State, Event]):
    """The edges of one life cycle: one for each pair of state and event, unless an event finds out the state."""

    def __init__(self, *transitions: Transition[State, Event]) -> None:
        """Store the edges in the order of the drawing."""
        self.transitions = transitions

    def check(self, before: State | None, event: Event, after: State | None) -> None:
        """Raise StateError if no edge of this event leads from `before` to `after`."""
        if Transition(before, event, after) not in self.transitions:
            raise StateError(f"{event}: no way from {_name(before)} to {_name(after)}")

    def allows(self, before: State | None, event: Event) -> bool:
        """Tell whether this event may happen in this state."""
        return any((each.before, each.event) == (before, event) for each in self.transitions)

    def drawing(self) -> str:
        """Return the table as a Mermaid state diagram, which documents show as a picture."""
        lines = [f"    {_name(each.before)} --> {_name(each.after)}: {each.event}" for each in self.transitions]
        return "\n".join(["stateDiagram-v2", *lines])


def _name(state: StrEnum | None) -> str:
    return "[*]" if state is None else state.name
