"""What may go wrong between this process and an API server."""

from collections.abc import Mapping
from typing import Final

GONE: Final = 410
TOO_MANY_REQUESTS: Final = 429
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404
CONFLICT: Final = 409
LONGEST_WAIT: Final = 300.0
"""Seconds of a pause that a server asks for; a longer one is cut."""
_SERVER_ERRORS: Final = {500, 502, 503, 504}
_SHOWN: Final = 200
"""Characters of an answer that is no JSON."""


class KubeError(Exception):
    """A request that has no answer, or whose answer is an error; the message is for users."""


class ConfigError(KubeError):
    """A configuration of the client that cannot be used; the message names the file, the key and the value."""


class ConnectionLostError(KubeError):
    """No answer, or half of one: nothing listens, the connection ended, or a time limit passed."""


class ApiError(KubeError):
    """An answer of the API server that is an error (apimachinery's metav1.Status).

    `code` is the status code of HTTP, `reason` the API's word for it (`Expired`, `NotFound`, …; empty if the answer has
    none), `retry_after` the seconds that the server asks to wait.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @classmethod
    def of(cls, status: object, code: int = 0, retry_after: float | None = None) -> "ApiError":
        """Read a Status, as an answer or an event of a watch has it; `code` is that of HTTP.

        A server or proxy may answer with anything else: its text becomes the message.
        """
        if not isinstance(status, Mapping) or status.get("kind") != "Status":
            return cls(code, "", _excerpt(status), retry_after)
        details = status.get("details")
        seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
        if retry_after is None and isinstance(seconds, int) and seconds > 0:
            retry_after = min(float(seconds), LONGEST_WAIT)
        told = status.get("code")
        return cls(
            code or (told if isinstance(told, int) else 0),
            str(status.get("reason") or ""),
            str(status.get("message") or "no message"),
            retry_after,
        )

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code == TOO_MANY_REQUESTS or self.code in _SERVER_ERRORS

    @property
    def is_expired(self) -> bool:
        """Whether a resource version or a `continue` token cannot be used: the list has to be read again.

        It is too old, or after a restored backup newer than all that the server has.
        """
        is_too_new = self.message.startswith("Too large resource version")
        return self.code == GONE or self.reason in {"Expired", "Gone"} or is_too_new


def _excerpt(answer: object) -> str:
    text = " ".join(str(answer).split())
    return (text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…") or "an empty answer"
