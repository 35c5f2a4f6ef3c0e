"""dhcp: addresses from a DHCP server on the pod's network, by way of a daemon that keeps the leases.

ADD has the daemon get a lease through the pod's interface, DEL has it release the lease. CHECK asks it whether the
lease is held, GC has it release those of attachments that are gone. STATUS tells whether the daemon is there.
Configuration and results are the reference plugin's, which has no `ipam.ipv6`. See `dhcp_daemon` for the daemon.
"""

# The C part of socket, which itself takes milliseconds to load.
import _socket
import errno
import os
import time

from fast_stdlib import json, span
from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import TYPE_CHECKING
from skel import Address, Args, CniError, Code, Interruption, Plugin, Result
from skel.strict_json import decode_json
from skel.versions import REFERENCE_RELEASE

from .dhcp_config import DATA_DIR, DhcpConfig, options_of
from .dhcp_daemon.protocol import AWAY_SUFFIX, MARK, DaemonAnswer, Question

if TYPE_CHECKING:
    from .dhcp_daemon.store import LeaseStore

_RESTART_SECONDS = 30.0
"""A daemon that is away for longer is not just being restarted."""
_STATUS_SECONDS = 5.0
"""For the daemon's answer to STATUS."""
_AWAY = {errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR}
_LONGEST_PATH = 107


def add(args: Args[DhcpConfig]) -> Result:
    """Get a lease of each IP version that the configuration wants."""
    answer = _asked(args, _lease_question(args))
    result = Result.decode_any(answer.result, "the DHCP daemon's result")
    if args.config.ipam.priority:
        for route in result.routes:
            route.priority = args.config.ipam.priority
    return result


def delete(args: Args[DhcpConfig]) -> None:
    """Release the leases, if the attachment has any. Without the daemon they are forgotten, and run out."""
    question = _question(args)
    question.expected = _noted(args)
    try:
        ask(args.config.ipam.socket_path, question, args.interruption)
    except AwayError as error:
        store = _store(args)
        if store.has((question.network, question.container_id, question.ifname)):
            args.log(f"warning: {error}: the DHCP server is not told that the lease ends")
        store.remove((question.network, question.container_id, question.ifname))


def check(args: Args[DhcpConfig]) -> None:
    """Raise CniError unless the attachment has leases of its addresses.

    If the daemon does not know it, as after a change from the reference's daemon, the server is asked, and the daemon
    keeps the lease from then on.
    """
    question = _lease_question(args)
    question.expected = _noted(args)
    question.versions = [
        version for version in question.versions if any(address.version == version for address in question.expected)
    ] or question.versions
    _asked(args, question)


def gc(args: Args[DhcpConfig]) -> None:
    """Release the leases of all attachments that the runtime does not list."""
    valid = args.config.valid_attachments
    if valid is None:
        args.log("GC without a list of valid attachments: nothing is released")
        return
    pairs = [(each.container_id, each.ifname) for each in valid]
    network = args.config.name
    question = Question(number=1, verb=args.verb, network=network, valid=[list(pair) for pair in pairs])
    try:
        ask(args.config.ipam.socket_path, question, args.interruption)
    except AwayError as error:
        store = _store(args)
        stale = [pair for pair in store.attachments(network) if pair not in pairs]
        if stale:
            args.log(f"warning: {error}: the DHCP server is not told that {len(stale)} leases end")
        for container_id, ifname in stale:
            store.remove((network, container_id, ifname))


def status(args: Args[DhcpConfig]) -> None:
    """Raise CniError (50) if the daemon has been away for longer than a restart takes; until then, warn.

    An error makes Kubernetes taint the node, which one restart is not worth.
    """
    ipam = args.config.ipam
    _ = ipam.versions
    options_of(ipam, {})
    away = f"{ipam.socket_path}{AWAY_SUFFIX}"
    try:
        ask(ipam.socket_path, Question(number=1, verb=args.verb), args.interruption, seconds=_STATUS_SECONDS)
    except AwayError as error:
        seconds = _seconds_away(away)
        if seconds >= _RESTART_SECONDS:
            raise CniError(Code.NOT_AVAILABLE, f"{error}; so it is for {seconds:.0f} s") from None
        args.log(f"warning: {error}")
    except CniError as error:
        raise CniError(Code.NOT_AVAILABLE, error.msg, error.details) from None
    else:
        with suppress(OSError):
            os.unlink(away)


def _seconds_away(path: str) -> float:
    """Return the seconds since the first STATUS that missed the daemon, which has noted its time in the file at `path`.

    The time is of CLOCK_BOOTTIME. Infinity if the file cannot be written: then a restart does not help.
    """
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    with suppress(OSError, ValueError), open(path, "rb", buffering=0) as file:
        since = float(file.read(64))
        if 0 <= since <= now:
            return now - since
    from skel.state_file import write_whole

    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_whole(path, b"%.3f\n" % now, mode=0o600)
    except OSError:
        return float("inf")
    return 0.0


def _question(args: Args[DhcpConfig]) -> Question:
    """Return the question about the attachment."""
    return Question(
        number=1,
        verb=args.verb,
        network=args.config.name,
        container_id=args.container_id,
        ifname=args.ifname,
        netns=os.path.abspath(args.netns) if args.netns else "",  # the daemon has another folder than the plugin
    )


def _lease_question(args: Args[DhcpConfig]) -> Question:
    """Return the question about the attachment, with all that a new lease needs. Raises CniError (7)."""
    question = _question(args)
    question.options = options_of(args.config.ipam, args.cni_args)
    question.versions = args.config.ipam.versions
    return question


def _asked(args: Args[DhcpConfig], question: Question) -> DaemonAnswer:
    """Return the daemon's answer. Raises its CniError, and 11 if it is away."""
    try:
        return ask(args.config.ipam.socket_path, question, args.interruption)
    except AwayError as error:
        raise CniError(Code.TRY_AGAIN_LATER, str(error)) from None


def _noted(args: Args[DhcpConfig]) -> list[Address]:
    """Return the attachment's addresses in prevResult."""
    return [ip.address.ip for ip in args.prev_result.ips] if args.prev_result else []


def _store(args: Args[DhcpConfig]) -> "LeaseStore":
    from .dhcp_daemon.store import LeaseStore

    return LeaseStore(args.config.ipam.data_dir or DATA_DIR)


class AwayError(Exception):
    """No daemon listens, or it ended before its answer."""


def ask(path: str, question: Question, interruption: Interruption, *, seconds: float | None = None) -> DaemonAnswer:
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


def _checked(path: str, answer: bytes) -> DaemonAnswer:
    if not answer:
        raise AwayError(f"the DHCP daemon at {path} has ended")
    try:
        found = DaemonAnswer.decode(decode_json(answer))
    except (ValueError, CniError):
        message = f"ipam.daemonSocketPath: another program than the DHCP daemon of cni-harness listens at {path}"
        raise CniError(Code.INVALID_CONFIG, message, answer[:80].decode(errors="replace").strip()) from None
    if found.code:
        raise CniError(found.code, found.msg)
    return found


PLUGIN = Plugin(
    "dhcp",
    config=DhcpConfig,
    add=add,
    check=check,
    delete=delete,
    gc=gc,
    status=status,
    repair=check,
    env_args=None,
    version=REFERENCE_RELEASE,
)
