"""Admission of pods by firewalld: each address is a source of a zone (`trusted` unless configured).

Asked over D-Bus, as the reference plugins do (containernetworking/plugins); no process is started. The sources are part
of firewalld's runtime configuration: `firewall-cmd --reload` and a restart remove them, and REPAIR puts them back.
Interface: firewalld.dbus(5), org.fedoraproject.FirewallD1.zone.
"""

import errno

from firewall.admission_subject import Admission
from firewall.firewalld_bus import Bus, FirewalldEndedError, FirewalldError, FirewalldRefusal, connected
from firewall.owner import Owner
from firewall.tables import Interface, Tables, alone
from lean.typing import Mapping, cast


def apply(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Make the addresses sources of the zone; those that are stay. Raises FirewalldError, which names the zone."""
    del owner
    if not admission.addresses:
        return
    with connected(tables.environ) as bus:
        for address in admission.addresses:
            source = _source(address)
            try:
                bus.ask("addSource", admission.zone, source)
            except FirewalldRefusal as refusal:
                if "ZONE_ALREADY_SET" not in str(refusal):
                    message = f'firewalld cannot add source {source} to zone "{admission.zone}": {refusal}'
                    raise FirewalldError(errno.EIO, message) from None


def remove(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Remove the addresses from the zone; it is fine if none are there, or if firewalld or the bus does not run.

    Raises FirewalldError if one of them does not answer, or refuses.
    """
    del owner
    if not admission.addresses:
        return
    try:
        with connected(tables.environ) as bus:
            for address in admission.addresses:
                _remove(bus, admission.zone, _source(address))
    except FirewalldEndedError:  # the sources have ended with it
        return


def holds(tables: Tables, owner: Owner, admission: Admission) -> bool:
    """Tell whether all the addresses are sources of the zone. Raises FirewalldError if firewalld cannot be asked."""
    del owner
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
            return bus.has_firewalld()
    except FirewalldEndedError:
        return False


def _remove(bus: Bus, zone: str, source: str) -> None:
    try:
        bus.ask("removeSource", zone, source)
    except FirewalldRefusal as refusal:
        if not any(word in str(refusal) for word in ("UNKNOWN_SOURCE", "NOT_ENABLED", "INVALID_ZONE")):
            message = f'firewalld cannot remove source {source} from zone "{zone}": {refusal}'
            raise FirewalldError(errno.EIO, message) from None


def _source(address: Interface) -> str:
    return str(alone(address))
