"""`cni-harness serve` from the command line."""

import signal
from pathlib import Path

import pytest

from tests.cli import AS_UNPRIVILEGED_USER, Cli
from tests.nodes import HANG
from tests.server_client import client, request_for

pytestmark = pytest.mark.sudo


def test_serve_runs_until_sigterm(own_cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run" / "server.sock"
    with own_cli.background("serve", "--socket", str(path), "--workers", "2") as server:
        assert server.stderr is not None
        assert "listening at" in server.stderr.readline()
        with client(path) as launcher:
            assert launcher.call(request_for("noop", {"CNI_COMMAND": "VERSION"})) == 0
        server.send_signal(signal.SIGTERM)

        assert server.wait(HANG) == 0
        assert "ended after 1 requests" in server.stderr.read()
    assert not path.exists()


def test_serve_with_idle_exit_ends_by_itself(own_cli: Cli, tmp_path: Path) -> None:
    ended = own_cli.run("serve", "--socket", str(tmp_path / "server.sock"), "--idle-exit", "0.1")

    assert "no request in 0.1 s" in ended.stderr


def test_serve_needs_root(own_cli: Cli) -> None:
    own_cli.prefix = AS_UNPRIVILEGED_USER
    del own_cli.environment["NETCONFPATH"]

    failed = own_cli.run("serve", check=False)

    assert failed.returncode == 1
    assert "needs root" in failed.stderr
