"""A plugin's configuration on standard input, derived from a network list (SPEC.md section 3).

An attachment, which has the other arguments, is one interface of one container on one network.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.libcni.networks import NetworkList, PluginConfig
from skel.environment import check_container_id, check_ifname
from skel.errors import CniError, Code
from skel.repairs import LISTED

PROTOCOL_VARIABLES = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH")
"""The environment variables of a request; the plugin inherits every other variable unchanged."""


@dataclass(frozen=True)
class ContainerAttachment:
    """The runtime's parameters for one attachment.

    `netns` is the path of the network namespace, empty when it is gone. `cni_args` are the pairs of CNI_ARGS in
    their order; `capability_args` maps a capability to any JSON value.
    """

    container_id: str
    netns: str
    ifname: str
    cni_args: tuple[tuple[str, str], ...] = ()
    capability_args: Mapping[str, object] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `CniError` (code 3 or 4) if the container ID or the interface name is invalid."""
        check_container_id(self.container_id)
        check_ifname(self.ifname)

    def check_args(self) -> None:
        """Raise `CniError` (code 4) for a pair that CNI_ARGS cannot represent unchanged."""
        for key, value in self.cni_args:
            if not key or any(sign in key + value for sign in "=;\0"):
                detail = "a pair is K=V, and neither side can hold '=' or ';'"
                raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: invalid pair "{key}={value}"', detail)

    def environment(self) -> dict[str, str]:
        """Return the CNI_* variables of this attachment; the caller adds CNI_COMMAND and CNI_PATH."""
        return {
            "CNI_CONTAINERID": self.container_id,
            "CNI_NETNS": self.netns,
            "CNI_IFNAME": self.ifname,
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in self.cni_args),
        }


_GENERATED = frozenset({"cniversion", "name", "prevresult", "runtimeconfig"})
_RESERVED_PREFIXES = ("cni.dev/", "cni-harness/")


def request_config(
    network: NetworkList,
    plugin: PluginConfig,
    *,
    prev_result: Mapping[str, object] | None = None,
    attachment: ContainerAttachment | None = None,
    valid_attachments: Sequence[tuple[str, str]] | None = None,
) -> bytes:
    """Derive a plugin's request configuration, as one line of compact JSON.

    `attachment` is given for ADD, DEL and CHECK, `valid_attachments` (pairs of container ID and interface name)
    for GC. Keys that the runtime generates are dropped from the file's own, in any capitalisation: plugins written
    in Go ignore case, and would read the wrong one of two keys.
    """
    request = _keys_of_file(network, plugin, _GENERATED | {"capabilities"} if attachment is not None else _GENERATED)
    if attachment is not None and (runtime_config := _runtime_config(plugin, attachment)):
        request["runtimeConfig"] = runtime_config
    if prev_result is not None:
        request["prevResult"] = prev_result
    if valid_attachments is not None:
        # The specification once misspelt its own key: existing plugins read one or the other.
        listed = [{"containerID": container_id, "ifname": ifname} for container_id, ifname in valid_attachments]
        request["cni.dev/valid-attachments"] = listed
        request["cni.dev/attachments"] = listed
    return _encoded(request)


def repair_config(
    network: NetworkList, plugin: PluginConfig, attachments: Sequence[tuple[ContainerAttachment, Mapping[str, object]]]
) -> bytes:
    """Derive the configuration of one REPAIR for many attachments, each given with the result of its ADD."""
    request = _keys_of_file(network, plugin, _GENERATED | {"capabilities"})
    request[LISTED] = [
        {
            "containerID": attachment.container_id,
            "ifname": attachment.ifname,
            "netns": attachment.netns,
            "args": attachment.environment()["CNI_ARGS"],
            "runtimeConfig": _runtime_config(plugin, attachment),
            "prevResult": result,
        }
        for attachment, result in attachments
    ]
    return _encoded(request)


def _keys_of_file(network: NetworkList, plugin: PluginConfig, dropped: frozenset[str]) -> dict[str, object]:
    request: dict[str, object] = {"cniVersion": network.cni_version, "name": network.name}
    for key, value in plugin.raw.items():
        folded = key.casefold()
        if folded not in dropped and not folded.startswith(_RESERVED_PREFIXES):
            request[key] = value
    return request


def _runtime_config(plugin: PluginConfig, attachment: ContainerAttachment) -> dict[str, object]:
    return {name: value for name, value in attachment.capability_args.items() if name in plugin.capabilities}


def _encoded(request: Mapping[str, object]) -> bytes:
    return json.dumps(request, separators=(",", ":"), allow_nan=False).encode()
