"""A plugin that records what reaches it: what skel refuses must not.

It is a real plugin with a key for each way of reading a value, and makes a file whenever one of its functions runs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Any

from launch.launcher import find_plugin
from skel import (
    DNS,
    SUPPORTED,
    Address,
    Args,
    Cidr,
    Config,
    Context,
    Interface,
    IpamConfig,
    IPConfig,
    Network,
    Outcome,
    Plugin,
    Record,
    Result,
    Route,
    address,
    boolean,
    choice,
    cidr,
    dict_of,
    dispatch,
    field,
    integer,
    integer_between,
    interface_name,
    list_of,
    mac,
    network,
    optional,
    record,
    string,
)

ENVIRON = {
    "CNI_CONTAINERID": "pod-1",
    "CNI_NETNS": "/run/netns/not-there",
    "CNI_IFNAME": "eth0",
    "CNI_PATH": "/opt/cni/bin",
}
"""Fit for every verb; CNI_COMMAND is the test's."""


class Range(Record):
    subnet: Network = field(network)
    gateway: Address | None = field(optional(address), default=None)


class SampleIpam(IpamConfig):
    ranges: list[list[Range]] = field(list_of(list_of(record(Range))), default=list)


class SampleConfig(Config):
    ipam: SampleIpam = field(record(SampleIpam), default=SampleIpam)
    bridge: str = field(interface_name, default="cni0")
    backend: str = field(choice("nftables", "iptables"), default="nftables")
    enabled: bool = field(boolean, default=False)
    labels: dict[str, str] = field(dict_of(string), default=dict)
    mac: str = field(mac, default="")
    mtu: int = field(integer_between(68, 65535), default=1500)
    rate: int = field(integer, default=0)
    source: Cidr | None = field(cidr, default=None)
    tags: list[str] = field(list_of(string), default=list)


def sample_result() -> Result:
    """Two families, a gateway each, and every key of 1.1.0 that a plugin on this machine could fill in."""
    return Result(
        interfaces=[
            Interface(name="cni0", mac="02:00:00:00:00:01", mtu=1500),
            Interface(name="eth0", mac="02:00:00:00:00:02", mtu=1400, sandbox="/run/netns/pod1"),
        ],
        ips=[
            IPConfig(address=ip_interface("10.1.0.5/16"), gateway=ip_interface("10.1.0.1").ip, interface=1),
            IPConfig(address=ip_interface("fd00:1::5/64"), gateway=ip_interface("fd00:1::1").ip, interface=1),
        ],
        routes=[
            Route(dst=ip_network("0.0.0.0/0"), gw=ip_interface("10.1.0.1").ip),
            Route(dst=ip_network("::/0")),
            Route(dst=ip_network("192.0.2.0/24"), mtu=1400, advmss=1360, priority=100, table=0, scope=253),
        ],
        dns=DNS(nameservers=["192.0.2.53"], domain="example.com", search=["example.com"], options=["ndots:5"]),
    )


def configuration(**changes: object) -> dict[str, object]:
    """Return a configuration that every verb accepts, with `changes`; a key of `...` is dropped."""
    config = {"cniVersion": "1.1.0", "name": "net1", "type": "sample"} | changes
    return {key: value for key, value in config.items() if value is not ...}


class Sample:
    """The plugin, and its requests."""

    def __init__(
        self,
        folder: Path,
        *,
        env_args: Sequence[str] | None = ("MAC", "IP"),
        behave: Callable[[Args[SampleConfig]], Any] | None = None,
        versions: Sequence[str] = SUPPORTED,
    ) -> None:
        """Make one that leaves a file in `folder` for each call; `behave` then raises or returns in its place."""
        self.calls: list[Args[SampleConfig]] = []
        self.folder = folder
        self.behave = behave
        self.plugin = Plugin(
            "sample",
            config=SampleConfig,
            add=self._called,
            delete=self._called,
            check=self._called,
            gc=self._called,
            status=self._called,
            env_args=env_args,
            versions=versions,
            version="1.2.3",
        )

    def _called(self, args: Args[SampleConfig]) -> Any:
        self.calls.append(args)
        (self.folder / f"{args.verb}-{len(self.calls)}").touch()
        if self.behave:
            return self.behave(args)
        return sample_result() if args.verb == "ADD" else None

    def run(
        self, verb: str, config: Mapping[str, object] | bytes | None = None, environ: Mapping[str, str | None] = {}
    ) -> Outcome:
        """Dispatch one invocation: a configuration (or the bytes of one), and changes to ENVIRON; None is absent."""
        changed = {**ENVIRON, "CNI_COMMAND": verb, **environ}
        present = {name: value for name, value in changed.items() if value is not None}
        stdin = (
            config if isinstance(config, bytes) else json.dumps(configuration() if config is None else config).encode()
        )
        return dispatch(self.plugin, present, lambda: stdin, Context(find_plugin=find_plugin))

    def accepted(
        self, verb: str, config: Mapping[str, object] | bytes | None = None, **environ: str | None
    ) -> Args[SampleConfig]:
        """Dispatch one invocation that must succeed, and return what reached the plugin."""
        outcome = self.run(verb, config, environ)
        assert outcome.code == 0, outcome.stdout
        return self.calls[-1]
