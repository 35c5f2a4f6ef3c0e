"""The addresses of one network: its ranges, the number of used addresses, and the pod of each address."""

from collections.abc import Sequence

from harness.libcni.networks import NetworkList
from harness.runtime.leftovers import AttachmentSurvey, TracedAttachment
from harness.runtime.node import Node
from harness.runtime.pod_record import Pod
from harness.runtime.reservations import Reservation, read_reservations, reservation_folder
from harness.validation.address_ranges import HOST_LOCAL, AddressRange, HostLocalSection, ranges_of
from skel.errors import CniError


def network_addresses(
    network: NetworkList, node: Node, pods: Sequence[Pod], found: AttachmentSurvey | None = None
) -> dict[str, object]:
    """Return the ranges and reservations of a network whose plugins delegate to host-local, as a document.

    `pods` are the recorded pods. `found` tells the pods of other runtimes: without a name of theirs, `pod` is empty.
    An unreadable section is left out, and its error is in `errors`. Raises OSError.
    """
    ranges: list[AddressRange] = []
    reservations: dict[str, Reservation] = {}
    errors: list[str] = []
    for index, plugin in enumerate(network.plugins):
        section = next((value for key, value in plugin.raw.items() if key.lower() == "ipam"), None)
        if plugin.delegate != HOST_LOCAL or not isinstance(section, dict):
            continue
        path = f"plugins[{index}].ipam"
        try:
            ranges += [each for range_set in ranges_of(section, path) for each in range_set]
            folder = reservation_folder(node, network.name, HostLocalSection.decode(section, path).data_dir)
        except CniError as error:
            errors.append(str(error))
            continue
        reservations |= {str(each.address): each for each in read_reservations(folder)}
    titles = {pod.container_id: pod.title for pod in pods}
    return {
        "name": network.name,
        "ranges": [_range(each, list(reservations.values())) for each in ranges],
        "reservations": [
            _reservation(each, titles, found.find(network.name, each.container_id) if found is not None else None)
            for each in reservations.values()
        ],
        "errors": errors,
    }


def _range(known: AddressRange, reservations: Sequence[Reservation]) -> dict[str, object]:
    used = sum(known.holds(each.address) and each.address != known.gateway for each in reservations)
    return {
        "subnet": str(known.subnet),
        "rangeStart": str(known.first),
        "rangeEnd": str(known.last),
        "gateway": str(known.gateway),
        "size": known.size,
        "used": used,
        "free": known.size - used,
    }


def _reservation(
    reservation: Reservation, titles: dict[str, str], traced: TracedAttachment | None
) -> dict[str, object]:
    own = titles.get(reservation.container_id, "")
    return {
        "address": str(reservation.address),
        "pod": own or (traced.pod if traced is not None else ""),
        "containerID": reservation.container_id,
        "ifname": reservation.ifname,
        "note": reservation.note,
        "otherRuntime": traced is not None and not traced.is_ours and bool(traced.living),
    }
