"""Fixtures of tests on a machine that tools/provision.sh has made a node of: theirs alone, to be used up."""

import os

import pytest

from tests.vm.node.installation import Installation


@pytest.fixture
def provisioned() -> Installation:
    """The machine as it was provisioned."""
    if os.environ.get("CNI_HARNESS_TEST_MACHINE") != "node":
        pytest.skip("this machine is not there to be changed; `make test-vm` makes one that is")
    return Installation()


@pytest.fixture
def fresh(provisioned: Installation) -> Installation:
    """The same with the project just installed: nobody has asked for a server yet."""
    provisioned.harness("del", "--all", "--prune")
    provisioned.harness("uninstall")
    provisioned.install()
    return provisioned
