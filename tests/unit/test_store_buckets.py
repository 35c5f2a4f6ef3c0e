"""The table of the index: a container's lines are in one bucket, and the table grows when one is full."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.host_local import SEAL, HostLocal, system_calls
from tests.unit.test_store_index import BUCKET, files_of_at_most

PODS = 400
"""A table of so many has grown twice."""

WIDE = 120
"""Interfaces of one container: their lines fill more than a bucket."""


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path, ranges=[[{"subnet": "10.0.0.0/16"}], [{"subnet": "2001:db8::/64"}]])


def name(number: int) -> str:
    """A container ID of usual length."""
    return f"{number:064}"


def content(net: HostLocal) -> bytes:
    return (net.folder / ".owners").read_bytes()


def owners(net: HostLocal) -> set[str]:
    """The owners of all reservations, as the index names them."""
    return {owner.replace("\r\n", "@") for owner in net.reservations().values()}


def widen(net: HostLocal) -> None:
    for number in range(WIDE):
        net.add("wide", f"interface{number}")


def test_a_table_of_many_pods_has_each_line_in_the_bucket_of_its_container(net: HostLocal) -> None:
    given = {f"{name(number)}@eth0": ",".join(net.add(name(number))) for number in range(PODS)}

    assert net.index() == given
    assert net.is_sealed()
    buckets = [content(net)[at : at + BUCKET] for at in range(0, len(content(net)), BUCKET)]
    assert len(buckets) > 8
    assert len(buckets).bit_count() == 1
    for owner in given:
        of_container = zlib.crc32(owner.partition("@")[0].encode()) % len(buckets)
        assert [place for place, bucket in enumerate(buckets) if owner.encode() in bucket] == [of_container]


@pytest.mark.slow("tables of many sizes; one is in make test")
def test_a_table_that_has_grown_is_believed(net: HostLocal) -> None:
    for number in range(PODS):
        net.add(name(number))
    few = system_calls(lambda: net.fail("ADD", name(PODS - 1)))

    for number in range(PODS):
        assert net.fail("ADD", name(number))[0] == 100
        net.succeed("CHECK", name(number))
    assert system_calls(lambda: net.succeed("DEL", name(0))).count("open") < 10
    assert few.count("pread") == 1
    for number in range(1, PODS):
        net.succeed("DEL", name(number))

    assert net.reservations() == net.index() == {}
    assert net.is_sealed()


def test_a_call_writes_one_bucket(net: HostLocal) -> None:
    for number in range(PODS):
        net.add(name(number))
    before = content(net)

    net.add("pod")

    after = content(net)
    changed = [at for at in range(0, len(after), BUCKET) if before[at : at + BUCKET] != after[at : at + BUCKET]]
    assert len(after) == len(before)
    assert changed == [zlib.crc32(b"pod") % (len(after) // BUCKET) * BUCKET]


def test_gc_makes_a_table_small_again(net: HostLocal) -> None:
    for number in range(PODS):
        net.add(name(number))
    net.config["cni.dev/valid-attachments"] = [{"containerID": name(7), "ifname": "eth0"}]

    net.succeed("GC")

    assert len(content(net)) == BUCKET
    assert net.index().keys() == {f"{name(7)}@eth0"}
    assert net.is_sealed()


def test_a_table_that_grew_in_part_is_not_believed(net: HostLocal) -> None:
    with files_of_at_most(2 * BUCKET + 100):
        for last in range(PODS):
            net.add(name(last))
            if not net.is_sealed():
                break

        assert not net.is_sealed()
        assert len(content(net)) == 2 * BUCKET + 100
        net.succeed("DEL", name(0))
        net.succeed("DEL", name(last))

    assert owners(net) == {f"{name(number)}@eth0" for number in range(1, last)}
    net.succeed("DEL", "nobody")
    assert net.index().keys() == owners(net)
    assert net.is_sealed()


@pytest.mark.parametrize("damage", [lambda table: table[:-1], lambda table: table * 3, lambda table: table + b"\n"])
def test_a_table_of_another_size_is_made_again(net: HostLocal, damage: Callable[[bytes], bytes]) -> None:
    for number in range(PODS):
        net.add(name(number))
    (net.folder / ".owners").write_bytes(damage(content(net)))
    for sealed in (net.folder / ".owners", net.folder):
        os.utime(sealed, (SEAL, SEAL))

    assert net.fail("ADD", name(3))[0] == 100
    assert net.index().keys() == owners(net)
    assert net.is_sealed()


def test_all_of_a_container_wider_than_a_bucket_is_released(net: HostLocal) -> None:
    net.add("other")
    widen(net)

    assert not net.is_sealed()
    assert len(content(net)) < 100 * BUCKET

    for number in range(WIDE):
        net.succeed("CHECK", "wide", f"interface{number}")
        net.succeed("DEL", "wide", f"interface{number}")

    assert set(net.reservations().values()) == {"other\r\neth0"}
    net.succeed("DEL", "nobody")
    assert net.index().keys() == {"other@eth0"}
    assert net.is_sealed()


def test_gc_releases_a_container_wider_than_a_bucket(net: HostLocal) -> None:
    net.add("other")
    widen(net)
    net.config["cni.dev/valid-attachments"] = [{"containerID": "other", "ifname": "eth0"}]

    net.succeed("GC")

    assert net.index().keys() == owners(net) == {"other@eth0"}
    assert net.is_sealed()


def test_a_container_id_longer_than_a_bucket_is_released(net: HostLocal) -> None:
    net.add("other")
    net.add("x" * 2 * BUCKET)

    assert not net.is_sealed()
    assert net.fail("ADD", "x" * 2 * BUCKET)[0] == 100
    net.succeed("DEL", "x" * 2 * BUCKET)

    assert set(net.reservations().values()) == {"other\r\neth0"}
