"""The end of a run before its last check, as a person or a signal asks for it."""


class HaltedError(Exception):
    """A check was broken off; nothing is known of the plugin."""


class Halt:
    """Says how a run is to end: first without new checks, then without waiting for those that run.

    Threads only read it, and a signal handler may write it.
    """

    def __init__(self) -> None:
        self.is_asked = False
        """No check begins any more."""
        self.is_urgent = False
        """Running executions are killed, and their checks broken off."""

    def ask(self) -> None:
        """Ask for the end; a second time, ask for it at once."""
        self.is_urgent = self.is_asked
        self.is_asked = True

    def obey(self) -> None:
        """Raise HaltedError if the end is urgent."""
        if self.is_urgent:
            raise HaltedError
