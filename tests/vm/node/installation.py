"""The project as it is installed on this machine, with systemd to run its server."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cli import ROOT
from tests.nodes import HANG

BIN_DIR = Path("/opt/cni/bin")
SOCKET = "cni-harness.socket"
SERVICE = "cni-harness.service"


class Installation:
    """An operator's commands, and systemd's answers."""

    def harness(self, *args: str) -> str:
        """Run `cni-harness` as a login shell would; return its output. Raises AssertionError if it fails."""
        return self.run("cni-harness", *args)

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> str:
        """Run a command to its end; return its output. Raises AssertionError with all of it if it fails."""
        path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        ran = subprocess.run(
            command,
            env=path | dict(env or {}),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert ran.returncode == 0, f"{command} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def install(self) -> None:
        """Install, as `make install` does."""
        self.harness("install", "--conf")

    def pods(self) -> list[dict[str, Any]]:
        """The pods that there are."""
        pods: list[dict[str, Any]] = json.loads(self.harness("list", "-o", "json"))["pods"]
        return pods

    def plugin(self, name: str, **variables: str) -> dict[str, Any]:
        """Execute an installed plugin with nothing on stdin; return its output."""
        answer: dict[str, Any] = json.loads(self.run(str(BIN_DIR / name), env=variables))
        return answer

    def unit(self, name: str) -> dict[str, str]:
        """What systemd knows of a unit."""
        properties = "ActiveState,ExecMainStartTimestampMonotonic,LoadState,MainPID,NRestarts,Result"
        shown = self.run("systemctl", "show", f"--property={properties}", name)
        return dict(line.split("=", 1) for line in shown.splitlines())

    def state(self, name: str) -> str:
        """`active`, `inactive`, `failed` or what else systemd has for a unit."""
        return self.unit(name)["ActiveState"]

    def server(self) -> int:
        """The process ID of the server, 0 if none runs."""
        return int(self.unit(SERVICE).get("MainPID", "0"))

    def is_serving(self) -> bool:
        """Whether the server has loaded its code: then it takes its own name."""
        with suppress(FileNotFoundError):
            return Path(f"/proc/{self.server()}/comm").read_text() == "cni-serve\n"
        return False

    def start_time(self) -> int:
        """When the server was started last, or was to be; microseconds."""
        return int(self.unit(SERVICE)["ExecMainStartTimestampMonotonic"])

    @contextmanager
    def without_server_code(self) -> Iterator[None]:
        """Have the server fail at its start, as while its code is being replaced."""
        code = ROOT / "launch" / "server" / "server.py"
        aside = code.rename(code.with_suffix(".aside"))
        try:
            yield
        finally:
            aside.rename(code)

    def upgrade(self, release: str) -> None:
        """Change the code that plugins are made of: a comment is enough to make another build of it."""
        with (ROOT / "skel" / "names.py").open("a") as source:
            source.write(f"# {release}\n")
