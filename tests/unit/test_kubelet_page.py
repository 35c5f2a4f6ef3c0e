"""docs/kubelet.md names every key of a manifest, and says what becomes of it."""

import re
from collections.abc import Iterator

import pytest

from api.container import V1Container, V1EnvVarSource, V1Lifecycle, V1Probe, V1VolumeMount
from api.object import V1Object
from api.pod import V1Pod, V1PodSpec, V1Volume
from tests.cli import ROOT

PAGE = (ROOT / "docs" / "kubelet.md").read_text()


def section(begin: str, end: str) -> set[str]:
    """The words in backticks between two places of the page."""
    return set(re.findall(r"`([^`]+)`", PAGE[PAGE.index(begin) : PAGE.index(end)]))


ACCEPTED = section("These keys have an effect", "These are accepted")
IGNORED = section("These are accepted", "These are refused")
REFUSED = section("These are refused", "## Differences")


def objects(above: type[V1Object] = V1Object) -> Iterator[type[V1Object]]:
    for each in above.__subclasses__():
        yield each
        yield from objects(each)


@pytest.mark.parametrize("kind", [*objects()], ids=lambda kind: kind.__name__)
def test_ignored_and_refused_keys_are_named_as_such(kind: type[V1Object]) -> None:
    assert sorted(kind._ignored - IGNORED) == []
    assert sorted(kind._refused.keys() - REFUSED) == []


@pytest.mark.parametrize("kind", [V1PodSpec, V1Container, V1Volume, V1VolumeMount, V1EnvVarSource, V1Lifecycle])
def test_every_other_key_is_named(kind: type[V1Object]) -> None:
    implied = {"name"} if kind is not V1Container else set()
    implied |= {"postStart", "preStop"} if kind is V1Lifecycle else set()

    assert sorted({each.key for each in kind._fields.values()} - ACCEPTED - IGNORED - REFUSED - implied) == []


def test_page_names_only_existing_keys() -> None:
    known = {each.key for kind in objects() for each in kind._fields.values()}
    known |= {key for kind in objects() for key in (*kind._ignored, *kind._refused)}
    words = {word for word in ACCEPTED | IGNORED | REFUSED if "/" not in word}

    assert sorted(words - known) == ["$(NAME)"]
    assert {"status"} == V1Pod._ignored
    assert {"grpc", "sleep"} == V1Probe._refused.keys()
