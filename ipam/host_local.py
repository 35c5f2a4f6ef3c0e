"""host-local: addresses from ranges in the configuration, noted in files of this host.

ADD reserves one address of each range set for the attachment. DEL releases
them. CHECK tells whether they are still reserved. GC releases the addresses of
attachments that are gone. STATUS tells whether an ADD could reserve an address.
Configuration, order and files are the same as in the reference plugin of this
name, whose reservations are honoured and released. See `store` for the files
and `ranges` for the order.
"""

import ipaddress

from fast_stdlib import recorder, span, span_note
from fast_stdlib.contextlib import contextmanager
from fast_stdlib.typing import Iterable, Iterator
from skel import DNS, Address, Args, CniError, Code, IPConfig, Plugin, Result, with_length
from skel.versions import REFERENCE_RELEASE

from .host_local_config import (
    DATA_DIR,
    HostLocalConfig,
    range_set_count,
    range_sets_of,
    ranges_come_with_pods,
    requests_of,
)
from .ranges import AddressSpan, RangeSet
from .reservation import ReservationOwner
from .store import Store, Take

ALREADY_RESERVED = 100
"""Our error code for an ADD of an attachment that has its addresses already."""
NOT_RESERVED = 101
"""Our error code for a CHECK that misses a reservation. (Spec code 3 would stop the runtime from cleaning up.)"""
_TRIED = 100
"""Addresses that are tried before all reservations are listed. A listing takes as long as a thousand tries."""

_RESOLV_CONF_WORDS_MIN = 2


def add(args: Args[HostLocalConfig]) -> Result:
    """Reserve an address of each range set."""
    range_sets = range_sets_of(args.config)
    requests = requests_of(args, range_sets)
    result = Result(routes=args.config.ipam.routes())
    if args.config.ipam.resolv_conf:
        result.dns = _read_resolv_conf(args.config.ipam.resolv_conf)
    with _store(args.config) as store:
        owner = ReservationOwner(args.container_id, args.ifname)
        store.create()
        with store.locked(args.interruption):
            earlier = _of_earlier_boot(args, store, range_sets)
            with span("reserve", folder=store.folder), store.reserving(owner, earlier) as take:
                result.ips = [
                    _reserve(store, take, index, range_set, requests.get(index), earlier)
                    for index, range_set in enumerate(range_sets)
                ]
                if recorder() is not None:
                    span_note(addresses=[str(ip.address) for ip in result.ips])
    return result


def delete(args: Args[HostLocalConfig]) -> None:
    """Release the attachment's addresses, if it has any."""
    with _store(args.config) as store:
        if store.exists():
            # Locked even to find nothing: a killed ADD may still run in the server.
            with store.locked(args.interruption):
                enough = max(1, range_set_count(args.config))
                with span("release", folder=store.folder):
                    store.release(*store.find(args.container_id, args.ifname, _noted(args), enough=enough))


def check(args: Args[HostLocalConfig]) -> None:
    """Raise CniError unless the attachment has an address, and all of our addresses in prevResult."""
    range_sets = range_sets_of(args.config)
    with _store(args.config) as store:
        if not store.exists():
            raise _not_reserved(args, "no address is")
        with store.locked(args.interruption):
            owner, found = store.find(args.container_id, args.ifname, _noted(args))
            missing = {noted for noted in _noted(args) if store.owner(noted) != owner}
    if not found:
        raise _not_reserved(args, "no address is")
    for noted in sorted(missing):
        if _is_of(range_sets, noted):
            raise _not_reserved(args, f"{noted} is not")


def gc(args: Args[HostLocalConfig]) -> None:
    """Release the addresses of all attachments that the runtime does not list."""
    valid = args.config.valid_attachments
    if valid is None:
        args.log("GC without a list of valid attachments: nothing is released")
        return
    keep = {ReservationOwner(known.container_id, known.ifname) for known in valid}
    keep |= {ReservationOwner(known.container_id, "") for known in valid}
    with _store(args.config) as store:
        if not store.exists():
            return
        with store.locked(args.interruption):
            failures = _release_all_but(store, keep)
            store.rebuild_index()
    if failures:
        raise CniError(Code.IO_FAILURE, "not everything was released", "; ".join(failures))


def status(args: Args[HostLocalConfig]) -> None:
    """Raise CniError (50) if an ADD cannot write a reservation; warn if no address is free (docs/design-plugins.md)."""
    range_sets = [] if ranges_come_with_pods(args.config) else range_sets_of(args.config)
    args.config.ipam.routes()  # raises for routes that no ADD can use
    with _store(args.config) as store:
        if obstacle := store.obstacle():
            raise CniError(Code.NOT_AVAILABLE, f"ipam.dataDir: {obstacle}")
        if shortage := store.shortage():
            args.log(f"warning: ipam.dataDir: {shortage}")
        if not store.exists():
            return
        for range_set in _full(store, range_sets):
            error = _exhausted(Code.NOT_AVAILABLE, range_set)
            if args.config.ipam.status_fails_when_full:
                raise error
            args.log(f"warning: {error.msg}")


def repair(_: Args[HostLocalConfig]) -> None:
    """Do nothing: reservations are files, which no firewall's reload takes."""


PLUGIN = Plugin(
    "host-local",
    config=HostLocalConfig,
    add=add,
    check=check,
    delete=delete,
    gc=gc,
    status=status,
    repair=repair,
    env_args=("IP", "MAC"),  # MAC is for the interface plugin, which passes its CNI_ARGS on unchanged
    version=REFERENCE_RELEASE,
)


@contextmanager
def _store(config: HostLocalConfig) -> Iterator[Store]:
    """Open the network's reservations; an error of the file system becomes a CniError (5)."""
    try:
        yield Store(config.ipam.data_dir or DATA_DIR, config.name)
    except OSError as error:
        where = error.filename2 or error.filename or config.ipam.data_dir or DATA_DIR
        raise CniError(Code.IO_FAILURE, f"ipam.dataDir: {where}: {error.strerror}") from error


def _of_earlier_boot(args: Args[HostLocalConfig], store: Store, range_sets: list[RangeSet]) -> list[str]:
    """Return the addresses that the attachment has from an earlier boot.

    A container that starts again after a reboot or a power cut gets them again, because no runtime could send a DEL.
    Raises CniError (100) if it has an address of this boot (SPEC.md section 2, ADD).
    """
    owner, found = store.find(args.container_id, args.ifname, enough=0)
    earlier = [reserved for reserved in found if owner.ifname and store.is_of_earlier_boot(reserved)]
    for reserved in found:
        if reserved not in earlier and _is_of(range_sets, reserved):
            message = f"{reserved} is already reserved for {args.ifname} of container {args.container_id}"
            raise CniError(ALREADY_RESERVED, message, "an attachment is added once")
    return earlier


def _reserve(
    store: Store, take: Take, index: int, range_set: RangeSet, requested: Address | None, earlier: Iterable[str]
) -> IPConfig:
    """Reserve `requested`, one of `earlier` or the next free address. Raises CniError (11) if no address is free."""
    if requested is not None:
        span = range_set.find(requested)
        if span is None or not take(index, str(requested)):
            message = f"requested address {requested} is not available in {range_set.path} ({range_set})"
            raise CniError(Code.TRY_AGAIN_LATER, message + _holder(store, requested))
        return _ip_config(requested, span)
    for address in map(ipaddress.ip_address, earlier):
        span = range_set.find(address)
        if span is not None and address not in range_set.gateways and take(index, str(address)):
            return _ip_config(address, span)
    taken: frozenset[str] = frozenset()
    for tried, (candidate, span) in enumerate(range_set.candidates(store.last_reserved(index))):
        if tried == _TRIED:
            # Many addresses were in use. A listing skips the others without a system call for each.
            taken = frozenset(store.entries())
        if str(candidate) not in taken and take(index, str(candidate)):
            return _ip_config(candidate, span)
    raise _exhausted(Code.TRY_AGAIN_LATER, range_set)


def _holder(store: Store, address: Address) -> str:
    """Return the owner of an address as text for the end of a message."""
    owner = store.owner(str(address))
    if owner is None or not owner.is_attachment:
        return ""
    interface = f"{owner.ifname} of " if owner.ifname else ""
    return f": it is reserved for {interface}container {owner.container_id}"


def _release_all_but(store: Store, keep: set[ReservationOwner]) -> list[str]:
    """Release the addresses of all owners that are not in `keep`, and return the errors."""
    failures = []
    for reserved in store.reserved():
        try:
            owner = store.owner(reserved)
            # A crash may leave an empty file.
            if owner is not None and owner not in keep and (owner == ReservationOwner("", "") or not owner.may_be_note):
                store.free(reserved)
        except OSError as error:
            failures.append(f"{reserved}: {error.strerror}")
    return failures


def _ip_config(reserved: Address, span: AddressSpan) -> IPConfig:
    return IPConfig(address=with_length(reserved, span.subnet.prefixlen), gateway=span.gateway)


def _noted(args: Args[HostLocalConfig]) -> list[str]:
    """Return the attachment's addresses in prevResult."""
    return [str(ip.address.ip) for ip in args.prev_result.ips] if args.prev_result else []


def _full(store: Store, range_sets: Iterable[RangeSet]) -> Iterator[RangeSet]:
    """Yield the range sets without a free address."""
    most = len(store.entries())
    for range_set in range_sets:
        # Reading every address costs milliseconds, and runtimes ask every few seconds.
        if range_set.size <= most and range_set.size <= _taken_of(range_set, store.reserved()):
            yield range_set


def _taken_of(range_set: RangeSet, taken: list[str]) -> int:
    addresses = map(ipaddress.ip_address, taken)
    return sum(address not in range_set.gateways and range_set.find(address) is not None for address in addresses)


def _is_of(range_sets: Iterable[RangeSet], address: str) -> bool:
    return any(range_set.find(ipaddress.ip_address(address)) for range_set in range_sets)


def _exhausted(code: int, range_set: RangeSet) -> CniError:
    return CniError(code, f"no address is free in {range_set.path} ({range_set})")


def _not_reserved(args: Args[HostLocalConfig], what: str) -> CniError:
    message = f"{what} reserved for {args.ifname} of container {args.container_id}"
    return CniError(NOT_RESERVED, message)


def _read_resolv_conf(path: str) -> DNS:
    """Return the settings in the file at `path`; repeated `search` and `options` lines add up.

    Raises CniError (5) if it cannot be read.
    """
    dns = DNS()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f'ipam.resolvConf: cannot read "{path}": {error.strerror}') from None
    for words in lines:
        if len(words) < _RESOLV_CONF_WORDS_MIN or words[0][0] in "#;":
            continue
        keyword, first, *_ = words
        if keyword == "nameserver":
            dns.nameservers.append(first)
        elif keyword == "domain":
            dns.domain = first
        elif keyword in {"search", "options"}:
            getattr(dns, keyword).extend(words[1:])
    return dns
