"""Drafts: on the disk before they have a name, and whole under each name they get."""

import os
from pathlib import Path

import pytest

from ipam.draft import TEMPORARY, Draft, replace


@pytest.fixture(params=["unnamed", "temporary"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "temporary":
        # The kernel then answers what it does for a file system without such files: EISDIR.
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    name: str = request.param
    return name


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_draft_is_seen_by_nobody_until_it_is_named(tmp_path: Path, way: str) -> None:
    with Draft(str(tmp_path), b"pod\r\neth0") as draft:
        assert names(tmp_path) == set()

        assert draft.link("192.0.2.2")
        assert draft.link("2001:db8::2")

        for name in ("192.0.2.2", "2001:db8::2"):
            assert (tmp_path / name).read_bytes() == b"pod\r\neth0"
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        assert names(tmp_path) - {"192.0.2.2", "2001:db8::2"} == ({TEMPORARY} if way == "temporary" else set())


def test_a_name_that_is_taken_stays_as_it_is(tmp_path: Path, way: str) -> None:
    (tmp_path / "192.0.2.2").write_bytes(b"other")

    with Draft(str(tmp_path), b"pod") as draft:
        assert not draft.link("192.0.2.2")
        assert draft.link("192.0.2.3")

    assert (tmp_path / "192.0.2.2").read_bytes() == b"other"
    assert (tmp_path / "192.0.2.3").read_bytes() == b"pod"


def test_a_temporary_file_that_a_crash_left_is_not_written_into(tmp_path: Path, way: str) -> None:
    (tmp_path / "192.0.2.2").write_bytes(b"other")
    (tmp_path / TEMPORARY).hardlink_to(tmp_path / "192.0.2.2")

    with Draft(str(tmp_path), b"pod") as draft:
        assert draft.link("192.0.2.3")
    replace(str(tmp_path), "last_reserved_ip.0", b"192.0.2.3")

    assert (tmp_path / "192.0.2.2").read_bytes() == b"other"
    assert (tmp_path / "192.0.2.3").read_bytes() == b"pod"
    assert (tmp_path / "last_reserved_ip.0").read_bytes() == b"192.0.2.3"


def test_a_draft_for_a_folder_that_is_gone(tmp_path: Path, way: str) -> None:
    with Draft(str(tmp_path / "gone"), b"pod") as draft, pytest.raises(FileNotFoundError):
        draft.link("192.0.2.2")
