"""cni-harness.pyz: one file that starts with Python alone, and unpacks itself where no other user can write."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from harness.conformance.checks import all_checks
from tests.cli import SYSTEM_PYTHON, VERSION, interrupting
from tools.zipapp.archive import write
from tools.zipapp.start import DIGEST


def start(archive: Path, home: Path, *words: str, under: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Execute the archive with an interpreter that has no packages but its own, and no network."""
    command = ["unshare", "--user", "--net", "--map-current-user"] if os.geteuid() else ["unshare", "--net"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home.parent)}
    interpreter = [SYSTEM_PYTHON, "-I", "-S"]
    return subprocess.run(
        [*command, *under, *interpreter, archive, *words],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def unpacked(archive: Path, home: Path) -> Path:
    with ZipFile(archive) as file:
        return home / ".cache/cni-harness" / file.read(DIGEST).decode()


def test_zipapp_needs_only_python(one_file: Path, home: Path) -> None:
    listed = start(one_file, home, "conformance", "--list", "--output=json")

    assert listed.returncode == 0, listed.stderr
    assert [each["id"] for each in json.loads(listed.stdout)["checks"]] == [check.id for check in all_checks()]


def test_zipapp_contains_the_page_templates(one_file: Path, home: Path) -> None:
    start(one_file, home, "--version")

    names = {path.name for path in (unpacked(one_file, home) / "site/harness/views/templates").iterdir()}
    assert names == {path.name for path in Path("harness/views/templates").iterdir()}


def test_zipapp_is_unpacked_once(one_file: Path, home: Path) -> None:
    first = start(one_file, home, "--version")
    module = unpacked(one_file, home) / "site/harness/cli/main.py"
    before = module.stat()
    second = start(one_file, home, "--version")

    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (0, f"cni-harness {VERSION}\n")
    assert module.stat() == before
    assert [path.name for path in module.parents[4].iterdir()] == [module.parents[3].name]


@pytest.mark.slow("further executions; the archive is executed in make test")
def test_files_that_another_user_could_have_written_are_not_executed(one_file: Path, home: Path) -> None:
    start(one_file, home, "--version")
    folder = unpacked(one_file, home)
    (folder / "site/harness/cli/command_line.py").write_text("def run(words): print('written by another user')\n")
    trusted = start(one_file, home, "--version")
    folder.chmod(0o777)
    distrusted = start(one_file, home, "--version")

    assert trusted.stdout == "written by another user\n"
    assert distrusted.stdout == f"cni-harness {VERSION}\n"


def test_nothing_stays_if_the_home_folder_cannot_be_written(one_file: Path, home: Path) -> None:
    (home / ".cache").touch()
    ran = start(one_file, home, "--version")

    assert (ran.returncode, ran.stdout) == (0, f"cni-harness {VERSION}\n")
    assert sorted(path.name for path in home.parent.iterdir()) == ["home"]
    assert [path.name for path in home.iterdir()] == [".cache"]


@pytest.mark.slow("many interrupted starts; the archive is executed in make test")
def test_interrupted_imports_leave_no_temporary_folder_and_print_no_traceback(one_file: Path, home: Path) -> None:
    (home / ".cache").touch()
    log = home / "log"
    start(one_file, home, "--version", under=["strace", "-qq", "-e", "trace=openat", "-o", str(log)])
    lines = enumerate(log.read_text().splitlines(), 1)
    opened = max(number for number, line in lines if "/cli/command_line." in line and "O_RDONLY" in line)
    log.unlink()
    ran = start(one_file, home, "get", under=interrupting(opened + 20))

    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
    assert sorted(path.name for path in home.parent.iterdir()) == ["home"]


@pytest.mark.slow("further executions; the archive is executed in make test")
def test_the_exit_code_and_the_words_are_the_programs(one_file: Path, home: Path) -> None:
    refused = start(one_file, home, "conformance", "--check", "no-such-check", "--list")
    lacking = start(one_file, home, "validate", str(Path("conf/10-cni-harness.conflist").resolve()))

    assert refused.returncode == 2
    assert "--check no-such-check: no such check" in refused.stderr
    assert lacking.returncode == 1
    assert "`cni-harness validate` needs the Python package" in lacking.stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_same_files_make_the_same_archive(one_file: Path, tmp_path: Path) -> None:
    write(tmp_path / "again.pyz")

    assert (tmp_path / "again.pyz").read_bytes() == one_file.read_bytes()
    assert os.access(one_file, os.X_OK)


def test_zipapp_has_no_native_code(one_file: Path) -> None:
    with ZipFile(one_file) as archive:
        files = {name: archive.read(name)[:4] for name in archive.namelist()}

    assert [name for name, magic in files.items() if magic == b"\x7fELF" or name.endswith(".so")] == []
