"""A call is executed once, or not at all: by the worker that takes its token, or by the launcher that takes it back."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from launch.launcher import launcher_bytes, launcher_text
from tests.nodes import HANG, until
from tests.servers import running_server, write_launchers
from tests.unit.test_launcher_accepted import DIED

pytestmark = pytest.mark.sudo

# A worker that lets something happen at the moment that matters.
PRELUDE = """
import os, select, signal
from launch.server.handoff import Handoff
def until_there_is(self, event):
    poll = select.poll()
    poll.register(self.connection, event)
    poll.poll()
def take(self, take=Handoff.take):
    {before}
    take(self)
    {after}
Handoff.take = take
"""
WORKER_DIES = "os.kill(os.getpid(), signal.SIGKILL)"
LAUNCHER_DIES = "os.kill(self._peer.pid, signal.SIGKILL); until_there_is(self, 0)"
LAUNCHER_IS_ENDED = "os.kill(self._peer.pid, signal.SIGTERM); until_there_is(self, select.POLLIN)"
LAUNCHER_TIMES_OUT = "until_there_is(self, 0)"
ADDED, NOTHING = 1, 0


@pytest.mark.mostly_slow(4, "each fault of a connection; a part is in make test")
@pytest.mark.parametrize("content", [launcher_bytes, launcher_text])
@pytest.mark.parametrize(
    ("before", "after", "code", "reserved"),
    [
        ("", "", 0, ADDED),
        (WORKER_DIES, "", 0, ADDED),
        ("", WORKER_DIES, 1, NOTHING),
        (LAUNCHER_DIES, "", -signal.SIGKILL, NOTHING),
        ("", LAUNCHER_DIES, -signal.SIGKILL, NOTHING),
        (LAUNCHER_IS_ENDED, "", -signal.SIGTERM, NOTHING),
        ("", LAUNCHER_IS_ENDED, -signal.SIGTERM, NOTHING),
        (LAUNCHER_TIMES_OUT, "", 0, ADDED),
    ],
)
def test_call_is_executed_once_or_not_at_all(
    tmp_path: Path, content: object, before: str, after: str, code: int, reserved: int
) -> None:
    timeout = 0.5 if before == LAUNCHER_TIMES_OUT else HANG
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "data"), "subnet": "10.9.0.0/16"}
    config = {"cniVersion": "1.1.0", "name": "n", "type": "host-local", "ipam": ipam}
    with running_server(tmp_path, prelude=PRELUDE.format(before=before or "pass", after=after or "pass")) as server:
        assert callable(content)
        until(lambda: server.worker_names() == ["cni-worker"] * 4)  # or timeout may end before a worker accepts
        bin_dir = write_launchers(tmp_path / "bin", content(socket=str(server.socket), timeout=timeout))
        environ = {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": "c1",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": "/run/netns/none",
            "CNI_PATH": str(bin_dir),
        }

        run = subprocess.run(
            [bin_dir / "host-local"],
            env=environ,
            input=json.dumps(config).encode(),
            capture_output=True,
            timeout=HANG,
            check=False,
        )
        assert server.stop() == 0

    assert (run.returncode, run.stderr) == (code, b""), run
    assert len(list((tmp_path / "data").glob("n/10.9.*"))) == reserved
    assert server.requests() == 1
    if code == 1:
        assert json.loads(run.stdout) == DIED
