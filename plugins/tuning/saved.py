"""Values that pods had before: one file for each attachment, in the reference's format.

We add two keys, which the reference ignores: `sysctl` has previous values of kernel parameters by their paths, and
`network` the name of the network, by which GC finds the file.

Modules for the kernel are imported in functions: a DEL that finds no file does without them.
"""

import os

from fast_stdlib import json
from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import TYPE_CHECKING, Callable, Collection, Final, Iterator, Self
from skel import Record, boolean, dict_of, field, integer, string
from skel.strict_json import decode_json

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.namespace import Namespace
    from netlink.rtnl import Rtnl
    from plugins.tuning import WantedValues
    from plugins.tuning.sysctls import Parameter

DATA_DIR: Final = "/run/cni/tuning"


class SavedValues(Record):
    """Values before the ADD; None or an empty one was left as it was."""

    mac: str = field(string, default="")
    promisc: bool | None = field(boolean, default=None)
    mtu: int = field(integer, default=0)
    allmulti: bool | None = field(boolean, default=None)
    tx_queue_len: int | None = field(integer, "txQLen", default=None)
    sysctl: dict[str, str] = field(dict_of(string), default=dict)
    network: str = field(string, default="")

    @classmethod
    def of(cls, network: str, wanted: "WantedValues", link: "Link | None", found: "Collection[Parameter]") -> Self:
        """Return the present values of all that is to change; `link` is None if nothing of the interface is."""
        sysctl = {each.path: each.previous or "" for each in found if not each.is_as_wanted}
        if link is None:
            return cls(sysctl=sysctl, network=network)
        return cls(
            mac=link.mac if wanted.mac else "",
            promisc=link.promiscuous if wanted.promisc else None,
            mtu=link.mtu if wanted.mtu else 0,
            allmulti=None if wanted.allmulti is None else link.allmulticast,
            tx_queue_len=None if wanted.tx_queue_len is None else link.tx_queue_len,
            sysctl=sysctl,
            network=network,
        )

    def is_empty(self) -> bool:
        """Tell whether there is nothing to restore."""
        return self == SavedValues(network=self.network)

    def under(self, older: "SavedValues") -> "SavedValues":
        """Return the values of both; if both have one, the older one counts."""
        absent = vars(SavedValues())
        known = {name: value for name, value in vars(older).items() if value != absent[name]}
        return SavedValues(**{**vars(self), **known, "sysctl": self.sysctl | older.sysctl})

    def put_back(self, pod: "Rtnl", netns: "Namespace", ifname: str, log: Callable[[str], None]) -> None:
        """Give a pod its values again. A value that the kernel refuses is logged: it ends with the pod."""
        from netlink.namespace import entered
        from netlink.request import change
        from netlink.wire import NetlinkError
        from plugins.tuning.sysctls import restore

        link = pod.link(ifname)
        for key, encoded_change in self._changes(link) if link is not None else ():
            try:
                pod.send(change(encoded_change, f'restore {key} of "{ifname}"'))
            except NetlinkError as error:
                log(str(error.strerror))
        with entered(netns):
            restore(self.sysctl, log)

    def _changes(self, link: "Link") -> Iterator[tuple[str, bytes]]:
        """Yield each difference: the key, and the message that changes it back."""
        from netlink.link_wire import change_link

        if self.mtu not in {0, link.mtu}:
            yield "mtu", change_link(link.ifindex, mtu=self.mtu)
        if self.mac not in {"", link.mac}:
            yield "mac", change_link(link.ifindex, mac=self.mac)
        if self.promisc not in {None, link.promiscuous}:
            yield "promisc", change_link(link.ifindex, promiscuous=self.promisc)
        if self.allmulti not in {None, link.allmulticast}:
            yield "allmulti", change_link(link.ifindex, allmulticast=self.allmulti)
        if self.tx_queue_len not in {None, link.tx_queue_len}:
            yield "txQLen", change_link(link.ifindex, tx_queue_len=self.tx_queue_len)


class SavedFile:
    """The file of one attachment."""

    def __init__(self, data_dir: str, container_id: str, ifname: str) -> None:
        self._path = os.path.join(data_dir or DATA_DIR, _name(container_id, ifname))

    def read(self) -> bytes | None:
        """Return the content, None if the file is missing. Raises OSError."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        """Replace the content. Raises OSError."""
        from skel.state_file import write_whole

        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        write_whole(self._path, content, mode=0o600)

    def remove(self) -> None:
        """Remove the file, if it exists. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)


def encoded(saved: SavedValues) -> bytes:
    """Return the content of a file."""
    return json.dumps(saved.encode()).encode()


def decoded(content: bytes, log: Callable[[str], None]) -> SavedValues:
    """Return the values in a file; none, which is logged, if it is broken."""
    try:
        document = decode_json(content)
        return SavedValues.decode(document if isinstance(document, dict) else {}, tolerate=lambda error: log(error.msg))
    except ValueError as error:
        log(f"the saved values cannot be read: {error}")
        return SavedValues()


def collect(data_dir: str, network: str, valid: Collection[tuple[str, str]], log: Callable[[str], None]) -> None:
    """Remove the files of a network's attachments, pairs of container ID and interface, that are not `valid`.

    The reference's files do not name their network, and stay. Raises CniError, OSError.
    """
    from skel.steps import Steps

    kept = {_name(*each) for each in valid}
    folder = data_dir or DATA_DIR
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name not in kept)
    except FileNotFoundError:
        return
    with Steps() as steps:
        for name in names:
            container_id, _, ifname = name.removesuffix(".json").rpartition("_")
            file = SavedFile(folder, container_id, ifname)
            content = file.read()
            if content is not None and decoded(content, log).network == network:
                steps.take(file.remove)


def _name(container_id: str, ifname: str) -> str:
    return f"{container_id}_{ifname}.json"
