"""Our interface plugins as subjects of the suite: their networks, the uplink on each node, and a sample of checks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.conformance.check_options import CheckOptions
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.nodes import HANG

IPAM: Final[Mapping[str, Any]] = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.66.0.0/27"}], [{"subnet": "2001:db8::/64"}]],
    "statusFailsWhenFull": True,
}
"""Few addresses, so that they can be used up."""
WIDE: Final = "10.66.0.0/16"
"""The subnet for ADDs that are killed: they keep addresses until GC."""
LINK_CHECKS: Final = frozenset(
    {
        *("add-makes-interface", "add-existing-interface", "add-keeps-existing-interface", "add-netns-gone"),
        *("add-late-failure-leaves-nothing", "add-after-del", "add-tells-interfaces", "add-interfaces-exist"),
        *("add-mac", "add-mtu", "add-addresses", "add-interface-index", "add-sandbox"),
        *("add-own-mac", "add-prefix-length", "add-tells-routes"),
        *("delegate-undone-after-failed-add", "del-undoes-add", "del-twice", "del-never-added", "del-netns-gone"),
        *("del-netns-empty", "del-after-failed-add", "del-without-prev-result-leaves-nothing", "del-interface-gone"),
        *("del-files-gone", "del-releases-address", "gc-keeps-valid", "gc-removes-stale", "gc-then-del"),
        *("gc-then-add", "nerdctl-last-del", "null-settings", "check-after-add", "check-address-missing"),
        *("check-interface-missing", "check-interface-down", "check-interface-other-mac", "check-never-added"),
        *("own-namespace", "keys-in-any-case", "version-result"),
    }
)
"""Checks that depend on the kind of interface. Those of the protocol alone run with bridge and ptp."""


def with_uplink(folder: Path, *, kills: int = 8, killers: int = 1) -> CheckOptions:
    """Return options whose nodes have `uplink0`, a master or a device. Its program is written into `folder`."""
    program = folder / "uplink.sh"
    program.write_text(
        "#!/bin/sh -e\n"
        "ip link add uplink0 type veth peer name uplink1\n"
        "ip link set uplink0 up\n"
        "ip link set uplink1 up\n"
    )
    program.chmod(0o755)
    return CheckOptions(timeout=HANG, preparation=program, kills=kills, killers=killers)


def interface_plugin(plugin: str, keys: Mapping[str, Any], bin_dir: Path, subnet: str = "10.66.0.0/27") -> Subject:
    """Return the plugin as the only one of a network; `keys` are its configuration, with IPAM's subnet replaced."""
    network = {"cniVersion": "1.1.0", "name": "own", "plugins": [{"type": plugin, **keys}]}
    text = json.dumps(network).replace("10.66.0.0/27", subnet)
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=Profile.INTERFACE, only=[plugin])
    return found
