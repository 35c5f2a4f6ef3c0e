"""Values that all workers of a server share."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

from .peer import Identity
from .places import Places

__all__ = ["Shared"]


class Shared(NamedTuple):
    """Values that all workers of a server share."""

    build_id: bytes
    identity: Identity
    others: Mapping[str, str]
    """The plugins of other distributions, as for `launch.plugin_list.load`."""
    limit_seconds: int
    """For one call."""
    places: Places
    listening: socket.socket | None
    """None if nothing more is to be accepted."""
    parked: socket.socket
    """Where parked calls come back from; an empty message, or the end, is for a worker to end."""
    parking: socket.socket
    """Where calls go to be parked."""
    drain: int
    """A pipe: at its end nothing more is to be accepted."""
