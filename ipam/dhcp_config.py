"""The configuration of dhcp: the options that the daemon sends to the server and asks for."""

from fast_stdlib.typing import Mapping
from skel import UNKNOWN, Config, IpamConfig, Record, boolean, expected, field, integer_between, list_of, record, string

from .dhcp_daemon.protocol import DEFAULT_SOCKET

DATA_DIR = "/var/lib/cni/dhcp"
"""As in `dhcp_daemon.store`, which a plugin's process does not load."""

_CODES = {
    "subnet-mask": 1,
    "time-offset": 2,
    "routers": 3,
    "domain-name-servers": 6,
    "log-servers": 7,
    "host-name": 12,
    "domain-name": 15,
    "interface-mtu": 26,
    "broadcast-address": 28,
    "static-routes": 33,
    "ntp-servers": 42,
    "vendor-encapsulated-options": 43,
    "vendor-class-identifier": 60,
    "dhcp-client-identifier": 61,
    "user-class": 77,
    "domain-search": 119,
    "rfc3442-classless-static-routes": 121,
}
"""Names as in dhcp-options(5); the reference knows six of them."""
_HIGHEST = 255
_LONGEST = 255
_DEFAULT_REQUEST = (3, 1)
_REQUEST_LIST = 55
_NOT_TO_SEND = {0, 53, 255}
"""Padding, kind of message, end: the client writes these itself, and a second one would spoil the message."""


def option_code(value: object, path: str) -> int:
    """Read a DHCP option: its name in dhcp-options(5), or its number."""
    text = string(value, path)
    if text in _CODES:
        return _CODES[text]
    if text.isascii() and text.isdigit() and int(text) <= _HIGHEST:
        return int(text)
    raise expected("the name of a DHCP option, or its number up to 255", value, path)


def _optional_code(value: object, path: str) -> int | None:
    return None if value == "" else option_code(value, path)


class ProvidedOption(Record):
    """An option that the client sends: a value as it is, or that of a key of CNI_ARGS."""

    option: int = field(option_code)
    value: str = field(string, default="")
    from_arg: str = field(string, default="")


class RequestedOption(Record):
    """An option that the server is asked for."""

    option: int | None = field(_optional_code, default=None)
    skip_default: bool = field(boolean, default=False)
    """Do not ask for `routers` and `subnet-mask` by themselves."""


def absolute_path(value: object, path: str) -> str:
    """Read an absolute path, or ""."""
    text = string(value, path)
    if (text and not text.startswith("/")) or "\0" in text:
        raise expected("an absolute path", value, path)
    return text


class DhcpIpam(IpamConfig):
    """The `ipam` section: the reference's keys, and those for IPv6."""

    daemon_socket_path: str = field(absolute_path, default="", unreadable=UNKNOWN)
    provide: list[ProvidedOption] = field(list_of(record(ProvidedOption)), default=list)
    request: list[RequestedOption] = field(list_of(record(RequestedOption)), default=list)
    priority: int = field(integer_between(0, 0xFFFFFFFF, "a priority"), default=0)
    """Of the routes: the lower the better; 0 is the kernel's default."""
    ipv4: bool = field(boolean, default=True)
    ipv6: bool = field(boolean, default=False)
    """Also an IPv6 address, by DHCPv6."""
    data_dir: str = field(absolute_path, default="", unreadable=UNKNOWN)
    """The folder of the daemon's leases, if it was started with another one than the default."""

    @property
    def socket_path(self) -> str:
        """The path of the daemon's socket."""
        return self.daemon_socket_path or DEFAULT_SOCKET

    @property
    def versions(self) -> list[int]:
        """The IP versions of a pod's addresses. Raises CniError (7) for none."""
        wanted = [version for version, on in ((4, self.ipv4), (6, self.ipv6)) if on]
        if not wanted:
            raise expected("true if ipam.ipv4 is false", self.ipv6, "ipam.ipv6")
        return wanted


class DhcpConfig(Config):
    """The part of a network configuration that dhcp reads."""

    ipam: DhcpIpam = field(record(DhcpIpam))


def options_of(ipam: DhcpIpam, cni_args: Mapping[str, str]) -> dict[str, str]:
    """Return the DHCPv4 options of each message, by number, in hexadecimal digits. Raises CniError (7)."""
    options: dict[str, str] = {}
    for index, provided in enumerate(ipam.provide):
        path = f"ipam.provide[{index}]"
        if provided.option in _NOT_TO_SEND:
            raise expected("an option that a client may choose", str(provided.option), f"{path}.option")
        for key, value in (("value", provided.value), ("fromArg", cni_args.get(provided.from_arg, ""))):
            if len(encoded := value.encode()) > _LONGEST:
                raise expected(f"a value of at most {_LONGEST} bytes", value, f"{path}.{key}")
            if encoded:
                options[str(provided.option)] = encoded.hex()
    wanted = [requested.option for requested in ipam.request if requested.option is not None]
    if not any(requested.skip_default for requested in ipam.request):
        wanted += [code for code in _DEFAULT_REQUEST if code not in wanted]
    if wanted:
        options[str(_REQUEST_LIST)] = bytes(dict.fromkeys(wanted)).hex()
    return options
