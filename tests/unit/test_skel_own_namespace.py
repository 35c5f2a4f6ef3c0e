"""An attachment to the plugin's own network namespace is refused, unless the runtime overrides it."""

import json
import os
from pathlib import Path

import pytest

from skel import CniError, Code, Outcome, RawAnswer
from tests.unit.sample_plugin import Sample

OWN = "/proc/self/ns/net"


def assert_own_namespace_refused(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert json.loads(outcome.stdout)["code"] == Code.INVALID_NETNS
    assert OWN in json.loads(outcome.stdout)["msg"]


@pytest.mark.parametrize("override", ["", "0", "false", "yes"])
def test_add_to_the_plugins_own_namespace_is_refused_before_anything_is_done(tmp_path: Path, override: str) -> None:
    sample = Sample(tmp_path)

    outcome = sample.run("ADD", environ={"CNI_NETNS": OWN, "CNI_NETNS_OVERRIDE": override})

    assert_own_namespace_refused(outcome)
    assert sample.calls == []


@pytest.mark.parametrize("override", ["", "0", "false", "yes"])
def test_del_from_the_plugins_own_namespace_is_as_without_one_and_refused_afterwards(
    tmp_path: Path, override: str
) -> None:
    """The process that the pod's namespace was named after has gone, and its number is one of the host's now."""
    sample = Sample(tmp_path)

    outcome = sample.run("DEL", environ={"CNI_NETNS": OWN, "CNI_NETNS_OVERRIDE": override})

    assert_own_namespace_refused(outcome)
    assert [(args.netns, args.environ["CNI_NETNS"]) for args in sample.calls] == [("", "")]


def test_del_from_an_own_descriptor_is_as_without_a_namespace_and_refused_afterwards(tmp_path: Path) -> None:
    """The server's worker has other descriptors than the launcher: it must not enter one of its own."""
    sample = Sample(tmp_path)

    outcome = sample.run("DEL", environ={"CNI_NETNS": "/proc/self/fd/7"})

    assert (outcome.code, json.loads(outcome.stdout)["code"]) == (1, Code.INVALID_ENVIRONMENT)
    assert "/proc/self/fd/7" in json.loads(outcome.stdout)["msg"]
    assert [(args.netns, args.environ["CNI_NETNS"]) for args in sample.calls] == [("", "")]


@pytest.mark.parametrize("failure", [CniError(Code.TRY_AGAIN_LATER, "busy"), RawAnswer('{"code": 11}', 1)])
def test_del_in_the_own_namespace_keeps_the_error_of_the_plugin(tmp_path: Path, failure: CniError | RawAnswer) -> None:
    def fail(_: object) -> RawAnswer:
        if isinstance(failure, CniError):
            raise failure
        return failure

    outcome = Sample(tmp_path, behave=fail).run("DEL", environ={"CNI_NETNS": OWN})

    assert json.loads(outcome.stdout)["code"] == Code.TRY_AGAIN_LATER


def test_own_namespace_is_recognized_under_any_path(tmp_path: Path) -> None:
    link = tmp_path / "netns"
    link.symlink_to(f"/proc/{os.getpid()}/ns/net")

    assert json.loads(Sample(tmp_path).run("ADD", environ={"CNI_NETNS": str(link)}).stdout)["code"] == 8


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize("override", ["1", "true", "TRUE"])
def test_own_namespace_is_accepted_with_the_override(tmp_path: Path, verb: str, override: str) -> None:
    Sample(tmp_path).accepted(verb, None, CNI_NETNS=OWN, CNI_NETNS_OVERRIDE=override)


@pytest.mark.parametrize("verb", ["CHECK", "GC", "STATUS"])
def test_other_verbs_may_name_the_own_namespace(tmp_path: Path, verb: str) -> None:
    Sample(tmp_path).accepted(verb, None, CNI_NETNS=OWN)


@pytest.mark.parametrize("netns", ["", "/run/netns/gone", "/proc/self/ns/uts", "/"])
def test_del_leaves_any_other_path_to_the_plugin(tmp_path: Path, netns: str) -> None:
    assert Sample(tmp_path).accepted("DEL", None, CNI_NETNS=netns).netns == netns
