"""A test run that was killed: its mounts, namespaces, processes and control groups end, and the next run passes."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.nodes import HANG, until

pytestmark = [pytest.mark.sudo, pytest.mark.slow("whole runs of tools/test_run.sh, which make test itself uses")]

TESTS = """
import os
import subprocess
import time
from pathlib import Path

import pytest

PLACE, NAME = Path(os.environ["PLACE"]), os.environ["NAME"]

@pytest.mark.parametrize("number", [1, 2])
def test_of_a_sandbox(number, tmp_path):
    name = f"{NAME}-{number}"
    shm = tmp_path / "shm"
    shm.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "shm", shm], check=True)
    subprocess.run(["ip", "netns", "add", name], check=True)
    for hierarchy in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        if (hierarchy / "cgroup.procs").exists():
            (hierarchy / name / "pod").mkdir(parents=True)
    script = 'trap "" INT TERM HUP; while :; do sleep 1; done'
    process = subprocess.Popen(["sh", "-c", script, name], start_new_session=True)
    (PLACE / f"ready{number}").touch()
    time.sleep(float(os.environ["SECONDS"]))
    process.kill()
    process.wait()
    subprocess.run(["umount", shm], check=True)
    subprocess.run(["ip", "netns", "delete", name], check=True)
"""


class Runs:
    """Runs of two tests, whose folders are below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"killed-{uuid.uuid4().hex[:8]}"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.file = folder / "test_sandboxes.py"
        self.file.write_text(TESTS)

    def start(self, *args: str, seconds: float = 0) -> subprocess.Popen[str]:
        """Start a run, each of whose tests waits for some seconds."""
        names = {"PLACE": str(self.folder), "NAME": self.name, "SECONDS": str(seconds)}
        options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "-n", "2", *args]
        return subprocess.Popen(
            [ROOT / "tools" / "test_run.sh", sys.executable, "-m", "pytest", *options, self.file],
            env={**_without_pytest(), **names, "PYTEST_DEBUG_TEMPROOT": str(self.temporary)},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def waiting(self) -> subprocess.Popen[str]:
        """Start a run, and return it when both tests have a sandbox."""
        for number in (1, 2):
            (self.folder / f"ready{number}").unlink(missing_ok=True)
        run = self.start(seconds=HANG)
        until(lambda: run.poll() is not None or all((self.folder / f"ready{number}").exists() for number in (1, 2)))
        assert run.poll() is None, run.communicate()[0]
        return run

    def passes(self) -> None:
        """Run the tests to their end."""
        run = self.start()
        output = run.communicate(timeout=HANG)[0]
        assert run.returncode == 0, output
        assert "2 passed" in output

    def processes(self) -> list[str]:
        """The sandboxes' processes, each once: a copy that is about to execute `sleep` has the words of its shell."""
        listed = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout
        return sorted({line for line in listed.splitlines() if self.name in line})

    def mounts(self) -> list[str]:
        """The mounts below the runs' folders."""
        return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.temporary) in line]

    def groups(self) -> list[str]:
        """The sandboxes' control groups."""
        return [
            folder
            for folder, names, _ in os.walk("/sys/fs/cgroup")
            if any(name.startswith(self.name) for name in names)
        ]

    def left(self) -> list[object]:
        """All that a run should not leave, but for control groups."""
        return [*self.processes(), *self.mounts(), *Path("/run/netns").glob(f"{self.name}*")]


def _without_pytest() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    for line in made.mounts():
        subprocess.run(["umount", "--lazy", line.split()[4]], check=False)


def interrupted_twice(run: subprocess.Popen[str]) -> None:
    """As Ctrl-C: a terminal sends the signal to all processes of the group."""
    os.killpg(run.pid, signal.SIGINT)
    os.killpg(run.pid, signal.SIGINT)


def killed(run: subprocess.Popen[str]) -> None:
    os.killpg(run.pid, signal.SIGKILL)


def killed_alone(run: subprocess.Popen[str]) -> None:
    run.kill()


def terminated(run: subprocess.Popen[str]) -> None:
    run.terminate()


@pytest.mark.parametrize("end", [interrupted_twice, killed, killed_alone, terminated])
def test_a_run_that_was_ended_leaves_nothing_and_the_next_one_passes(
    runs: Runs, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    run = runs.waiting()

    end(run)

    run.communicate(timeout=HANG)
    assert run.returncode != 0
    until(lambda: not runs.left())
    runs.passes()
    assert runs.left() == []
    assert runs.groups() == []


def test_a_run_keeps_things_that_another_run_uses(runs: Runs) -> None:
    other = runs.waiting()
    groups, processes = runs.groups(), runs.processes()

    runs.passes()

    assert other.poll() is None
    assert (runs.groups(), runs.processes()) == (groups, processes)
    terminated(other)
    other.communicate(timeout=HANG)
    assert runs.groups() == []


def test_a_mount_of_an_older_run_is_no_failure(runs: Runs) -> None:
    """Of a version whose runs had no mounts of their own. pytest keeps three folders, and removes older ones."""
    folders = [runs.temporary / "pytest-of-root" / f"pytest-{number}" for number in range(6)]
    shm = folders[0] / "popen-gw0" / "shm"
    for folder in (shm, *folders):
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "shm", shm], check=True)

    runs.passes()

    assert not folders[0].exists()
    assert runs.mounts() == []
