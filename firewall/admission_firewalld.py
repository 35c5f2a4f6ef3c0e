"""Admission of pods by firewalld: each address is a source of a zone (`trusted` unless configured).

Asked over D-Bus, as the reference plugins do (containernetworking/plugins); no process is started. The sources are part
of firewalld's runtime configuration: `firewall-cmd --reload` and a restart remove them, and REPAIR puts them back.
Interface: firewalld.dbus(5), org.fedoraproject.FirewallD1.zone, and the D-Bus specification.

jeepney has the encoding and the authentication, and is imported at the first connection. Its own connection waits
without a limit for the first answer of a bus. So all requests on a connection here end within one time limit.
"""

import errno
import time

from fast_stdlib.contextlib import contextmanager
from fast_stdlib.typing import TYPE_CHECKING, Final, Iterable, Iterator, Mapping, cast
from firewall.admission_table import Admission
from firewall.owner import Owner
from firewall.tables import Interface, Tables, host_network

if TYPE_CHECKING:
    import socket

    from jeepney import Message

TIMEOUT: Final = 20.0
"""Seconds for a connection and all its requests. A reload of firewalld takes some; a runtime waits for minutes."""
_NAME: Final = "org.fedoraproject.FirewallD1"
_PATH: Final = "/org/fedoraproject/FirewallD1"
_BUS_NAME: Final = "org.freedesktop.DBus"
_BUS_PATH: Final = "/org/freedesktop/DBus"
_SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
_NO_AUTO_START = 2  # DBUS_MESSAGE_FLAG: asking must not start the daemon
_ERROR: Final = "org.freedesktop.DBus.Error."
_NOT_RUNNING: Final = ("ServiceUnknown", "NameHasNoOwner")
_NOT_THERE: Final = ("UNKNOWN_SOURCE", "NOT_ENABLED", "INVALID_ZONE")
_BYTES = 65536


def apply(tables: Tables, _owner: Owner, admission: Admission) -> None:
    """Make the addresses sources of the zone; those that are stay. Raises FirewalldError, which names the zone."""
    if not admission.addresses:
        return
    with connected(tables.environ) as bus:
        for address in admission.addresses:
            source = _source(address)
            _change(bus, "addSource", admission.zone, source, f"add source {source} to", ("ZONE_ALREADY_SET",))


def remove(tables: Tables, _owner: Owner, admission: Admission) -> None:
    """Remove the addresses from the zone; it is fine if none are there, or if firewalld or the bus does not run.

    Raises FirewalldError if one of them does not answer, or refuses.
    """
    if not admission.addresses:
        return
    try:
        with connected(tables.environ) as bus:
            for address in admission.addresses:
                source = _source(address)
                _change(bus, "removeSource", admission.zone, source, f"remove source {source} from", _NOT_THERE)
    except FirewalldEndedError:  # the sources have ended with it
        return


def holds(tables: Tables, _owner: Owner, admission: Admission) -> bool:
    """Tell whether all the addresses are sources of the zone. Raises FirewalldError if firewalld cannot be asked."""
    with connected(tables.environ) as bus:
        try:
            return all(bus.ask("querySource", admission.zone, _source(each)) for each in admission.addresses)
        except FirewalldRefusal:  # INVALID_ZONE
            return False


def has_zone(environ: Mapping[str, str], zone: str) -> bool:
    """Tell whether firewalld has the zone. Raises FirewalldError if it cannot be asked."""
    with connected(environ) as bus:
        try:
            return zone in cast("list[str]", bus.ask("getZones"))
        except FirewalldRefusal as refusal:
            raise FirewalldError(errno.EIO, f"firewalld: {refusal}") from None


def is_running(environ: Mapping[str, str]) -> bool:
    """Tell whether firewalld is on the system bus. Raises FirewalldError if the bus does not answer."""
    try:
        with connected(environ) as bus:
            return bool(bus.ask_bus("NameHasOwner", _NAME))
    except FirewalldEndedError:
        return False


def _change(bus: "Bus", method: str, zone: str, source: str, doing: str, fine: Iterable[str]) -> None:
    """Change a source of a zone; a refusal with one of the `fine` words says that it is so already."""
    try:
        bus.ask(method, zone, source)
    except FirewalldRefusal as refusal:
        if not any(word in str(refusal) for word in fine):
            raise FirewalldError(errno.EIO, f'firewalld cannot {doing} zone "{zone}": {refusal}') from None


def _source(address: Interface) -> str:
    return str(host_network(address))


class FirewalldError(OSError):
    """The bus or firewalld cannot be asked, or refuses a request (EIO, with its message)."""


class FirewalldEndedError(FirewalldError):
    """The bus or firewalld does not run, or has ended before it answered (ENOENT)."""


class FirewalldTimeoutError(FirewalldError, TimeoutError):
    """The bus or firewalld runs and does not answer (ETIMEDOUT)."""


class FirewalldRefusal(Exception):  # noqa: N818 -- an answer, to be understood by the caller
    """An error that firewalld answers with, such as `ZONE_ALREADY_SET`."""


@contextmanager
def connected(environ: Mapping[str, str]) -> Iterator["Bus"]:
    """Connect to the system bus that the call's environment names. Raises FirewalldError, also for what is asked."""
    from jeepney.auth import AuthenticationError
    from jeepney.bus import get_bus
    from jeepney.io.blocking import prep_socket

    address = environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM_BUS
    deadline = time.monotonic() + TIMEOUT
    try:
        # An address that jeepney cannot read is a RuntimeError or a ValueError.
        connection = prep_socket(get_bus(address), timeout=TIMEOUT)
    except TimeoutError:
        message = f"the D-Bus at {address} does not answer: no answer within {TIMEOUT:.0f} s"
        raise FirewalldTimeoutError(errno.ETIMEDOUT, message) from None
    except (OSError, RuntimeError, ValueError, AuthenticationError) as error:
        raise FirewalldEndedError(errno.ENOENT, f"no D-Bus at {address}: {error}") from None
    with connection:
        bus = Bus(connection, address, deadline)
        bus.ask_bus("Hello")  # without it, the bus passes on no other message
        yield bus


class Bus:
    """A connection of `connected`."""

    def __init__(self, connection: "socket.socket", address: str, deadline: float) -> None:
        """`connection` is authenticated; `deadline` is by the clock `time.monotonic`."""
        from jeepney import Parser

        self._connection = connection
        self._address = address
        self._deadline = deadline
        self._parser = Parser()
        self._serial = 0

    def ask(self, method: str, *arguments: str) -> object:
        """Return the first value of firewalld's answer to a method of its zones.

        Raises FirewalldRefusal for an error that it answers with, FirewalldError if it cannot be asked.
        """
        from jeepney import DBusAddress

        zones = DBusAddress(_PATH, _NAME, f"{_NAME}.zone")
        return self._answer(zones, method, arguments, f"firewalld does not answer {method}")

    def ask_bus(self, method: str, *arguments: str) -> object:
        """Return the first value of the bus's own answer. Raises FirewalldError."""
        from jeepney import DBusAddress

        silence = f"the D-Bus at {self._address} does not answer"
        try:
            return self._answer(DBusAddress(_BUS_PATH, _BUS_NAME, _BUS_NAME), method, arguments, silence)
        except FirewalldRefusal as refusal:
            raise FirewalldError(errno.EIO, f"the D-Bus at {self._address} refuses {method}: {refusal}") from None

    def _answer(self, receiver: object, method: str, arguments: tuple[str, ...], silence: str) -> object:
        from jeepney import HeaderFields, MessageType, new_method_call

        message = new_method_call(receiver, method, "s" * len(arguments) or None, arguments)
        message.header.flags |= _NO_AUTO_START
        try:
            reply = self._exchange(message)
        except TimeoutError:
            # With the kernel's own text, ETIMEDOUT would speak of a network.
            raise FirewalldTimeoutError(errno.ETIMEDOUT, f"{silence}: no answer within {TIMEOUT:.0f} s") from None
        except OSError as error:
            message = f"the D-Bus at {self._address} has ended: {error.strerror or error}"
            raise FirewalldEndedError(errno.ENOENT, message) from None
        value = reply.body[0] if reply.body else None
        if reply.header.message_type is MessageType.error:
            raise _failure(str(reply.header.fields.get(HeaderFields.error_name, "")), value)
        return value

    def _exchange(self, message: "Message") -> "Message":
        """Send a request and return its reply. Raises OSError, TimeoutError."""
        from jeepney import HeaderFields

        self._serial += 1
        self._limit()
        self._connection.sendall(message.serialise(serial=self._serial))
        while True:
            reply = self._parser.get_next_message()
            if reply is None:
                self._limit()
                received = self._connection.recv(_BYTES)
                if not received:
                    raise ConnectionResetError(errno.ECONNRESET, "the connection is closed")
                self._parser.add_data(received)
            # The bus also sends signals.
            elif reply.header.fields.get(HeaderFields.reply_serial) == self._serial:
                return reply

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)


def _failure(name: str, text: object) -> Exception:
    """Return the error for an answer that is one."""
    kind = name.removeprefix(_ERROR) if name.startswith(_ERROR) else ""
    if kind in _NOT_RUNNING:
        return FirewalldEndedError(errno.ENOENT, "firewalld is not running")
    if kind == "NoReply":  # the bus answers instead of a receiver that has left it
        return FirewalldEndedError(errno.ENOENT, "firewalld has ended before it answered")
    return FirewalldRefusal(str(text or name))
