"""A node that stands for a machine with nothing but this checkout."""

import os
import shlex
from pathlib import Path

from harness.locations import DEFAULT_STATE_DIR
from tests.cli import ROOT
from tests.distributions import WITHOUT_REGISTRY
from tests.nodes import Node


def as_fresh_machine(node: Node, folder: Path) -> Node:
    """Turn a node into a fresh machine, with `.venv/bin` on its PATH and its files below `folder`; return it.

    /opt and /etc are its own, without plugins and network lists; so are its host name, /run/netns and whatever is
    written into the checkout. Its state is in /var/lib/cni-harness, as on any machine: pages name files in it.
    """
    # In memory, since a folder of a container's overlay could not lie over another.
    own = folder / "own"
    own.mkdir()
    node.take_hostname()
    node.run(["mount", "-t", "tmpfs", "tmpfs", own])
    # /opt is not empty: the checkout may be below it, or Python.
    for name, path in {"etc": Path("/etc"), "opt": Path("/opt"), "checkout": ROOT}.items():
        node.run(["sh", "-ec", _OVERLAY, "sh", own / name, path])
    node.run(["rm", "-rf", "/etc/cni", "/opt/cni"])
    # Private first: a mount on a shared folder appears everywhere.
    node.run(["mount", "--make-private", "/run/netns"])
    node.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"])
    node.run(["mkdir", "-p", DEFAULT_STATE_DIR, node.state_dir])
    node.run(["sh", "-c", 'mount --make-private "$(stat -c %m "$0")"', DEFAULT_STATE_DIR])
    node.run(["mount", "--bind", node.state_dir, DEFAULT_STATE_DIR])
    del node.environment["CNI_HARNESS_STATE_DIR"]
    node.environment["PATH"] = f"{ROOT}/.venv/bin:{node.environment['PATH']}"
    if python := os.environ.get("PYTHON"):  # make's, which made the environment
        node.environment["PYTHON"] = python
    node.environment |= WITHOUT_REGISTRY
    return node


# The folder is named from within it: in mount's options, a comma or a colon in its path would mean something else.
_OVERLAY = """
mkdir -p "$1/upper" "$1/work"
cd "$2"
mount -t overlay overlay -o lowerdir=.,upperdir="$1/upper",workdir="$1/work" "$2"
"""


def typed_on(machine: Node, command: str) -> str:
    """Run a command in the checkout; return its stdout and stderr in the order of a terminal.

    Raises AssertionError with them if it fails.
    """
    ran = machine.run(["sh", "-c", f"exec 2>&1; cd {shlex.quote(str(ROOT))} && {command}"], check=False)

    assert ran.returncode == 0, f"{command}\n{ran.stdout}"
    return ran.stdout
