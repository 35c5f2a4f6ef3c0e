"""The kinds of plugins that there are to test."""

from enum import StrEnum

__all__ = ["Profile"]


class Profile(StrEnum):
    """What kind of plugin is tested."""

    INTERFACE = "interface"
    """Makes the interface of a pod; the first of a list."""
    CHAINED = "chained"
    """Changes what the plugins before it in the list have made."""
    IPAM = "ipam"
    """Gives addresses; executed by an interface plugin."""
