"""The VLANs of bridges' ports, in messages of pyroute2: they are seldom sent, so it serves as their codec.

`import pyroute2` loads every protocol it knows, which costs 130 ms of start-up. The messages used here cost 25 ms of
that. So after this module is imported, the package's own `__init__` runs only when a name of the package itself is
needed: `from pyroute2 import IPRoute` works as ever, at its price, and
`from pyroute2.netlink.rtnl.rtmsg import rtmsg` loads no more than it needs.
"""

import sys
from _socket import AF_BRIDGE
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from fast_stdlib.typing import Any, Callable, Iterable, NamedTuple, Protocol, Sequence
from netlink.links import vlan_error
from netlink.request import RtnlSocket, change
from netlink.wire import Frame, NetlinkError

# include/uapi/linux/rtnetlink.h and if_bridge.h
_RTM_DELLINK, _RTM_SETLINK, _RTM_GETVLAN = 17, 19, 114
_BRIDGE_FLAGS_MASTER = 1
_BRIDGE_VLAN_INFO_PVID, _BRIDGE_VLAN_INFO_UNTAGGED = 1 << 1, 1 << 2
_BRIDGE_VLAN_INFO_RANGE_BEGIN, _BRIDGE_VLAN_INFO_RANGE_END = 1 << 3, 1 << 4

Attributes = Iterable[tuple[str, Any]]

_PACKAGE = "pyroute2"


class PortVlans(NamedTuple):
    """The VLANs of a bridge's port."""

    passed: list[int]
    """The IDs of those that it lets through."""
    native: int = 0
    """The VLAN of frames that come in without a tag; 0 if they are dropped."""


class PortVerbs(RtnlSocket):
    """VLANs of bridge ports; each verb raises NetlinkError.

    It is VlanFilteringUnsupportedError if the kernel has no VLANs on bridges.
    """

    def add_vlan(self, ifindex: int, vid: int, *, pvid: bool = False, untagged: bool = False) -> None:
        """Let VLAN `vid` through.

        `pvid`: frames that come in without a tag belong to it. `untagged`: its frames go out without a tag.
        """
        self._change(change_vlan(ifindex, vid, pvid=pvid, untagged=untagged), doing=f"add VLAN {vid} to link {ifindex}")

    def add_vlans(self, ifindex: int, vids: Iterable[int]) -> None:
        """Let VLANs through, with their tags, in one system call."""
        requests = [change_vlan(ifindex, first, through=last) for first, last in _ranges(vids)]
        self._change(*requests, doing=f"add VLANs to link {ifindex}")

    def delete_vlan(self, ifindex: int, vid: int) -> None:
        """Block VLAN `vid`; no error if it is blocked already."""
        self._change(change_vlan(ifindex, vid, delete=True), doing=f"delete VLAN {vid} of link {ifindex}")

    def vlans(self, ifindex: int) -> PortVlans:
        """Return the VLANs that a port lets through."""
        try:
            frames = self.dump(get_vlans(ifindex), doing=f"list the VLANs of link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None
        return _vlans(frames)

    def _change(self, *messages: bytes, doing: str) -> None:
        try:
            self.send(*(change(each, doing) for each in messages))
        except NetlinkError as error:
            raise vlan_error(error) from None


def change_vlan(
    ifindex: int, vid: int, *, through: int = 0, pvid: bool = False, untagged: bool = False, delete: bool = False
) -> bytes:
    """Add or delete VLAN `vid`, or all from `vid` through `through`, of a port."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    flags = (_BRIDGE_VLAN_INFO_PVID if pvid else 0) | (_BRIDGE_VLAN_INFO_UNTAGGED if untagged else 0)
    if through > vid:
        vlans = [
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_BEGIN, "vid": vid},
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_END, "vid": through},
        ]
    else:
        vlans = [{"flags": flags, "vid": vid}]
    attributes: list[tuple[str, object]] = [("IFLA_BRIDGE_FLAGS", _BRIDGE_FLAGS_MASTER)]
    attributes += [("IFLA_BRIDGE_VLAN_INFO", vlan) for vlan in vlans]
    kind = _RTM_DELLINK if delete else _RTM_SETLINK
    return build(ifinfmsg, kind, [("IFLA_AF_SPEC", {"attrs": attributes})], family=AF_BRIDGE, index=ifindex)


def get_vlans(ifindex: int) -> bytes:
    """Ask for the VLANs of one port."""
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_query

    return build(br_vlan_query, _RTM_GETVLAN, family=AF_BRIDGE, ifindex=ifindex)


def _ranges(vids: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each range of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for vid in sorted(vids):
        first = ranges.pop()[0] if ranges and ranges[-1][1] == vid - 1 else vid
        ranges.append((first, vid))
    return ranges


def _vlans(frames: Iterable[Frame]) -> PortVlans:
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_msg

    passed: list[int] = []
    native = 0
    for frame in frames:
        for name, entry in decode(br_vlan_msg, frame.encoded)["attrs"]:
            if name == "BRIDGE_VLANDB_ENTRY":
                first = entry.get_attr("BRIDGE_VLANDB_ENTRY_INFO")
                passed += range(first["vid"], entry.get_attr("BRIDGE_VLANDB_ENTRY_RANGE", first["vid"]) + 1)
                native = first["vid"] if first["flags"] & _BRIDGE_VLAN_INFO_PVID else native
    return PortVlans(passed, native)


class Message(Protocol):
    """A pyroute2 message: a dict of header fields, with a list of attributes under "attrs"."""

    data: bytearray

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the value's type depends on the key
        """Return a field."""

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401 - as above
        """Set a field."""

    def get_attr(self, attr: str, default: Any = None) -> Any:  # noqa: ANN401 - as above
        """Return the first attribute of that name, such as IFLA_IFNAME."""

    def encode(self) -> None:
        """Append header, fields and attributes to `data`."""

    def decode(self) -> None:
        """Read fields and attributes from `data`."""


MessageClass = Callable[..., Message]


def build(cls: MessageClass, kind: int, attrs: Attributes = (), *, nlm_flags: int = 0, **fields: int) -> bytes:
    """Return a message of type `kind` (RTM_NEWLINK); `fields` are those of its fixed part."""
    message = cls()
    message["header"]["type"] = kind
    message["header"]["flags"] = nlm_flags
    message["attrs"] = list(attrs)
    for name, value in fields.items():
        message[name] = value
    message.data = bytearray()
    message.encode()
    return bytes(message.data)


def decode(cls: MessageClass, encoded: bytes) -> Message:
    """Return the message in `encoded`, which begins with the netlink header."""
    message = cls(encoded)
    message.decode()
    return message


class _Finder:
    """Finds one package only, at its usual place."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Runs a package's `__init__` when a name is needed that is no module of the package."""

    def exec_module(self, module: ModuleType) -> None:
        run_init = super().exec_module

        def find(name: str) -> object:
            from importlib import import_module

            try:
                return import_module(f"{_PACKAGE}.{name}")
            except ModuleNotFoundError:
                del module.__dict__["__getattr__"]
                run_init(module)
                return getattr(module, name)

        module.__dict__["__getattr__"] = find


if _PACKAGE not in sys.modules:
    sys.meta_path.insert(0, _Finder)
