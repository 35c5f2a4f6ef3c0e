"""The error of a container's start."""


class StartError(Exception):
    """A container does not start; `reason` is that of its waiting state, such as CrashLoopBackOff."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
