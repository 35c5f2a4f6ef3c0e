"""Shared by the tests of the firewall: being in a node, sockets in its pods, many processes at once."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

import pytest

from firewall import masquerade_nft, spoofcheck_nft
from firewall.owner import Owner
from firewall.spoofcheck_nft import Port
from firewall.tables import Interface, Tables
from netlink.namespace import entered, open_namespace
from netlink.netfilter import Netfilter
from tests.nodes import HANG, Node

P = ParamSpec("P")
T = TypeVar("T")

_FORK = """
import os, sys
{setup}
go, ready = os.pipe()
def child(number):
    os.close(ready)
    os.read(go, 1)
{work}
children = []
for number in range({count}):
    pid = os.fork()
    if not pid:
        try:
            child(number)
        except BaseException as error:
            print(f"{{number}}: {{error!r}}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(pid)
os.close(ready)
sys.exit(min(255, sum(os.waitpid(pid, 0)[1] != 0 for pid in children)))
"""


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Move this thread into the network namespace at `path`."""
    with open_namespace(path) as namespace, entered(namespace):
        yield


def tables_of(netfilter: Netfilter) -> Tables:
    """Return what backends work with, on this socket and in the environment of this moment."""
    return Tables(lambda: netfilter, dict(os.environ))


def with_tables(function: Callable[Concatenate[Tables, P], T]) -> Callable[P, T]:
    """Return `function`, each call with a socket of its own in the network namespace that the thread is in."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with Netfilter() as netfilter:
            return function(tables_of(netfilter), *args, **kwargs)

    return call


@with_tables
def masquerade(tables: Tables, addresses: Sequence[Interface], owner: Owner) -> None:
    """Masquerade by our table."""
    masquerade_nft.apply(tables, owner, addresses)


@with_tables
def is_masqueraded(tables: Tables, address: Interface, owner: Owner) -> bool:
    """Tell whether one address is masqueraded by our table."""
    return masquerade_nft.holds(tables, owner, [address])


masqueraded = with_tables(masquerade_nft.masqueraded)
unmasquerade = with_tables(masquerade_nft.remove)


@with_tables
def allow_only(tables: Tables, port: str, mac: str, owner: Owner) -> None:
    """Check the sources of a port by our table."""
    spoofcheck_nft.apply(tables, owner, Port(port, mac))


@with_tables
def is_spoof_checked(tables: Tables, port: str, mac: str, owner: Owner) -> bool:
    """Tell whether our table checks the sources of a port."""
    return spoofcheck_nft.holds(tables, owner, Port(port, mac))


@with_tables
def disallow(tables: Tables, owner: Owner, port: str) -> None:
    """Take back `allow_only`."""
    spoofcheck_nft.remove(tables, owner, Port(port))


@with_tables
def spoof_checked(tables: Tables) -> list[tuple[str, Owner]]:
    """Return the names of the checked ports, and their owners."""
    return [(port.name, owner) for port, owner in spoofcheck_nft.spoof_checked(tables)]


def remove_unused(collect: Callable[[Tables, str, Collection[Owner]], None]) -> None:
    """Collect for a network that has nothing: what nobody needs goes."""
    with_tables(collect)("network of nobody", ())


def socket_in(path: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Open a socket in the network namespace at `path`: it stays there."""
    with inside(path):
        opened = socket.socket(family, kind, protocol)
    opened.settimeout(HANG)
    return opened


def all_at_once(node: Node, count: int, setup: str, work: str) -> subprocess.CompletedProcess[str]:
    """Run `work`, which knows its `number`, in `count` processes of the node that start at the same moment."""
    indented = "\n".join(f"    {line}" for line in work.splitlines())
    script = _FORK.format(setup=setup, work=indented, count=count)
    return node.run([sys.executable, "-c", script], env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def act_before_commit(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None], *, number: int = 1) -> None:
    """Have somebody else act between a look at the rules and what is done about it, once, at the next commit.

    Or at a later one: that with the given `number`.
    """
    commit = Netfilter.commit
    left = [number]

    def commit_after(self: Netfilter, *args: object, **options: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            action()
        commit(self, *args, **options)  # type: ignore[arg-type] # handed on as they came

    monkeypatch.setattr(Netfilter, "commit", commit_after)
