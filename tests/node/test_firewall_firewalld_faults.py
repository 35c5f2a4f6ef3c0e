"""The firewall plugin when firewalld or its bus is silent, ends or refuses: an error that says so, and nothing left."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firewall import admission_firewalld
from tests.firewalld import Firewalld, running_daemon, running_firewalld, sources
from tests.node.faults import dispatched
from tests.node.firewall_chains import Chain
from tests.nodes import HANG, Node

pytestmark = [pytest.mark.sudo, pytest.mark.needs("firewalld")]

SILENCES = {
    "daemon": ("firewalld does not answer addSource", "firewalld does not answer removeSource"),
    "bus": ("the D-Bus at {} does not answer", "the D-Bus at {} does not answer"),
}
"""Words of the errors of ADD, and of DEL."""


@pytest.fixture
def firewalld(node: Node, tmp_path: Path) -> Iterator[Firewalld]:
    with running_firewalld(node, tmp_path) as running:
        yield running


@pytest.fixture
def chain(node: Node, firewalld: Firewalld, direct_bin_dir: Path) -> Chain:
    del firewalld
    return Chain(node, direct_bin_dir, {"backend": "firewalld"})


@pytest.fixture
def ask(chain: Chain, direct_bin_dir: Path) -> Callable[..., str]:
    """Execute a verb in this process; return its error, or "" without one."""

    def ask(verb: str, pod: str, **keys: Any) -> str:
        config = {"prevResult": chain.results.get(pod)} | keys
        sent = {**chain.ours.config, **{key: value for key, value in config.items() if value is not None}}
        outcome = dispatched(chain.node, direct_bin_dir, verb, sent, pod, variables=chain.node.environment)
        return str(json.loads(outcome.stdout)["msg"]) if outcome.code else ""

    return ask


@contextmanager
def stopped(firewalld: Firewalld, process: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the bus or firewalld; for as long, the time limit is short."""
    victim = getattr(firewalld, process)
    victim.send_signal(signal.SIGSTOP)
    try:
        with patch.context() as limited:
            limited.setattr(admission_firewalld, "TIMEOUT", 2.0)
            yield
    finally:
        victim.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("process", SILENCES)
def test_a_silent_process_ends_each_verb_and_the_next_del_removes_all(
    chain: Chain, firewalld: Firewalld, ask: Callable[..., str], process: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pod in ("one", "two", "three"):
        chain.add(pod)
    chain.attach("new")
    address = chain.node.environment["DBUS_SYSTEM_BUS_ADDRESS"]
    of_add, of_del = (words.format(address) for words in SILENCES[process])

    with stopped(firewalld, process, monkeypatch):
        assert ask("ADD", "new").startswith(of_add)
        assert "does not answer" in ask("CHECK", "one")
        assert "does not answer" in ask("STATUS", "")
        assert ask("DEL", "one").startswith(of_del)
        # A time limit of its own for each stale attachment would add up.
        collected = ask("GC", "", **{"cni.dev/valid-attachments": [{"containerID": "id-two", "ifname": "eth0"}]})
    assert collected.startswith(of_del)
    assert ";" not in collected

    for pod in ("one", "new"):
        chain.succeed("DEL", pod, prevResult=None)
    chain.ours.succeed("GC", "", **{"cni.dev/valid-attachments": []})
    assert sources(chain.node) == []
    assert "cni_harness" not in str(chain.node.nft())


def test_a_firewalld_that_ends_during_a_verb_is_named_and_del_is_done(
    chain: Chain,
    firewalld: Firewalld,
    ask: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain.add("one")
    chain.attach("new")

    with ending_during("addSource", chain, firewalld, monkeypatch):
        assert ask("ADD", "new") == "firewalld has ended before it answered"
    assert ask("ADD", "new") == "firewalld is not running"
    assert ask("STATUS", "") == "firewalld is not running"
    assert ask("DEL", "new") == ""

    with running_daemon(chain.node, tmp_path) as again:
        assert ask("CHECK", "one") == (
            "10.88.0.2 is not admitted by firewalld; fd00:88::2 is not admitted by firewalld"
        )
        assert ask("REPAIR", "one") == ask("CHECK", "one") == ""
        assert len(sources(chain.node)) == 2
        with ending_during("removeSource", chain, firewalld._replace(daemon=again), monkeypatch):
            assert ask("DEL", "one") == ""
    with running_daemon(chain.node, tmp_path):
        assert sources(chain.node) == []


@contextmanager
def ending_during(method: str, chain: Chain, firewalld: Firewalld, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill firewalld when the bus has passed on a request with this method, and before it answers."""
    waits = {"for": ""}
    ask, limit = admission_firewalld.Bus.ask, admission_firewalld.Bus._limit

    def asking(self: admission_firewalld.Bus, asked: str, *arguments: str) -> object:
        waits["for"] = f"to send {asked}"
        return ask(self, asked, *arguments)

    def limiting(self: admission_firewalld.Bus) -> None:
        limit(self)
        if waits["for"] == method:
            waits["for"] = ""
            # The bus deals with messages in their order: when it has answered this one, it has passed on the other.
            assert admission_firewalld.is_running(chain.node.environment)
            firewalld.daemon.kill()
            firewalld.daemon.wait(HANG)
        elif waits["for"] == f"to send {method}":
            waits["for"] = method

    firewalld.daemon.send_signal(signal.SIGSTOP)
    with patch.context() as patched:
        patched.setattr(admission_firewalld.Bus, "ask", asking)
        patched.setattr(admission_firewalld.Bus, "_limit", limiting)
        yield
    assert firewalld.daemon.poll() is not None


def test_refusal_of_firewalld_is_reported_and_the_pods_stay_listed(
    chain: Chain, firewalld: Firewalld, ask: Callable[..., str]
) -> None:
    """Until firewalld ends, and the sources with it. The refusal is a lockdown, with nobody on its list."""
    chain.add("one")
    chain.attach("new")
    for command in ("--remove-lockdown-whitelist-uid=0", "--lockdown-on"):
        chain.node.run(["firewall-cmd", command])

    added, deleted = ask("ADD", "new"), ask("DEL", "one")

    assert added.startswith('firewalld cannot add source 10.88.0.3/32 to zone "trusted": ')
    assert deleted.startswith("firewalld cannot remove source ")
    assert all("ACCESS_DENIED" in message for message in (added, deleted))
    assert "net/id-one/eth0" in str(chain.node.nft())
    firewalld.daemon.terminate()
    firewalld.daemon.wait(HANG)
    for pod in ("one", "new"):
        chain.succeed("DEL", pod, prevResult=None)
    assert "cni_harness" not in str(chain.node.nft())


def test_del_succeeds_without_dbus(chain: Chain, firewalld: Firewalld, ask: Callable[..., str]) -> None:
    chain.add("one")
    chain.attach("new")
    firewalld.bus.kill()
    firewalld.bus.wait(HANG)

    for verb, pod in (("ADD", "new"), ("CHECK", "one"), ("STATUS", "")):
        assert ask(verb, pod).startswith("no D-Bus at ")
    assert ask("DEL", "one") == ask("DEL", "new") == ""
    assert "cni_harness" not in str(chain.node.nft())
    firewalld.daemon.wait(HANG)  # it ends with its bus
