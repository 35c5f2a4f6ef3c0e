"""The base of CNI plugins: protocol, errors, versions, typed configuration and results, delegation.

    from skel import Args, Config, Plugin, Result, field, main, string

    class Conf(Config):
        greeting: str = field(string, default="hello")

    def add(args: Args[Conf]) -> Result: ...
    def delete(args: Args[Conf]) -> None: ...

    PLUGIN = Plugin("greet", config=Conf, add=add, delete=delete)

    if __name__ == "__main__":
        raise SystemExit(main(PLUGIN))

A plugin that changes something uses `Undo`, and waits for others in `with args.interruption.waiting():`. Then SIGHUP,
SIGINT and SIGTERM end it at once, and its ADD takes back its steps first: see `Undo` and `Interruption`.
"""

from .config import Attachment, Config, IpamConfig
from .decoders import (
    Address,
    Cidr,
    Network,
    address,
    address_or_network,
    boolean,
    choice,
    cidr,
    dict_of,
    integer,
    integer_between,
    interface_name,
    list_of,
    mac,
    network,
    optional,
    raw,
    record,
    string,
    with_length,
)
from .dispatch import Outcome, dispatch
from .errors import CniError, Code
from .interruption import Interruption, InterruptionError, Undo
from .plugin import Args, Context, OpenSockets, Plugin, RawAnswer
from .process import main
from .record import UNKNOWN, Record, expected, field
from .result import DNS, Interface, IPConfig, Result, Route
from .versions import CURRENT, SUPPORTED

__all__ = [
    "CURRENT",
    "DNS",
    "SUPPORTED",
    "UNKNOWN",
    "Address",
    "Args",
    "Attachment",
    "Cidr",
    "CniError",
    "Code",
    "Config",
    "Context",
    "IPConfig",
    "Interface",
    "Interruption",
    "InterruptionError",
    "IpamConfig",
    "Network",
    "OpenSockets",
    "Outcome",
    "Plugin",
    "RawAnswer",
    "Record",
    "Result",
    "Route",
    "Undo",
    "address",
    "address_or_network",
    "boolean",
    "choice",
    "cidr",
    "dict_of",
    "dispatch",
    "expected",
    "field",
    "integer",
    "integer_between",
    "interface_name",
    "list_of",
    "mac",
    "main",
    "network",
    "optional",
    "raw",
    "record",
    "string",
    "with_length",
]
