"""Cached results are where libcni looks for them and as it writes them, and no file on disk is an obstacle."""

import base64
import json
import os
from pathlib import Path

import pytest

from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.networks import parse_network_list
from harness.libcni.request import ContainerAttachment
from skel.errors import CniError

NETWORK = parse_network_list(b'{"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "bridge"}]}')
RESULT = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]}
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
ATTACHMENT = ContainerAttachment(
    container_id="pod1",
    netns="/run/netns/pod1",
    ifname="eth0",
    cni_args=(("IgnoreUnknown", "1"), ("K8S_POD_NAME", "pod1")),
    capability_args={"portMappings": PORTS},
)

LIBCNI_FILE = (
    '{"kind":"cniCacheV1","containerId":"pod1","config":"'
    + base64.b64encode(NETWORK.raw).decode()
    + '","ifName":"eth0","networkName":"mynet","netns":"/run/netns/pod1",'
    '"cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAME","pod1"]],'
    '"capabilityArgs":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},'
    '"result":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}}'
)
"""What libcni 1.3 writes for this attachment: the fields of its cachedInfo in their order, base64 with padding."""


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, warnings: list[str]) -> ResultCache:
    return ResultCache(tmp_path / "cni", warn=warnings.append)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cni" / "results" / "mynet-pod1-eth0"
    path.parent.mkdir(parents=True)
    return path


def test_file_has_the_path_and_content_of_libcni(cache: ResultCache, tmp_path: Path) -> None:
    cache.store(NETWORK, ATTACHMENT, RESULT)

    path = tmp_path / "cni" / "results" / "mynet-pod1-eth0"
    assert path.read_text() == LIBCNI_FILE
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.parent.stat().st_mode & 0o7777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_empty_keys_are_left_out(cache: ResultCache, path: Path) -> None:
    cache.store(NETWORK, ContainerAttachment("pod1", "", "eth0"), {})

    assert list(json.loads(path.read_text())) == ["kind", "containerId", "config", "ifName", "networkName"]


def test_libcnis_file_is_read_whole(cache: ResultCache, path: Path, warnings: list[str]) -> None:
    path.write_text(LIBCNI_FILE)

    assert cache.load("mynet", "pod1", "eth0") == CachedAttachment("mynet", ATTACHMENT, NETWORK.raw, dict(RESULT))
    assert cache.attachments() == [CachedAttachment("mynet", ATTACHMENT, NETWORK.raw, dict(RESULT))]
    assert warnings == []


def test_a_bare_result_of_old_libcni_is_read(cache: ResultCache, path: Path, warnings: list[str]) -> None:
    path.write_text(json.dumps(RESULT))

    assert cache.load("mynet", "pod1", "eth0") == CachedAttachment(
        "mynet", ContainerAttachment("pod1", "", "eth0"), b"", dict(RESULT)
    )
    assert warnings == []


def test_missing_cached_result_is_none_without_a_warning(cache: ResultCache, warnings: list[str]) -> None:
    assert cache.load("mynet", "pod1", "eth0") is None
    assert cache.attachments() == []
    assert not cache.holds("mynet", "pod1", "eth0")
    cache.remove("mynet", "pod1", "eth0")
    assert warnings == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Expecting value"),
        ("\0" * 100, "Expecting value"),
        (LIBCNI_FILE[:100], "Unterminated string"),
        ("[" * 100_000, "too many levels"),
        ("null", "expected an object"),
        (LIBCNI_FILE.replace("8080", "NaN"), "NaN is not a number of JSON"),
        (LIBCNI_FILE.replace("cniCacheV1", "cniCacheV9"), 'kind: expected "cniCacheV1", got "cniCacheV9"'),
        (LIBCNI_FILE.replace('"mynet"', '""'), "networkName: expected a name"),
        (LIBCNI_FILE.replace('"config":"', '"config":"!'), "config: expected base64"),
        (LIBCNI_FILE.replace('["IgnoreUnknown","1"]', '["IgnoreUnknown"]'), "cniArgs[0]: expected a pair of strings"),
        (LIBCNI_FILE.replace('"ips":', '"ips:'), "Expecting"),
        (LIBCNI_FILE.replace('"networkName":"mynet"', '"networkName":"mynet-pod1"'), "it is of network mynet-pod1"),
    ],
)
def test_unreadable_cached_result_is_none_and_a_warning(
    cache: ResultCache, path: Path, warnings: list[str], content: str, reason: str
) -> None:
    path.write_text(content)

    assert cache.load("mynet", "pod1", "eth0") is None
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert reason in warnings[0]
    assert cache.holds("mynet", "pod1", "eth0")


def test_a_folder_in_a_files_place_is_a_warning(cache: ResultCache, path: Path, warnings: list[str]) -> None:
    path.mkdir()

    assert cache.load("mynet", "pod1", "eth0") is None
    assert warnings == [f"result cache: {path}: not a regular file"]


def test_fifo_in_a_files_place_is_a_warning(cache: ResultCache, path: Path, warnings: list[str]) -> None:
    os.mkfifo(path)

    assert cache.attachments() == []
    assert warnings == [f"result cache: {path}: not a regular file"]


def test_storing_again_replaces(cache: ResultCache, path: Path) -> None:
    path.write_text("half a fi")

    cache.store(NETWORK, ATTACHMENT, RESULT)

    assert path.read_text() == LIBCNI_FILE


def test_removing_forgets(cache: ResultCache) -> None:
    cache.store(NETWORK, ATTACHMENT, RESULT)
    assert cache.holds("mynet", "pod1", "eth0")

    cache.remove("mynet", "pod1", "eth0")

    assert not cache.holds("mynet", "pod1", "eth0")


def test_attachments_are_listed_by_file_name_without_broken_ones(
    cache: ResultCache, path: Path, warnings: list[str]
) -> None:
    for container_id, ifname in (
        ("pod2", "eth0"),
        ("pod1", "net1"),
        ("pod1", "eth0"),
        ("pod10", "eth0"),
        ("x-pod1-y", "eth0"),
    ):
        cache.store(NETWORK, ContainerAttachment(container_id, "", ifname), RESULT)
    (path.parent / "mynet-pod0-eth0").write_text("")
    (path.parent / ".mynet-pod1-eth0.1234.tmp").write_text(LIBCNI_FILE)

    listed = [(entry.attachment.container_id, entry.attachment.ifname) for entry in cache.attachments()]
    of_one = [(entry.attachment.container_id, entry.attachment.ifname) for entry in cache.attachments("pod1")]

    assert listed == [("pod1", "eth0"), ("pod1", "net1"), ("pod10", "eth0"), ("pod2", "eth0"), ("x-pod1-y", "eth0")]
    assert of_one == [("pod1", "eth0"), ("pod1", "net1")]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("network", "container_id", "ifname"),
    [("../net", "pod1", "eth0"), ("mynet", "a/b", "eth0"), ("mynet", "pod1", "../x"), ("", "pod1", "eth0")],
)
def test_names_that_lead_elsewhere_are_refused(
    cache: ResultCache, network: str, container_id: str, ifname: str
) -> None:
    with pytest.raises(CniError):
        cache.remove(network, container_id, ifname)
