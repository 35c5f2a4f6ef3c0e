"""Installing and taking back exactly that."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from launch import PLUGINS
from tests.cli import ROOT, Cli
from tests.distributions import ROOMS

SLOWER = "This was installed without a C compiler: the plugins get the slower launcher, in Python"
FOREIGN = b"#!/bin/sh\necho somebody else\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "cli", tmp_path / "opt" / "cni" / "bin")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_every_plugin_is_there_and_runs(cli: Cli) -> None:
    cli.run("install")

    assert {path.name for path in cli.bin_dir.iterdir()} == set(PLUGINS)
    for path in cli.bin_dir.iterdir():
        run = subprocess.run(
            [path], env={"CNI_COMMAND": "VERSION"}, input="{}", capture_output=True, text=True, check=True
        )
        assert "1.1.0" in json.loads(run.stdout)["supportedVersions"]


def test_folders_of_install_are_writable_by_root_alone(cli: Cli, tmp_path: Path) -> None:
    cli.prefix = ["sh", "-c", 'umask 0 && exec "$@"', "sh"]
    before = set(tmp_path.rglob("*"))

    cli.run("install", "--conf", "--conf-dir", str(tmp_path / "etc" / "cni" / "net.d"))

    made = set(tmp_path.rglob("*")) - before
    assert {cli.state_dir, cli.bin_dir, cli.bin_dir.parent, tmp_path / "etc"} <= made
    assert {path for path in made if path.stat().st_mode & 0o022} == set()


def test_uninstall_takes_back_folders_too(cli: Cli, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    cli.run("install", "--conf", "--conf-dir", str(tmp_path / "etc" / "cni" / "net.d"))
    assert (tmp_path / "etc/cni/net.d/10-cni-harness.conflist").exists()

    cli.run("uninstall")

    left = sorted(tmp_path.rglob("*"))
    assert [path for path in left if path not in before] == [cli.state_dir]


def test_list_is_only_put_there_when_asked_for(cli: Cli) -> None:
    cli.run("install")

    assert list(cli.conf_dir.iterdir()) == []


def test_list_by_name(cli: Cli) -> None:
    cli.run("install", "--conf", "90-hostnetwork-noop.conflist")

    assert [path.name for path in cli.conf_dir.iterdir()] == ["90-hostnetwork-noop.conflist"]


def test_unknown_list_is_refused_before_anything_is_written(cli: Cli) -> None:
    failed = cli.run("install", "--conf", "no-such.conflist", check=False)

    assert failed.returncode == 2
    assert "10-cni-harness.conflist" in failed.stderr
    assert not cli.bin_dir.exists()


@pytest.fixture
def unprivileged() -> Iterator[Cli]:
    """The same for a user who is not root, and who has one folder, `own`.

    It is not below pytest's folder, which only root can search.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "own").mkdir()
        os.chown(folder / "own", 65534, 65534)
        cli = Cli(folder / "cli", folder / "opt" / "cni" / "bin")
        cli.prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        # The checkout may be where only root can search; this capability allows no write.
        cli.prefix += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        yield cli


@pytest.mark.sudo
@pytest.mark.parametrize("lacking", ["bin", "state", "conf"])
def test_install_without_root_names_the_folder_and_changes_nothing(unprivileged: Cli, lacking: str) -> None:
    place = unprivileged.folder.parent
    folders = {name: str(place / ("root" if name == lacking else "own") / name) for name in ("bin", "state", "conf")}
    before = sorted(place.rglob("*"))

    failed = unprivileged.run(
        *("install", "--conf", *(word for name in folders for word in (f"--{name}-dir", folders[name]))), check=False
    )

    assert (failed.returncode, failed.stdout) == (1, "")
    [error] = [line for line in failed.stderr.splitlines() if line != SLOWER]
    assert error.startswith("Error: nothing was changed: `cni-harness install` needs root (sudo) to write into ")
    assert f" {folders[lacking]}; " in error
    assert sorted(place.rglob("*")) == before


@pytest.mark.sudo
def test_install_without_root_into_folders_of_ones_own_and_back(unprivileged: Cli) -> None:
    place = unprivileged.folder.parent
    folders = [f"--{name}-dir={place / 'own' / name}" for name in ("bin", "state", "conf")]

    unprivileged.run("install", "--conf", *folders)
    assert {path.name for path in (place / "own/bin").iterdir()} == set(PLUGINS)
    unprivileged.run("uninstall", folders[1])

    assert [path.name for path in (place / "own").iterdir()] == ["state"]


@pytest.mark.sudo
def test_uninstall_without_root_names_the_folders_and_changes_nothing(unprivileged: Cli) -> None:
    place = unprivileged.folder.parent
    prefix, unprivileged.prefix = unprivileged.prefix, []
    unprivileged.run("install")
    before = files(place)

    unprivileged.prefix = prefix
    failed = unprivileged.run("uninstall", check=False)

    assert failed.returncode == 1
    assert "nothing was changed: `cni-harness uninstall` needs root (sudo) to write into " in failed.stderr
    assert str(unprivileged.bin_dir) in failed.stderr
    assert files(place) == before


def test_installing_again_changes_nothing(cli: Cli) -> None:
    cli.run("install")
    inodes = {path.name: path.stat().st_ino for path in cli.bin_dir.iterdir()}

    again = cli.json("install")

    assert {path.name: path.stat().st_ino for path in cli.bin_dir.iterdir()} == inodes
    assert not any(file["written"] for file in again["files"])


def test_foreign_plugin_is_kept_and_nothing_is_written(cli: Cli) -> None:
    cli.bin_dir.mkdir(parents=True)
    (cli.bin_dir / "bridge").write_bytes(FOREIGN)

    failed = cli.run("install", check=False)

    assert failed.returncode == 1
    assert f"kept: {cli.bin_dir}/bridge" in failed.stderr
    assert files(cli.bin_dir) == {"bridge": FOREIGN}


def test_force_replaces_and_uninstall_restores(cli: Cli) -> None:
    cli.bin_dir.mkdir(parents=True)
    original = cli.bin_dir / "bridge"
    original.write_bytes(FOREIGN)
    original.chmod(0o751)
    (cli.bin_dir / "other").write_bytes(FOREIGN)

    cli.run("install", "--force")
    assert original.read_bytes() != FOREIGN
    cli.run("uninstall")

    assert files(cli.bin_dir) == {"bridge": FOREIGN, "other": FOREIGN}
    assert original.stat().st_mode & 0o777 == 0o751


def test_forcing_twice_still_restores_the_original(cli: Cli) -> None:
    cli.bin_dir.mkdir(parents=True)
    (cli.bin_dir / "bridge").write_bytes(FOREIGN)
    cli.run("install", "--force")
    cli.run("install", "--force")

    cli.run("uninstall")

    assert files(cli.bin_dir) == {"bridge": FOREIGN}


def test_uninstall_keeps_files_from_before_the_install(cli: Cli) -> None:
    listed = cli.conf_dir / "10-cni-harness.conflist"
    listed.write_bytes((ROOT / "conf" / listed.name).read_bytes())
    listed.chmod(0o644)
    inode = listed.stat().st_ino

    installed = cli.json("install", "--conf")["files"]
    done = cli.json("uninstall")

    assert {"path": str(listed), "written": False} in installed
    assert str(listed) not in done["removed"]
    assert listed.stat().st_ino == inode
    assert not cli.bin_dir.exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_uninstall_keeps_files_of_another_installation(cli: Cli, tmp_path: Path) -> None:
    other = ("--state-dir", str(tmp_path / "other"))
    cli.run("install", *other)

    cli.run("install")
    cli.run("uninstall")

    assert {path.name for path in cli.bin_dir.iterdir()} == set(PLUGINS)
    assert list(cli.state_dir.iterdir()) == []
    cli.run("uninstall", *other)
    assert not cli.bin_dir.exists()


def test_plugin_that_cannot_be_executed_is_put_right(cli: Cli) -> None:
    cli.run("install")
    (cli.bin_dir / "bridge").chmod(0o644)

    again = cli.json("install")["files"]

    assert [file["path"] for file in again if file["written"]] == [str(cli.bin_dir / "bridge")]
    assert (cli.bin_dir / "bridge").stat().st_mode & 0o777 == 0o755
    cli.run("uninstall")
    assert not cli.bin_dir.exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_foreign_file_of_the_same_content_keeps_its_mode(cli: Cli) -> None:
    listed = cli.conf_dir / "10-cni-harness.conflist"
    listed.write_bytes((ROOT / "conf" / listed.name).read_bytes())
    listed.chmod(0o600)

    failed = cli.run("install", "--conf", check=False)
    assert (failed.returncode, cli.bin_dir.exists()) == (1, False)
    assert f"kept: {listed} " in failed.stderr
    cli.run("install", "--conf", "--force")
    assert listed.stat().st_mode & 0o777 == 0o644
    cli.run("uninstall")

    assert listed.stat().st_mode & 0o777 == 0o600


def test_file_changed_since_is_kept(cli: Cli) -> None:
    cli.run("install")
    (cli.bin_dir / "bridge").write_bytes(FOREIGN)

    done = cli.json("uninstall")

    assert done["kept"] == [str(cli.bin_dir / "bridge")]
    assert files(cli.bin_dir) == {"bridge": FOREIGN}


def test_file_removed_since_is_no_error(cli: Cli) -> None:
    cli.run("install")
    (cli.bin_dir / "bridge").unlink()

    cli.run("uninstall")

    assert not cli.bin_dir.exists()


def test_uninstall_without_install_does_nothing(cli: Cli) -> None:
    assert cli.json("uninstall") == {"removed": [], "restored": [], "kept": []}


def test_installs_in_two_places_are_both_taken_back(cli: Cli, tmp_path: Path) -> None:
    cli.run("install")
    cli.run("install", "--bin-dir", str(tmp_path / "second"))

    cli.run("uninstall")

    assert not cli.bin_dir.exists()
    assert not (tmp_path / "second").exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_uninstall_of_a_folder_takes_back_that_folder_alone(cli: Cli, tmp_path: Path) -> None:
    second, conf = tmp_path / "new" / "second", tmp_path / "etc" / "net.d"
    cli.run("install")
    first = files(cli.bin_dir)
    cli.run("install", "--bin-dir", str(second), "--conf-dir", str(conf), "--conf")

    done = cli.json("uninstall", "--bin-dir", str(second))

    assert sorted(done["removed"]) == sorted(str(second / name) for name in PLUGINS)
    assert not second.parent.exists()
    assert files(cli.bin_dir) == first
    assert [path.name for path in conf.iterdir()] == ["10-cni-harness.conflist"]
    assert "no file into" in cli.run("uninstall", "--bin-dir", str(second)).stderr
    cli.run("--conf-dir", str(conf), "uninstall")
    assert not conf.parent.exists()
    assert files(cli.bin_dir) == first
    cli.run("uninstall")
    assert not cli.bin_dir.exists()
    assert list(cli.state_dir.iterdir()) == []


def test_own_files_of_an_older_installation_are_replaced(cli: Cli) -> None:
    cli.run("install")
    manifest = cli.state_dir / "install.json"
    older = b"#!/bin/sh\n# what an older release put there\n"
    (cli.bin_dir / "bridge").write_bytes(older)
    placed = json.loads(manifest.read_text())
    import hashlib

    for entry in placed["files"]:
        if entry["path"].endswith("/bridge"):
            entry["sha256"] = hashlib.sha256(older).hexdigest()
    manifest.write_text(json.dumps(placed))

    cli.run("install")

    assert (cli.bin_dir / "bridge").read_bytes() == (cli.bin_dir / "noop").read_bytes()


def test_several_folders_are_refused(cli: Cli) -> None:
    failed = cli.run("install", env={"CNI_PATH": "/one:/two"}, check=False)

    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)


def test_folder_that_cannot_be_written_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    failed = cli.run("install", "--bin-dir", str(tmp_path / "file" / "bin"), check=False)

    assert failed.returncode != 0
    assert failed.stderr.startswith("Error: ")
    assert failed.stderr.count("\n") == 1


def test_running_executable_is_replaced(cli: Cli) -> None:
    cli.bin_dir.mkdir(parents=True)
    busy = cli.bin_dir / "bridge"
    busy.write_bytes(Path("/bin/cat").read_bytes())
    busy.chmod(0o755)
    with subprocess.Popen([busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        cli.run("install", "--force")

        assert running.communicate(b"undisturbed")[0] == b"undisturbed"
    assert os.access(busy, os.X_OK)


def test_install_reports_the_slower_launcher_once(cli: Cli, tmp_path: Path) -> None:
    """As where the project was installed without a compiler."""
    tree = tmp_path / "tree"
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__", "_launcher"))
    cli.environment["PYTHONPATH"] = str(tree)

    installed = cli.run("install")

    assert installed.stderr.splitlines().count(SLOWER) == 1
    assert (cli.bin_dir / "bridge").read_bytes().startswith(b"#!")
    run = subprocess.run([cli.bin_dir / "bridge"], env={"CNI_COMMAND": "VERSION"}, capture_output=True, check=True)
    assert b"1.1.0" in run.stdout


def test_the_compiled_launcher_needs_no_word(cli: Cli) -> None:
    assert SLOWER not in cli.run("install").stderr
    assert (cli.bin_dir / "bridge").read_bytes().startswith(b"\x7fELF")
