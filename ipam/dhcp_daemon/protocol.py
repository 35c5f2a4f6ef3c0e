"""The messages between the plugin and its daemon: one line of JSON each way, on a stream socket.

The reference's two sides speak Go's net/rpc over HTTP. Either side tells the other suite's by its first line.
"""

import skel.decoders as read
from skel import Address, Record, field

DEFAULT_SOCKET = "/run/cni/dhcp.sock"
"""The reference's."""
AWAY_SUFFIX = ".away"
"""Of the file beside the socket, in which the first STATUS without an answer notes its time. The daemon removes it."""
MARK = "cniHarnessDhcp"
"""The key that each message has first, with the protocol's number."""
FOREIGN_ANSWER = (
    b"HTTP/1.0 501 this is the DHCP daemon of cni-harness, which serves no other dhcp plugin\r\n"
    b"Connection: close\r\n\r\n"
)


class Question(Record):
    """A verb of the plugin."""

    number: int = field(read.integer, MARK)
    verb: str = field(read.string)
    network: str = field(read.string, default="")
    container_id: str = field(read.string, default="")
    ifname: str = field(read.string, default="")
    netns: str = field(read.string, default="")
    options: dict[str, str] = field(read.dict_of(read.string), default=dict)
    """DHCPv4 options to send, by their numbers, in hexadecimal digits."""
    versions: list[int] = field(read.list_of(read.integer_between(4, 6)), default=list)
    """The IP versions of the addresses."""
    expected: list[Address] = field(read.list_of(read.address), default=list)
    """The attachment's addresses in prevResult."""
    valid: list[list[str]] = field(read.list_of(read.list_of(read.string)), default=list)
    """For GC: container ID and interface name of each attachment that stays."""


class DaemonAnswer(Record):
    """The daemon's answer: an error, unless `code` is 0."""

    number: int = field(read.integer, MARK)
    code: int = field(read.integer, default=0)
    msg: str = field(read.string, default="")
    result: dict[str, object] = field(read.dict_of(read.raw), default=dict)
    """ADD's."""
