"""The kinds of plugins."""

from enum import StrEnum


class Profile(StrEnum):
    """The kind of a plugin under test."""

    INTERFACE = "interface"
    """Makes the interface of a pod; the first of a list."""
    CHAINED = "chained"
    """Changes objects that the plugins before it in the list have made."""
    IPAM = "ipam"
    """Gives addresses; executed by an interface plugin."""
