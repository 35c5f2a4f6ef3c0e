"""Asking the daemon: one connection, one line each way."""

# The C part of socket, which itself takes milliseconds to load.
import _socket
import errno

from lean import json, span
from skel import CniError, Code, Interruption
from skel.strict_json import decode_json

from .dhcp_daemon.protocol import MARK, Answer, Question

_AWAY = {errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR}
_LONGEST_PATH = 107


class AwayError(Exception):
    """No daemon listens, or it ended before its answer."""


def ask(path: str, question: Question, interruption: Interruption, *, seconds: float | None = None) -> Answer:
    """Have the daemon at `path` do something; `seconds` limit the wait, None is the daemon's own limits.

    Raises AwayError, CniError: the daemon's own, 5 if it cannot be asked, and 7 if another program listens.
    """
    if len(path.encode()) > _LONGEST_PATH:
        raise CniError(
            Code.INVALID_CONFIG, f'ipam.daemonSocketPath: expected at most {_LONGEST_PATH} bytes, got "{path}"'
        )
    line = json.dumps({MARK: 1, **question.encode()}).encode() + b"\n"
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(seconds)
        with span("ask the DHCP daemon", waits=True, path=path), interruption.waiting():
            connection.connect(path)
            connection.sendall(line)
            answer = _all(connection)
    except TimeoutError:
        raise AwayError(f"the DHCP daemon at {path} does not answer in {seconds:g} s") from None
    except OSError as error:
        if error.errno in _AWAY:
            raise AwayError(f"no DHCP daemon listens at {path}: {error.strerror}") from None
        if error.errno in {errno.ECONNRESET, errno.EPIPE}:
            raise AwayError(f"the DHCP daemon at {path} has ended") from None
        raise CniError(Code.IO_FAILURE, f"asking the DHCP daemon at {path}: {error.strerror}") from None
    finally:
        connection.close()
    return _checked(path, answer)


def _all(connection: _socket.socket) -> bytes:
    """Read to the end, or to the end of the line. Raises OSError."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
        if part.endswith(b"\n"):
            break
    return b"".join(parts)


def _checked(path: str, answer: bytes) -> Answer:
    if not answer:
        raise AwayError(f"the DHCP daemon at {path} has ended")
    try:
        found = Answer.decode(decode_json(answer))
    except (ValueError, CniError):
        message = f"ipam.daemonSocketPath: another program than the DHCP daemon of cni-harness listens at {path}"
        raise CniError(Code.INVALID_CONFIG, message, answer[:80].decode(errors="replace").strip()) from None
    if found.code:
        raise CniError(found.code, found.msg)
    return found
