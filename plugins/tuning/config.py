"""Configuration of the tuning plugin: the reference's keys, and the values that a pod gets from them."""

from lean.typing import Mapping, NamedTuple
from plugins.attach.keys import mac_of_cni_args, mtu
from skel import (
    UNKNOWN,
    Config,
    Record,
    boolean,
    dict_of,
    field,
    integer_between,
    mac,
    optional,
    record,
    string,
)

_packets = integer_between(0, 2**32 - 1, "a number of packets")


class WantedValues(NamedTuple):
    """The values that a pod gets."""

    sysctl: dict[str, str]
    """By their names in the configuration."""
    mac: str
    """Empty leaves it as it is."""
    promisc: bool
    mtu: int
    """Bytes; 0 leaves it as it is."""
    allmulti: bool | None
    """None leaves it as it is, as in `tx_queue_len`."""
    tx_queue_len: int | None
    """Packets."""

    @property
    def is_about_link(self) -> bool:
        """Whether any value is one of the pod's interface."""
        return bool(self.mac or self.promisc or self.mtu) or (self.allmulti, self.tx_queue_len) != (None, None)


class _CniArgs(Record):
    sysctl: dict[str, str] | None = field(dict_of(string), default=None)
    mac: str | None = field(string, default=None)
    promisc: bool | None = field(boolean, default=None)
    mtu: int | None = field(mtu, default=None)
    allmulti: bool | None = field(boolean, default=None)
    tx_queue_len: int | None = field(_packets, "txQLen", default=None)


class _Args(Record):
    cni: _CniArgs = field(record(_CniArgs), default=_CniArgs)


class _RuntimeConfig(Record):
    mac: str = field(string, default="")


class TuningConfig(Config):
    """Keys of the reference plugin, with its defaults."""

    data_dir: str = field(string, default="", unreadable=UNKNOWN)
    sysctl: dict[str, str] = field(dict_of(string), default=dict)
    mac: str | None = field(optional(mac), default=None)
    promisc: bool = field(boolean, default=False)
    mtu: int = field(mtu, default=0)
    allmulti: bool | None = field(boolean, default=None)
    tx_queue_len: int | None = field(_packets, "txQLen", default=None)
    args: _Args = field(record(_Args), default=_Args)
    runtime_config: _RuntimeConfig = field(record(_RuntimeConfig), default=_RuntimeConfig)

    def wanted(self, cni_args: Mapping[str, str]) -> WantedValues:
        """Return the pod's values: those of `args.cni` count first.

        A MAC is then the capability's (`runtimeConfig.mac`), then MAC of CNI_ARGS, then the key `mac`, as with the
        reference. Raises CniError for an invalid MAC: 4 if it is in CNI_ARGS, else 7.
        """
        asked = self.args.cni
        return WantedValues(
            sysctl=self.sysctl | (asked.sysctl or {}),
            mac=self._mac(cni_args),
            promisc=self.promisc if asked.promisc is None else asked.promisc,
            mtu=self.mtu if asked.mtu is None else asked.mtu,
            allmulti=self.allmulti if asked.allmulti is None else asked.allmulti,
            tx_queue_len=self.tx_queue_len if asked.tx_queue_len is None else asked.tx_queue_len,
        )

    def _mac(self, cni_args: Mapping[str, str]) -> str:
        asked = self.args.cni.mac
        if asked is not None:
            return mac(asked, "args.cni.mac") if asked else ""
        if self.runtime_config.mac:
            return mac(self.runtime_config.mac, "runtimeConfig.mac")
        return mac_of_cni_args(cni_args) or self.mac or ""
