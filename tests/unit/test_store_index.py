"""How many files ADD and DEL touch, and an index that stays right whatever others do to the folder."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import SEAL, HostLocal, system_calls

MANY = 5000

BUCKET = 4096
EMPTY = b"\n" * BUCKET

GARBAGE = [
    b"\0" * 99,
    b"a@eth0 10.0.0.2",
    b"a@eth0 10.0.0.2,2001:d",
    b"a@eth0 10.0.0.\0,2001:db8::2\n",
    b"a@eth0 ../net/10.0.0.2\n",
    b"a@eth0 \n",
    b"a@eth0 ,.,..\n",
    b"a@eth0 \xff\n",
    b"a@eth0\n",
    b"\n\n a@eth0 10.0.0.2,2001:db8::2\n",
    b"\r10.0.0.2",
    bytes(range(256)),
]
"""Contents of an index, for an "a" that has 10.0.0.2 and 2001:db8::2."""


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path, ranges=[[{"subnet": "10.0.0.0/16"}], [{"subnet": "2001:db8::/64"}]])


def seed(net: HostLocal) -> None:
    """Reserve very many addresses as another program would."""
    for number in range(MANY):
        net.write(f"10.0.{100 + number // 250}.{number % 250}", f"pod{number}\r\neth0")


def listings(calls: list[str]) -> int:
    return calls.count("listdir") + calls.count("scandir")


def attach_and_detach(net: HostLocal, pod: str) -> Callable[[], object]:
    """An ADD, a refused ADD, a CHECK and two DELs."""

    def run() -> None:
        net.add(pod)
        net.fail("ADD", pod)
        net.succeed("CHECK", pod)
        net.succeed("DEL", pod)
        net.succeed("DEL", pod)

    return run


def test_a_pod_costs_the_same_system_calls_with_none_and_with_thousands_reserved(net: HostLocal) -> None:
    net.add("first")
    few = system_calls(attach_and_detach(net, "a"))

    seed(net)
    net.succeed("DEL", "nobody")  # whoever finds nothing learns what others wrote
    many = system_calls(attach_and_detach(net, "b"))

    assert few == many
    assert listings(few) == 0
    assert len(few) < 142


def test_reservations_of_our_own_cost_nothing_either(net: HostLocal) -> None:
    net.add("first")
    few = system_calls(attach_and_detach(net, "a"))

    for number in range(200):
        net.add(f"pod{number}")

    assert system_calls(attach_and_detach(net, "b")) == few


def inodes(net: HostLocal) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in net.folder.iterdir()}


def test_an_add_makes_its_reservations_and_no_name_more(net: HostLocal, monkeypatch: pytest.MonkeyPatch) -> None:
    net.add("first")
    before = inodes(net)
    made: list[str] = []
    open_file = os.open

    def watch(path: Any, flags: int, *mode: int, **more: Any) -> int:
        # O_TMPFILE makes a file without a name.
        if flags & os.O_TMPFILE == os.O_TMPFILE or (flags & os.O_CREAT and not os.path.lexists(path)):
            made.append(Path(path).name)
        return open_file(path, flags, *mode, **more)

    monkeypatch.setattr(os, "open", watch)
    calls = system_calls(lambda: net.add("pod"))

    assert made == [net.folder.name] * 2  # where they have no name yet
    assert calls.count("link") == 2
    assert not {"symlink", "rename", "replace", "unlink", "remove", "mknod", "fsync", "fdatasync", "sync"} & set(calls)
    after = inodes(net)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"10.0.0.3", "2001:db8::3"}
    assert after["10.0.0.3"] != after["2001:db8::3"]


def test_a_del_makes_and_replaces_no_file(net: HostLocal) -> None:
    for pod in "abc":
        net.add(pod)
    before = inodes(net)

    net.succeed("DEL", "b")

    after = inodes(net)
    assert after.items() <= before.items()
    assert before.keys() - after.keys() == {"10.0.0.3", "2001:db8::3"}


def test_add_and_del_read_no_file_of_thousands_by_others(net: HostLocal) -> None:
    net.folder.mkdir()
    few = system_calls(lambda: net.add("a"))
    net.succeed("DEL", "a")
    seed(net)

    adding = system_calls(lambda: net.add("b"))
    deleting = system_calls(lambda: net.succeed("DEL", "b"))

    assert adding.count("open") <= few.count("open")
    assert listings(adding) <= 1
    assert deleting.count("open") <= 6
    assert listings(deleting) <= 1


@pytest.mark.parametrize(("reserved", "listed"), [(50, 0), (200, 2)])
def test_an_add_that_meets_few_addresses_in_use_lists_none(net: HostLocal, reserved: int, listed: int) -> None:
    for number in range(reserved):
        net.add(f"pod{number}")
    for range_set in (0, 1):
        (net.folder / f"last_reserved_ip.{range_set}").write_text("")

    calls = system_calls(lambda: net.add("late"))

    assert listings(calls) == listed  # once for each range set
    assert len(net.reservations()) == 2 * (reserved + 1)


def test_del_of_foreign_reservations_opens_only_files_of_prev_result(net: HostLocal) -> None:
    net = HostLocal(net.data_dir, subnet="10.0.0.0/16")
    seed(net)

    calls = system_calls(lambda: net.succeed("DEL", "pod7", prevResult={"ips": [{"address": "10.0.100.7/16"}]}))

    assert calls.count("open") <= 4
    assert "10.0.100.7" not in net.reservations()


def test_a_search_that_finds_nothing_reads_all_once(net: HostLocal) -> None:
    seed(net)

    first = system_calls(lambda: net.succeed("DEL", "nobody"))
    second = system_calls(lambda: net.succeed("DEL", "nobody"))

    assert first.count("open") >= MANY
    assert second.count("open") <= 3  # lock, index, boot
    assert len(net.index()) == MANY


def test_second_add_is_refused_in_a_small_folder_of_other_programs(net: HostLocal) -> None:
    for number in range(20):
        net.write(f"10.0.0.{100 + number}", f"pod{number}\r\neth0")

    assert net.fail("ADD", "pod7")[0] == 100


def test_the_index_names_each_owner_s_addresses_and_is_sealed(net: HostLocal) -> None:
    net.add("a")
    net.add("b", "net1")

    assert net.index() == {"a@eth0": "10.0.0.2,2001:db8::2", "b@net1": "10.0.0.3,2001:db8::3"}
    assert net.is_sealed()


def test_changes_of_other_programs_break_the_seal(net: HostLocal) -> None:
    net.add("a")

    net.write("10.0.0.50", "b\r\neth0")

    assert not net.is_sealed()

    net.succeed("DEL", "b")

    assert net.is_sealed()
    (net.folder / "10.0.0.2").unlink()
    assert not net.is_sealed()


def test_an_address_that_went_to_another_owner_is_not_released_with_the_first(net: HostLocal) -> None:
    net.add("a")
    (net.folder / "10.0.0.2").unlink()
    net.write("10.0.0.2", "b\r\neth0")

    net.succeed("DEL", "a")

    assert net.reservations() == {"10.0.0.2": "b\r\neth0"}

    net.succeed("DEL", "b")

    assert net.reservations() == net.index() == {}


def test_an_entry_rewritten_in_place_is_not_believed(net: HostLocal) -> None:
    net.add("a")
    (net.folder / "10.0.0.2").write_text("b\r\neth0")
    (net.folder / "2001:db8::2").write_text("b\r\neth0")
    assert net.is_sealed()

    net.succeed("DEL", "a")

    assert net.reservations() == {"10.0.0.2": "b\r\neth0", "2001:db8::2": "b\r\neth0"}

    net.succeed("DEL", "b")

    assert net.reservations() == {}


@pytest.mark.parametrize("ifname", ["eth0", "net1"])
def test_an_entry_rewritten_in_place_with_its_container_alone_is_released(net: HostLocal, ifname: str) -> None:
    for pod in "xay":
        net.add(pod)
    for address in ("10.0.0.3", "2001:db8::3"):
        (net.folder / address).write_text("a")
    assert net.is_sealed()

    net.succeed("DEL", "a", ifname)

    assert set(net.reservations().values()) == {"x\r\neth0", "y\r\neth0"}
    assert net.index().keys() == {"x@eth0", "y@eth0"}
    assert net.is_sealed()


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize("content", GARBAGE)
def test_an_index_damaged_in_place_is_made_again(net: HostLocal, content: bytes, others: int) -> None:
    for number in range(others):
        net.write(f"10.0.1.{number}", "other\r\neth0")
    net.succeed("DEL", "nobody")
    net.add("a")
    (net.folder / ".owners").write_bytes(content)
    assert net.is_sealed()

    assert net.fail("ADD", "a")[0] == 100
    assert net.index()["a@eth0"] == "10.0.0.2,2001:db8::2"
    assert net.is_sealed()

    (net.folder / ".owners").write_bytes(content)
    net.succeed("CHECK", "a")
    (net.folder / ".owners").write_bytes(content)
    net.succeed("DEL", "a")

    assert len(net.reservations()) == others
    assert net.is_sealed()


def test_an_index_that_was_made_again_is_believed_from_then_on(net: HostLocal) -> None:
    seed(net)
    net.succeed("DEL", "nobody")
    net.add("a")
    (net.folder / ".owners").write_bytes(b"")

    first = system_calls(lambda: net.succeed("DEL", "nobody"))
    second = system_calls(lambda: net.succeed("DEL", "nobody"))

    assert first.count("open") >= MANY
    assert second.count("open") <= 3  # lock, index, boot


def test_after_a_reboot_an_add_reads_all_once(net: HostLocal) -> None:
    for number in range(100):
        net.write(f"10.0.1.{number}", "other\r\neth0")
    net.succeed("DEL", "nobody")
    for sealed in (net.folder / ".owners", net.folder):
        os.utime(sealed, (SEAL ^ 1, SEAL ^ 1))

    assert system_calls(lambda: net.add("a")).count("open") > 100
    assert net.is_sealed()
    assert system_calls(lambda: net.add("b")).count("open") < 20


def test_second_address_of_an_unfinished_reference_add_is_released(net: HostLocal) -> None:
    net.write("10.0.0.2", "pod\r\neth0")
    net.succeed("DEL", "nobody")  # between the two addresses, the reference lets go of the lock
    net.write("2001:db8::2", "pod\r\neth0")
    for number in range(100):
        net.write(f"10.0.1.{number}", "other\r\neth0")

    net.succeed("DEL", "pod")

    assert set(net.reservations().values()) == {"other\r\neth0"}


@pytest.mark.parametrize("released", range(6))
def test_a_line_is_taken_out_of_the_index_and_no_other(net: HostLocal, released: int) -> None:
    attachments = [("a", "eth0"), ("aa", "eth0"), ("a", "eth01"), ("a", "th0"), ("a", "e@eth0"), ("0a", "eth0")]
    addresses = [net.add(*attachment) for attachment in attachments]

    for attachment in attachments[released:] + attachments[:released]:
        net.succeed("DEL", *attachment)
        place = attachments.index(attachment)
        addresses[place] = []

        assert net.index() == {
            f"{container_id}@{ifname}": ",".join(listed)
            for (container_id, ifname), listed in zip(attachments, addresses, strict=True)
            if listed
        }
        assert net.reservations().keys() == {address for listed in addresses for address in listed}
        assert net.is_sealed()

    assert (net.folder / ".owners").read_bytes() == EMPTY


def test_an_owner_that_gets_more_has_one_line(net: HostLocal) -> None:
    net.write("203.0.113.2", "a\r\neth0")
    for pod in "xay":
        net.add(pod)

    assert net.index() == {
        "x@eth0": "10.0.0.2,2001:db8::2",
        "a@eth0": "10.0.0.3,2001:db8::3,203.0.113.2",
        "y@eth0": "10.0.0.4,2001:db8::4",
    }


def test_the_seal_of_another_boot_is_not_believed(net: HostLocal) -> None:
    net.add("a")
    # As a power failure may leave it: the seal is on the disk, and the writes to the index before are not.
    (net.folder / ".owners").write_bytes(EMPTY)
    for sealed in (net.folder / ".owners", net.folder):
        os.utime(sealed, (SEAL, SEAL))
    net.succeed("DEL", "a")

    assert len(net.reservations()) == 2

    for sealed in (net.folder / ".owners", net.folder):
        os.utime(sealed, (SEAL ^ 1, SEAL ^ 1))
    net.succeed("DEL", "a")

    assert net.reservations() == {}
    assert net.is_sealed()


@pytest.mark.parametrize("verb", ["ADD", "DEL", "GC"])
@pytest.mark.parametrize("content", GARBAGE)
def test_damaged_index_is_rebuilt_by_each_verb(net: HostLocal, content: bytes, verb: str) -> None:
    net.add("a")
    net.add("b")
    (net.folder / ".owners").write_bytes(content)
    os.utime(net.folder)

    if verb == "ADD":
        assert net.fail("ADD", "a")[0] == 100
    elif verb == "DEL":
        net.succeed("DEL", "a")
    else:
        net.config["cni.dev/valid-attachments"] = [{"containerID": "b", "ifname": "eth0"}]
        net.succeed("GC")

    kept = {"b@eth0": "10.0.0.3,2001:db8::3"} | ({"a@eth0": "10.0.0.2,2001:db8::2"} if verb == "ADD" else {})
    assert set(net.reservations()) == {address for listed in kept.values() for address in listed.split(",")}
    if net.is_sealed():
        assert net.index() == kept


@pytest.mark.parametrize("content", GARBAGE)
def test_damaged_index_of_a_large_folder_is_rebuilt(net: HostLocal, content: bytes) -> None:
    net.add("a")
    for number in range(100):
        net.write(f"10.0.1.{number}", "other\r\neth0")
    (net.folder / ".owners").write_bytes(content)

    net.add("b")
    net.succeed("DEL", "a")
    net.succeed("CHECK", "b")
    net.succeed("DEL", "b")

    assert set(net.reservations().values()) == {"other\r\neth0"}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the kernel write no file beyond `size` bytes, as on a disk that is full: a part, and then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_reservation_that_is_written_in_part_is_undone(net: HostLocal) -> None:
    net.add("a")
    before = net.reservations(), net.index(), (net.folder / "last_reserved_ip.0").read_bytes()

    with files_of_at_most(6):
        code, message = net.fail("ADD", "b")

    assert (code, message) == (5, f"ipam.dataDir: {net.folder}/10.0.0.3: File too large")
    assert (net.reservations(), net.index(), (net.folder / "last_reserved_ip.0").read_bytes()) == before
    assert net.is_sealed()


def test_an_index_that_is_written_in_part_is_not_believed(net: HostLocal) -> None:
    for pod in "abc":
        net.add(pod)
    size = len((net.folder / ".owners").read_bytes().rstrip())

    with files_of_at_most(size + 12):
        net.add("d")

        assert not net.is_sealed()
        assert net.fail("ADD", "d")[0] == 100
        net.succeed("CHECK", "d")
        net.succeed("DEL", "d")
        net.succeed("DEL", "b")
    net.succeed("DEL", "nobody")

    assert net.index() == {"a@eth0": "10.0.0.2,2001:db8::2", "c@eth0": "10.0.0.4,2001:db8::4"}
    assert net.is_sealed()
    assert len(net.reservations()) == 4


def test_verbs_work_without_a_writable_index(net: HostLocal) -> None:
    (net.folder / ".owners").mkdir(parents=True)

    assert net.add("a") == ["10.0.0.2", "2001:db8::2"]
    assert net.add("b") == ["10.0.0.3", "2001:db8::3"]
    assert not net.is_sealed()
    assert net.fail("ADD", "a")[0] == 100
    net.succeed("CHECK", "a")
    net.succeed("DEL", "a")
    assert net.fail("CHECK", "a")[0] == 101
    assert net.reservations().keys() == {"10.0.0.3", "2001:db8::3"}

    net.config["cni.dev/valid-attachments"] = []
    net.succeed("GC")

    assert net.reservations() == {}
    assert not net.is_sealed()


@pytest.mark.parametrize("verb", ["ADD", "DEL", "GC"])
@pytest.mark.parametrize(
    ("content", "mode", "kept"),
    [("", 0o600, False), ("\0" * 9, 0o600, False), ("", 0o644, True), ("\0", 0o644, True), (" ", 0o600, True)],
)
def test_a_reservation_that_a_crash_left_blank_is_removed(
    net: HostLocal, verb: str, content: str, mode: int, *, kept: bool
) -> None:
    net.write("10.0.0.2", content)
    (net.folder / "10.0.0.2").chmod(mode)

    if verb == "GC":
        net.config["cni.dev/valid-attachments"] = []
        kept = kept and content == "\0"  # The others are of nobody, whoever made them.
    given = net.succeed(verb, "a")

    assert ("10.0.0.2" in net.reservations()) == (kept or verb == "ADD")
    if verb == "ADD":
        assert given.addresses[0] == ("10.0.0.3" if kept else "10.0.0.2")


def test_blank_link_and_folder_are_kept_by_del(net: HostLocal) -> None:
    net.write("blank", "")
    (net.folder / "blank").chmod(0o600)
    (net.folder / "10.0.0.2").symlink_to("blank")
    (net.folder / "10.0.0.3").mkdir(mode=0o600)

    net.succeed("DEL", "a")

    assert {"10.0.0.2", "10.0.0.3", "blank"} <= set(net.names())


def test_a_lost_index_is_made_again(net: HostLocal) -> None:
    net.add("a")
    net.add("b")
    (net.folder / ".owners").unlink()

    net.succeed("DEL", "a")

    assert net.reservations().keys() == {"10.0.0.3", "2001:db8::3"}
    assert net.index() == {"b@eth0": "10.0.0.3,2001:db8::3"}


@pytest.mark.parametrize(
    "content", ["", "\0", "../../etc\r\neth0", "a/b", "x\r\na/b", "ünï\r\neth0", "\n\n", "x" * 9000]
)
def test_strange_entries_do_no_harm(net: HostLocal, content: str) -> None:
    net.write("10.0.0.3", content)
    (net.folder / "10.0.0.4").mkdir()
    (net.folder / "folder").mkdir()
    (net.folder / "notes.txt").write_text("a\r\neth0")

    assert net.add("a") == ["10.0.0.2", "2001:db8::2"]
    assert net.add("b")[0] == "10.0.0.5"
    net.succeed("DEL", "a")
    net.succeed("DEL", "b")
    net.succeed("DEL", "c")

    assert net.names() == sorted(
        [
            "10.0.0.3",
            "10.0.0.4",
            "folder",
            "last_reserved_ip.0",
            "last_reserved_ip.1",
            "lock",
            "notes.txt",
            ".owners",
        ]
    )
    assert (net.folder / "10.0.0.3").read_bytes().decode() == content
