"""Values that all workers of a server share."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

from .peer import Identity
from .places import Places


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
    """Parked calls come back from here; an empty message, or the end, tells a worker to end."""
    parking: socket.socket
    """Calls to be parked go in here."""
    drain: int
    """A pipe: at its end nothing more is to be accepted."""
