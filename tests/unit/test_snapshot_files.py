"""Files below folders, in snapshots."""

import itertools
import os
from pathlib import Path

import pytest

from harness.snapshot import Snapshot, differences, take


def words(before: Snapshot, after: Snapshot) -> list[str]:
    return [difference.in_words() for difference in differences(before, after)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "networks"
    folder.mkdir(mode=0o755)
    return folder


def of(folder: Path) -> Snapshot:
    return take({}, [folder])


def owner() -> str:
    return "" if os.geteuid() == os.getegid() == 0 else f", owner {os.geteuid()}:{os.getegid()}"


def test_a_file_appears_changes_and_goes(folder: Path) -> None:
    states = [of(folder)]
    file = folder / "10.1.0.2"
    file.write_text("abc\r\neth0")
    file.chmod(0o600)
    states.append(of(folder))
    file.write_text("abd\r\neth0")
    states.append(of(folder))
    file.chmod(0o644)
    states.append(of(folder))
    file.unlink()
    states.append(of(folder))

    assert [words(*pair) for pair in itertools.pairwise(states)] == [
        [f'+ files: file {file} (9 bytes, mode 0600{owner()}): "abc\\r\\neth0"'],
        [f'~ files: file {file}: text "abc\\r\\neth0" -> "abd\\r\\neth0"'],
        [f"~ files: file {file}: mode 0600 -> 0644"],
        [f'- files: file {file} (9 bytes, mode 0644{owner()}): "abd\\r\\neth0"'],
    ]


def test_newlines_that_fill_a_file_up_are_not_repeated(folder: Path) -> None:
    states = [of(folder)]
    file = folder / ".owners"
    file.write_text("\n" * 4096)
    file.chmod(0o600)
    states.append(of(folder))
    file.write_text("pod@eth0 10.1.0.2".ljust(4096, "\n"))
    states.append(of(folder))

    assert [words(*pair) for pair in itertools.pairwise(states)] == [
        [f'+ files: file {file} (4096 bytes, mode 0600{owner()}): "\\n"'],
        [f'~ files: file {file}: text "\\n" -> "pod@eth0 10.1.0.2\\n"'],
    ]


def test_folders_links_and_pipes(folder: Path) -> None:
    before = of(folder)
    (folder / "below").mkdir()
    (folder / "below").chmod(0o700)
    (folder / "link").symlink_to("below/none")
    os.mkfifo(folder / "pipe")
    (folder / "pipe").chmod(0o600)

    assert words(before, of(folder)) == [
        f"+ files: file {folder}/below (folder, mode 0700{owner()})",
        f"+ files: file {folder}/link (symbolic link, to below/none)",
        f"+ files: file {folder}/pipe (named pipe, mode 0600{owner()})",
    ]
    (folder / "link").unlink()
    (folder / "link").symlink_to("/etc")
    assert words(before, of(folder))[1] == f"+ files: file {folder}/link (symbolic link, to /etc)"
    assert not any(name.startswith(f"{folder}/link/") for name in of(folder).sections["files"])


def test_new_watched_folder_is_a_difference(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    before = of(folder)
    folder.mkdir(mode=0o700)

    assert before.sections["files"] == {}
    assert words(before, of(folder)) == [f"+ files: file {folder} (folder, mode 0700{owner()})"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", b"x" * 5000])
def test_long_or_binary_files_are_compared_by_digest(folder: Path, content: bytes) -> None:
    (folder / "blob").write_bytes(content)
    before = of(folder)
    (folder / "blob").write_bytes(content[:-1] + b"\0")
    [line] = words(before, of(folder))

    assert "text" not in before.to_document()
    assert line.startswith(f"~ files: file {folder}/blob: sha256 ")


def test_reading_changes_no_difference(folder: Path) -> None:
    (folder / "lock").write_text("")
    before = of(folder)
    os.utime(folder / "lock", (1, 1))

    assert words(before, of(folder)) == []
