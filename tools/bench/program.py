"""`cni-harness add` and `del` themselves, as processes: of this checkout, and of another one in turns."""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from harness.bench.suites import PLAIN, default_networks

ROOT: Final = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    """The wall time of a process, and the processor time of it and of all that it started and waited for."""

    seconds: float
    cpu_seconds: float


class Program:
    """The command line of a checkout, on a node of its own below `folder`, with the plugins of `bin_dir`."""

    def __init__(self, checkout: Path, folder: Path, bin_dir: Path) -> None:
        """Write the network list, and make nothing else."""
        self._node = f"bench-{uuid.uuid4().hex[:8]}"
        self._state_dir = folder / "state"
        conf_dir = folder / "conf"
        conf_dir.mkdir(parents=True)
        (network,) = (each for each in default_networks() if each.name == PLAIN)
        (conf_dir / "10-bench.conflist").write_bytes(network.raw)
        self._checkout = checkout
        self._environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(checkout),
            "NETCONFPATH": str(conf_dir),
            "CNI_PATH": str(bin_dir),
            "CNI_HARNESS_STATE_DIR": str(self._state_dir),
            "CNI_HARNESS_NODE": self._node,
        }

    def run(self, *arguments: str) -> Ended:
        """Run a verb to its end, which must be good. Raises CalledProcessError."""
        command = [sys.executable, "-m", "harness.cli.main", *arguments]
        begin = time.monotonic()
        with subprocess.Popen(
            command, env=self._environment, cwd=self._checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return Ended(seconds, usage.ru_utime + usage.ru_stime)

    def copy_record(self, count: int) -> None:
        """Put `count` more records of pods beside that of a pod `first`; their namespaces are the first's."""
        folder = self._state_dir / "nodes" / self._node / "pods"
        record = json.loads((folder / "default_first" / "pod.json").read_text())
        for number in range(count):
            (one := folder / f"default_other{number}").mkdir()
            text = json.dumps(record | _names(number), indent=1)
            (one / "pod.json").write_text(text)

    def close(self) -> None:
        """Forget the copied records, and remove the pods and the node."""
        for folder in (self._state_dir / "nodes" / self._node / "pods").glob("default_other*"):
            shutil.rmtree(folder)
        self.run("del", "--all", "--prune")


def _names(number: int) -> Mapping[str, str]:
    return {"name": f"other{number}", "containerID": f"{number:064x}", "uid": str(uuid.UUID(int=number))}
