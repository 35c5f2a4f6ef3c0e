"""Errors a plugin reports, with the codes of SPEC.md section 5 ("Error").

The dispatcher renders every error, once.
"""


class Code:
    """Well-known error codes, as plain numbers (loading `enum` takes 1 ms); 100 and above are free for plugins.

    1-7, 11, 50 and 51 are SPEC.md's; 8 and 999 are those of the Go
    skeleton, so that log searches keep working on a node that was switched over.
    """

    INCOMPATIBLE_VERSION = 1
    UNSUPPORTED_FIELD = 2
    UNKNOWN_CONTAINER = 3
    INVALID_ENVIRONMENT = 4
    IO_FAILURE = 5
    DECODING_FAILURE = 6
    INVALID_CONFIG = 7
    INVALID_NETNS = 8
    TRY_AGAIN_LATER = 11
    NOT_AVAILABLE = 50
    LIMITED_CONNECTIVITY = 51
    INTERNAL = 999


class CniError(Exception):
    """An error as the runtime will see it: a code, one line, and details."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = int(code)
        self.msg = msg
        self.details = details

    def __str__(self) -> str:
        return f"{self.msg}; {self.details}" if self.details else self.msg

    def encode(self, version: str) -> dict[str, object]:
        """Return the error object of SPEC.md section 5, for a configuration of `version`."""
        encoded: dict[str, object] = {"cniVersion": version, "code": self.code, "msg": self.msg}
        if self.details:
            encoded["details"] = self.details
        return encoded
