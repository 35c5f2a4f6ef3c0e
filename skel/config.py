"""Network configurations as plugins receive them (SPEC.md sections 1 and 3)."""

from fast_stdlib.typing import Self

from .decoders import boolean, dict_of, list_of, raw, record, string
from .environment import check_network_name
from .errors import CniError, Code
from .record import REFUSED, UNKNOWN, Record, Tolerate, expected, field
from .result import DNS
from .strict_json import decode_json, decode_output

_DNS_LISTS = frozenset({"nameservers", "search", "options"})
_GC_KEYS = frozenset({"cni.dev/valid-attachments", "cni.dev/attachments"})


class Attachment(Record):
    """One attachment as GC lists it: CNI_CONTAINERID and CNI_IFNAME of its ADD."""

    container_id: str = field(string, "containerID")
    ifname: str = field(string, "ifname")


class IpamConfig(Record):
    """The `ipam` section, of which an interface plugin reads no more than the delegate's name."""

    type: str = field(string, default="", unreadable=UNKNOWN)


def _dns(value: object, path: str) -> DNS | None:
    """Decode resolver settings: None if there are none. An empty list is a setting, as in the reference plugins."""
    dns = DNS.decode(value, path)
    given = {key.lower() for key, item in value.items() if item is not None} if isinstance(value, dict) else set()
    return dns if dns or not given.isdisjoint(_DNS_LISTS) else None


class Config(Record):
    """The keys that the specification knows; plugins add theirs in a subclass."""

    cni_version: str = field(string, default="")
    name: str = field(string, default="", unreadable=UNKNOWN)
    type: str = field(string, default="")
    ipam: IpamConfig = field(record(IpamConfig), default=IpamConfig, unreadable=UNKNOWN)
    dns: DNS | None = field(_dns, default=None)
    """The resolver settings that replace those of IPAM; None to keep these."""
    capabilities: dict[str, bool] = field(dict_of(boolean), default=dict)
    raw_prev_result: object = field(raw, "prevResult", default=None)
    valid_attachments: list[Attachment] | None = field(
        list_of(record(Attachment)), "cni.dev/valid-attachments", default=None, unreadable=REFUSED
    )
    """The attachments that GC must keep; None when the runtime sent no list at all."""

    attachments_alias: list[Attachment] | None = field(
        list_of(record(Attachment)), "cni.dev/attachments", default=None, unreadable=REFUSED
    )

    @classmethod
    def decode(cls, value: object, path: str = "", *, tolerate: Tolerate | None = None) -> Self:
        """Read a configuration; GC's list in either spelling, where Go's nil slice (`null`) is an empty one.

        Raises CniError (7). libcni sends both spellings (containernetworking/cni#1101).
        """
        config = super().decode(value, path, tolerate=tolerate)
        if config.valid_attachments is None:
            config.valid_attachments = config.attachments_alias
        sent = map(str.lower, value) if isinstance(value, dict) else ()
        if config.valid_attachments is None and not _GC_KEYS.isdisjoint(sent):
            config.valid_attachments = []
        return config


def parse_config(stdin: bytes, tolerate: Tolerate | None = None) -> dict[str, object]:
    """Return the JSON object on stdin. Raises CniError (6) for input that is not JSON, or not an object.

    With `tolerate`, a key that is written twice has its last value, and bytes that are no UTF-8 are replaced, as in Go:
    `tolerate` gets the error.
    """
    try:
        parsed = decode_json(stdin)
    except ValueError as error:
        flaw = CniError(Code.DECODING_FAILURE, f"network configuration is not JSON: {error}")
        if tolerate is None:
            raise flaw from None
        try:
            parsed = decode_output(stdin)
        except ValueError:
            raise flaw from None
        tolerate(flaw)
    if not isinstance(parsed, dict):
        raise CniError(Code.DECODING_FAILURE, expected("an object", parsed, "network configuration").msg)
    return parsed


def version_of(parsed: dict[str, object]) -> str:
    """Return cniVersion, "" if it is missing. Raises CniError (6) if it is no string."""
    return _text(parsed, "cniVersion")


def check_name(parsed: dict[str, object]) -> None:
    """Raise CniError: 7 where the network has no name, or one that is not fit to be a file name; 6 for no string."""
    check_network_name(_text(parsed, "name"))


def _text(parsed: dict[str, object], key: str) -> str:
    """Read a key that comes before the plugin's, "" if it is missing. Raises CniError (6) if it is no string.

    The code is that of Go's skeleton, which cannot decode a key of another type.
    """
    text = ""
    for name, item in parsed.items():
        if name.lower() == key.lower() and item is not None:
            if not isinstance(item, str):
                raise CniError(Code.DECODING_FAILURE, expected("a string", item, key).msg)
            text = item
    return text
