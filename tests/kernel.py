"""Abilities of the kernel under test: small ones lack drivers, the virtual machine's must not."""

import os
from typing import NoReturn

import pytest

from tests.nodes import Node

IS_FULL = os.environ.get("CNI_HARNESS_TEST_KERNEL") == "full"
"""Whether whoever runs the tests has promised a kernel with all drivers, as `make test-vm` does."""


def has_vlan_filtering(node: Node) -> bool:
    """Tell whether bridges know VLANs. Raises AssertionError where they are promised to, and do not."""
    probe = ["ip", "link", "add", "probe", "type", "bridge", "vlan_filtering", "1"]
    tried = node.run(probe, check=False)
    if tried.returncode == 0:
        node.run(["ip", "link", "delete", "probe"])
    assert tried.returncode == 0 or not IS_FULL, tried.stderr
    return tried.returncode == 0


def has_link_kind(node: Node, kind: str, *options: str) -> bool:
    """Tell whether the kernel makes links of a kind: "ipvlan", "vlan" with the options "id", "7", ….

    Raises AssertionError for one that the machine was promised to have, and has not.
    """
    node.run(["ip", "link", "add", "below", "type", "veth", "peer", "beside"])
    tried = node.run(["ip", "link", "add", "link", "below", "name", "probe", "type", kind, *options], check=False)
    if tried.returncode == 0:
        node.run(["ip", "link", "delete", "probe"])
    node.run(["ip", "link", "delete", "below"])
    assert tried.returncode == 0 or not IS_FULL, tried.stderr
    return tried.returncode == 0


def lacking(what: str) -> NoReturn:
    """Skip the test: this machine's kernel lacks the driver for it."""
    pytest.skip(f"this machine's kernel ({os.uname().release}) has no {what}; `make test-vm` has one that does")
