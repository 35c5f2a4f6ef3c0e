"""Garbage collection of a network whose state changes between the look and the DEL."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.request import ContainerAttachment
from harness.runtime.collection import Collector
from harness.runtime.leftovers import AttachmentSurvey, AttachmentTrace, TracedAttachment

if TYPE_CHECKING:
    from harness.libcni.operations import Libcni

NETWORK = b'{"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "bridge"}]}'


class Recorder:
    """Notes the calls of a collector instead of executing plugins."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.valid: list[list[tuple[str, str]]] = []

    def delete_leftover(self, _: NetworkList, attachment: ContainerAttachment) -> list[Exception]:
        self.deleted.append(attachment.container_id)
        return []

    def gc(self, _: NetworkList, valid: list[tuple[str, str]]) -> list[ContainerAttachment]:
        self.valid.append(valid)
        return []


def traced(path: Path, container_id: str) -> TracedAttachment:
    path.write_text(container_id)
    status = path.lstat()
    stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return TracedAttachment("net", container_id, "eth0", traces=[AttachmentTrace("reservation", str(path), stamp)])


def test_leftover_that_changes_before_its_del_is_kept_and_valid(tmp_path: Path) -> None:
    gone, again = traced(tmp_path / "10.0.0.2", "gone"), traced(tmp_path / "10.0.0.3", "again")
    found = AttachmentSurvey([gone, again], [])
    recorder = Recorder()
    ages: dict[Any, float] = {gone.key: 90.0, again.key: 90.0}
    collector = Collector(cast("Libcni", recorder), found, own=[], ages=ages, min_age=60, sends_gc=True)
    (tmp_path / "10.0.0.3").write_text("again, added anew")

    done = collector.collect(parse_network_list(NETWORK), dry_run=False)

    assert recorder.deleted == ["gone"]
    assert recorder.valid == [[("again", "eth0")]]
    assert ([each.container_id for each in done.deleted], [each.container_id for each in done.kept]) == (
        ["gone"],
        ["again"],
    )
