"""A plugin's configuration on standard input, derived from a network list (SPEC.md section 3)."""

import json
from collections.abc import Mapping, Sequence

from harness.libcni.attachment import Attachment
from harness.libcni.networks import NetworkList, PluginConfig

__all__ = ["request_config"]

_GENERATED = frozenset({"cniversion", "name", "prevresult", "runtimeconfig"})
_RESERVED_PREFIX = "cni.dev/"


def request_config(
    network: NetworkList,
    plugin: PluginConfig,
    *,
    prev_result: Mapping[str, object] | None = None,
    attachment: Attachment | None = None,
    valid_attachments: Sequence[tuple[str, str]] | None = None,
) -> bytes:
    """Derive a plugin's request configuration, as one line of compact JSON.

    `attachment` is given for ADD, DEL and CHECK, `valid_attachments` (pairs of container ID and interface name)
    for GC. Keys that the runtime generates are dropped from the file's own, in any capitalisation: plugins written
    in Go ignore case, and would read the wrong one of two keys.
    """
    dropped = _GENERATED | {"capabilities"} if attachment is not None else _GENERATED
    request: dict[str, object] = {"cniVersion": network.cni_version, "name": network.name}
    for key, value in plugin.raw.items():
        folded = key.casefold()
        if folded not in dropped and not folded.startswith(_RESERVED_PREFIX):
            request[key] = value
    capability_args = attachment.capability_args if attachment is not None else {}
    if runtime_config := {name: value for name, value in capability_args.items() if name in plugin.capabilities}:
        request["runtimeConfig"] = runtime_config
    if prev_result is not None:
        request["prevResult"] = prev_result
    if valid_attachments is not None:
        # The specification once misspelt its own key: existing plugins read one or the other.
        listed = [{"containerID": container_id, "ifname": ifname} for container_id, ifname in valid_attachments]
        request["cni.dev/valid-attachments"] = listed
        request["cni.dev/attachments"] = listed
    return json.dumps(request, separators=(",", ":"), allow_nan=False).encode()
