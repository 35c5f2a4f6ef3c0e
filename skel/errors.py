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


def text_of(error: BaseException) -> str:
    """Return an error's text; of the kernel's errors the attempt and the reason, without the number."""
    try:
        if isinstance(error, OSError) and error.strerror:
            return ": ".join(str(part) for part in (error.filename, error.strerror) if part)
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 -- an exception whose text cannot be made
        return type(error).__name__


def whereabouts(error: BaseException) -> str:
    """Return where an unforeseen error was raised, innermost first, on one line."""
    frames = []
    walk = error.__traceback__
    while walk is not None:
        code = walk.tb_frame.f_code
        frames.append(f"{code.co_filename}:{walk.tb_lineno} {code.co_name}")
        walk = walk.tb_next
    return f"at {' < '.join(reversed(frames[-4:]))}"
