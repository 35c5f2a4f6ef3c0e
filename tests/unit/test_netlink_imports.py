"""Start-up time: modules that are loaded when a plugin imports one of ours."""

import subprocess
import sys
from pathlib import Path

import pytest


def loaded(script: str) -> set[str]:
    program = f"{script}\nimport sys; print(*sys.modules, sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path.cwd())},
    )
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "module", ["netlink.namespace", "netlink.sysctl", "netlink.own_namespaces", "netlink.socket", "netlink.rtnl"]
)
def test_the_light_modules_load_no_pyroute2(module: str) -> None:
    assert not {name for name in loaded(f"import {module}") if name.startswith(("pyroute2", "netaddr"))}


def test_the_messages_are_loaded_without_all_of_pyroute2() -> None:
    modules = loaded("from netlink.bridge_ports import change_vlan\nchange_vlan(1, 2)")

    assert "pyroute2.netlink.rtnl.ifinfmsg" in modules
    # Python 3.14's logging loads inspect by itself.
    further = modules - loaded("import logging")
    assert not {"pyroute2.iproute", "pyroute2.ndb.main", "asyncio", "inspect"} & further


def test_pyroute2_works_after_an_import_of_netlink() -> None:
    script = """
import netlink.rtnl
import pyroute2
from pyroute2 import IPRoute, NDB, netns
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
assert pyroute2.IPRoute is IPRoute and pyroute2.netlink.rtnl.ifinfmsg.ifinfmsg is ifinfmsg
assert pyroute2.__version__
try: pyroute2.no_such_name
except AttributeError: pass
else: raise SystemExit("a name that is not there was found")
"""
    assert "pyroute2.iproute" in loaded(script)
