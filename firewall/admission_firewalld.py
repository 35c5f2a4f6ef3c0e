"""Admission of pods by firewalld: each address is a source of a zone (`trusted` unless configured).

Asked over D-Bus, as the reference plugins do (containernetworking/plugins); no process is started. The sources are part
of firewalld's runtime configuration: `firewall-cmd --reload` forgets them, and REPAIR puts them back.
Interface: firewalld.dbus(5), org.fedoraproject.FirewallD1.zone. jeepney is imported by calls alone.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from firewall.admission_subject import Admission
from firewall.owner import Owner
from firewall.tables import Interface, Tables
from lean.typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from jeepney.io.blocking import DBusConnection

__all__ = ["FirewalldError", "apply", "has_zone", "holds", "is_running", "remove"]

_NAME: Final = "org.fedoraproject.FirewallD1"
_PATH: Final = "/org/fedoraproject/FirewallD1"
_SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
_TIMEOUT: Final = 25.0
"""Seconds for one answer, as D-Bus libraries have it: a reload of firewalld takes some."""
_NO_AUTO_START = 2  # DBUS_MESSAGE_FLAG: asking must not start the daemon


class FirewalldError(OSError):
    """The bus or firewalld cannot be reached (ENOENT), or firewalld refuses a request (EIO, with its message)."""


class _Refused(Exception):  # noqa: N818 -- an answer, to be understood by the caller
    """An error that firewalld answers with, such as `ZONE_ALREADY_SET`."""


def apply(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Make the addresses sources of the zone; those that are stay. Raises FirewalldError, which names the zone."""
    del owner
    if not admission.addresses:
        return
    with _connected(tables.environ) as bus:
        for address in admission.addresses:
            source = _source(address)
            try:
                _call(bus, "addSource", admission.zone, source)
            except _Refused as refusal:
                if "ZONE_ALREADY_SET" not in str(refusal):
                    message = f'firewalld cannot add source {source} to zone "{admission.zone}": {refusal}'
                    raise FirewalldError(errno.EIO, message) from None


def remove(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Remove the addresses from the zone; it is fine if none are there, or if firewalld does not run.

    Raises FirewalldError.
    """
    del owner
    if not admission.addresses or not is_running(tables.environ):
        return
    with _connected(tables.environ) as bus:
        for address in admission.addresses:
            source = _source(address)
            try:
                _call(bus, "removeSource", admission.zone, source)
            except _Refused as refusal:
                if not any(word in str(refusal) for word in ("UNKNOWN_SOURCE", "NOT_ENABLED", "INVALID_ZONE")):
                    message = f'firewalld cannot remove source {source} from zone "{admission.zone}": {refusal}'
                    raise FirewalldError(errno.EIO, message) from None


def holds(tables: Tables, owner: Owner, admission: Admission) -> bool:
    """Tell whether all the addresses are sources of the zone. Raises FirewalldError if firewalld cannot be asked."""
    del owner
    with _connected(tables.environ) as bus:
        try:
            return all(_call(bus, "querySource", admission.zone, _source(each)) for each in admission.addresses)
        except _Refused:  # INVALID_ZONE
            return False


def has_zone(environ: Mapping[str, str], zone: str) -> bool:
    """Tell whether firewalld has the zone. Raises FirewalldError if it cannot be asked."""
    with _connected(environ) as bus:
        try:
            return zone in cast("list[str]", _call(bus, "getZones"))
        except _Refused as refusal:
            raise FirewalldError(errno.EIO, f"firewalld: {refusal}") from None


def is_running(environ: Mapping[str, str]) -> bool:
    """Tell whether firewalld is on the system bus."""
    from jeepney import DBusAddress, new_method_call

    bus_itself = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
    try:
        with _connected(environ) as bus:
            return bool(_answer(bus, new_method_call(bus_itself, "NameHasOwner", "s", (_NAME,))))
    except (FirewalldError, _Refused):
        return False


@contextmanager
def _connected(environ: Mapping[str, str]) -> Iterator["DBusConnection"]:
    """Connect to the system bus that the call's environment names. Raises FirewalldError."""
    from jeepney.auth import AuthenticationError
    from jeepney.io.blocking import open_dbus_connection

    address = environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM_BUS
    try:
        # An address that jeepney cannot read is a RuntimeError or a ValueError.
        bus = open_dbus_connection(address, auth_timeout=_TIMEOUT)
    except (OSError, RuntimeError, ValueError, AuthenticationError) as error:
        raise FirewalldError(errno.ENOENT, f"no D-Bus at {address}: {error}") from None
    with bus:
        try:
            yield bus
        except FirewalldError:
            raise
        except OSError as error:  # the bus or firewalld ends, or the time is over
            raise FirewalldError(errno.EIO, f"no answer from firewalld: {error!r}") from None


def _call(bus: "DBusConnection", method: str, *arguments: str) -> object:
    from jeepney import DBusAddress, new_method_call

    zones = DBusAddress(_PATH, _NAME, f"{_NAME}.zone")
    message = new_method_call(zones, method, "s" * len(arguments) or None, arguments)
    message.header.flags |= _NO_AUTO_START
    return _answer(bus, message)


def _answer(bus: "DBusConnection", message: object) -> object:
    """Return the first value of the answer. Raises _Refused, OSError; FirewalldError if firewalld does not run."""
    from jeepney import HeaderFields, MessageType

    reply = bus.send_and_get_reply(message, timeout=_TIMEOUT)
    if reply.header.message_type is MessageType.error:
        kind = str(reply.header.fields.get(HeaderFields.error_name, ""))
        if kind.startswith("org.freedesktop.DBus.Error.") and kind.endswith(("ServiceUnknown", "NameHasNoOwner")):
            raise FirewalldError(errno.ENOENT, "firewalld is not running")
        raise _Refused(str(reply.body[0]) if reply.body else kind)
    return reply.body[0] if reply.body else None


def _source(address: Interface) -> str:
    return f"{address.ip}/{address.max_prefixlen}"
