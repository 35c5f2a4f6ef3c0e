"""The OCI runtime, runc or crun: both understand these command lines.

State is below the node's folder, so that two nodes share nothing. Errors are read from the log that `--log-format json`
makes: the last line's `msg`.
"""

import shutil
from pathlib import Path
from typing import Final, NamedTuple

from harness.containerd import control_groups
from harness.cri.service import RuntimeServiceError

_NAMES: Final = ("runc", "crun")


class OciRuntime(NamedTuple):
    """The commands of an OCI runtime, for containers of one node: its executable, and the folder for its state."""

    command: str
    state: Path

    @classmethod
    def found(cls, state: Path) -> "OciRuntime":
        """Return the first runtime on the PATH. Raises RuntimeServiceError if there is none."""
        for name in _NAMES:
            if path := shutil.which(name):
                return cls(path, state)
        raise RuntimeServiceError(
            "no OCI runtime: an image needs runc or crun (Debian: apt-get install runc); without an image, containers "
            "run the node's own programs"
        )

    def create(self, container_id: str, *, terminal: bool) -> list[str]:
        """Return the command that makes a container of the bundle in its working folder, and writes `../pid`."""
        console = ["--console-socket", "../console.sock"] if terminal else []
        return [*self._words("../create.log"), "create", "--pid-file", "../pid", *console, container_id]

    def start(self, container_id: str) -> list[str]:
        """Return the command that lets a container's process run."""
        return [*self._words("../create.log"), "start", container_id]

    def delete(self, container_id: str) -> list[str]:
        """Return the command that ends a container and removes its control group and state; a missing one is fine."""
        return [*self._words("../delete.log"), "delete", "--force", container_id]

    def execute(self, container_id: str, process: Path, *, log: Path, pid_file: Path) -> list[str]:
        """Return the command that runs another process in a container; `process` is a file as in config.json.

        Without that file, crun would run it as root.
        """
        options = ["--process", str(process), "--pid-file", str(pid_file)]
        return [*self._words(str(log)), "exec", *options, container_id]

    def _words(self, log: str) -> list[str]:
        words = [self.command, "--root", str(self.state), "--log", log, "--log-format", "json"]
        if control_groups.writable():
            return words
        # Without groups of its own, the container stays in those of the shim.
        is_crun = Path(self.command).name == "crun"
        return [*words, *(("--cgroup-manager", "disabled") if is_crun else ("--rootless", "true"))]
