"""Static pods from files: names that count, changes, duplicates, and errors for each file."""

import os
import time
from pathlib import Path

import pytest
import yaml

from harness.kubelet.sources import FileSource, SourceState
from tests.unit.pod_manifests import ABSENT, changed

LATER = 3_000_000_000
"""Nanoseconds after which a file is no longer fresh."""

RESTART_POLICY = 'spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", "Never"'
DNS_POLICY = (
    'spec.dnsPolicy: Unsupported value: "Bar": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", '
    '"None"'
)


class Clock:
    """The time of the machine, and an offset."""

    def __init__(self) -> None:
        self.offset_ns = 0

    def __call__(self) -> int:
        return time.time_ns() + self.offset_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(tmp_path: Path, clock: Clock) -> FileSource:
    return FileSource(tmp_path, "node1", clock_ns=clock)


def write(file: Path, name: str = "web", **changes: object) -> None:
    paths = {key.replace("__", "."): value for key, value in changes.items()}
    file.write_text(yaml.safe_dump(changed({"metadata.name": name, **paths})))


def refuse(_file: Path, _limit: int, **_settings: object) -> bytes:
    """Stand for `read_regular` of an unreadable file: root may read any."""
    raise PermissionError(13, "Permission denied")


def names(state: SourceState) -> list[str]:
    return [pod.metadata.name for pod in state.pods]


def test_all_files_of_a_folder_count_but_hidden_ones(tmp_path: Path, source: FileSource) -> None:
    write(tmp_path / "b.yaml", "b")
    write(tmp_path / "a", "a")
    write(tmp_path / ".hidden.yaml", "hidden")
    (tmp_path / "c.txt").symlink_to(tmp_path / ".hidden.yaml")
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "d.yaml", "d")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nothing")

    state = source.read()

    assert names(state) == ["a-node1", "b-node1", "hidden-node1"]
    assert {
        str(tmp_path / "folder"): ["a folder, ignoring"],
        str(tmp_path / "pipe"): ["no regular file, ignoring"],
        str(tmp_path / "dangling"): ["path does not exist, ignoring"],
    } == state.errors


def test_single_file_counts_under_any_name(tmp_path: Path) -> None:
    write(tmp_path / ".pod")

    assert names(FileSource(tmp_path / ".pod", "node1", suffix=False).read()) == ["web"]


def test_a_missing_path_has_no_pods(tmp_path: Path) -> None:
    path = tmp_path / "later"
    source = FileSource(path, "node1")

    state = source.read()

    assert ([], {str(path): ["path does not exist, ignoring"]}) == (state.pods, state.errors)
    assert not source.changed()
    write(path)
    assert source.changed()
    assert names(source.read()) == ["web-node1"]


def test_a_faulty_file_does_not_hide_the_others(tmp_path: Path, source: FileSource) -> None:
    write(tmp_path / "good")
    write(tmp_path / "nameless", metadata=ABSENT)
    write(tmp_path / "invalid", "invalid", spec__restartPolicy="Foo", spec__dnsPolicy="Bar")
    write(tmp_path / "unknown", "unknown", spec__container=[])
    (tmp_path / "broken").write_text("a: [")
    (tmp_path / "policy").write_text("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy}")

    state = source.read()

    assert names(state) == ["web-node1"]
    assert {
        "nameless": ["invalid pod: name is needed for the pod"],
        "invalid": [f'Pod "invalid" is invalid: [{RESTART_POLICY}, {DNS_POLICY}]'],
        "unknown": ['unknown field "spec.container"'],
        "broken": state.errors[str(tmp_path / "broken")],
        "policy": ['apiVersion: Unsupported value: "networking.k8s.io/v1": supported values: "v1"'],
    } == {Path(file).name: errors for file, errors in state.errors.items()}
    assert state.errors[str(tmp_path / "broken")][0].startswith("not YAML: ")


def test_config_maps_beside_the_pods_are_found(tmp_path: Path, source: FileSource) -> None:
    write(tmp_path / "pod")
    (tmp_path / "maps").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}")

    state = source.read()

    assert state.config_maps["default", "settings"].files() == {"a": b"b"}
    assert names(state) == ["web-node1"]


def test_of_two_pods_with_one_name_the_later_files_counts(tmp_path: Path, source: FileSource) -> None:
    write(tmp_path / "1")
    write(tmp_path / "2", metadata__namespace="other")
    write(tmp_path / "3", spec__hostname="second")

    state = source.read()

    assert [(pod.metadata.namespace, pod.spec.hostname) for pod in state.pods] == [("other", ""), ("default", "second")]
    (error,) = state.errors[str(tmp_path / "1")]
    uid = error.partition("(")[2].partition(")")[0]
    assert error == (
        f'Error validating pod web-node1_default({uid}) from file due to duplicate pod name "web-node1", ignoring'
    )
    assert uid not in {pod.metadata.uid for pod in state.pods}


def test_of_two_config_maps_with_one_name_the_later_files_counts(tmp_path: Path, source: FileSource) -> None:
    for number in ("1", "2"):
        text = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{number: '{number}'}}}}"
        (tmp_path / number).write_text(text)

    state = source.read()

    assert state.config_maps["default", "a"].files() == {"number": b"2"}
    assert {str(tmp_path / "1"): [f'config map "default/a" is also in {tmp_path / "2"}, ignoring']} == state.errors


def test_a_change_is_seen_and_makes_another_pod(tmp_path: Path, source: FileSource, clock: Clock) -> None:
    file = tmp_path / "pod"
    write(file)
    clock.offset_ns = LATER
    (before,) = source.read().pods
    assert not source.changed()

    write(file, spec__hostname="changed")

    assert source.changed()
    (after,) = source.read().pods
    assert before.metadata.name == after.metadata.name
    assert before.metadata.uid != after.metadata.uid


def test_a_file_that_appears_or_goes_is_seen(tmp_path: Path, source: FileSource, clock: Clock) -> None:
    clock.offset_ns = LATER
    write(tmp_path / "a", "a")
    assert source.changed()
    assert names(source.read()) == ["a-node1"]
    assert not source.changed()

    write(tmp_path / "b", "b")
    assert source.changed()
    assert names(source.read()) == ["a-node1", "b-node1"]

    (tmp_path / "a").unlink()
    assert source.changed()
    assert names(source.read()) == ["b-node1"]

    (tmp_path / "b").rename(tmp_path / ".b")
    assert source.changed()
    assert names(source.read()) == []
    assert not source.changed()


def test_renamed_file_over_an_older_one_is_seen(tmp_path: Path, source: FileSource, clock: Clock) -> None:
    write(tmp_path / "pod", "one")
    write(tmp_path / ".new", "two")
    clock.offset_ns = LATER
    source.read()

    (tmp_path / ".new").rename(tmp_path / "pod")

    assert source.changed()
    assert names(source.read()) == ["two-node1"]


def test_a_change_without_a_new_time_stamp_is_seen(
    tmp_path: Path, source: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pod"
    write(file, "one")
    stamp = file.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: stamp)  # a clock that counts in seconds
    monkeypatch.setattr(Path, "is_dir", lambda self: self == tmp_path)
    assert names(source.read()) == ["one-node1"]

    write(file, "two")

    assert source.changed()
    assert names(source.read()) == ["two-node1"]


def test_an_unchanged_file_is_read_once(
    tmp_path: Path, source: FileSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "pod")
    clock.offset_ns = LATER
    before = source.read()
    monkeypatch.setattr("harness.kubelet.sources.read_regular", refuse)

    after = source.read()

    assert before == after
    assert not source.changed()


def test_a_pod_keeps_the_time_when_it_was_seen_first(tmp_path: Path, source: FileSource, clock: Clock) -> None:
    write(tmp_path / "a", "a")
    (first,) = source.read().pods
    seen = first.metadata.annotations["kubernetes.io/config.seen"]
    clock.offset_ns = LATER
    write(tmp_path / "b", "b")

    again, new = source.read().pods

    assert seen == again.metadata.annotations["kubernetes.io/config.seen"]
    assert seen < new.metadata.annotations["kubernetes.io/config.seen"]
    assert first.metadata.uid == again.metadata.uid


def test_a_file_that_cannot_be_read_is_tried_again(
    tmp_path: Path, source: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "pod")
    with monkeypatch.context() as patch:
        patch.setattr("harness.kubelet.sources.read_regular", refuse)
        state = source.read()

    assert ([], {str(tmp_path / "pod"): ["Permission denied"]}) == (state.pods, state.errors)
    assert source.changed()
    assert names(source.read()) == ["web-node1"]
