"""How many files ADD and DEL touch, and an index that stays right whatever others do to the folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.host_local import HostLocal, system_calls

MANY = 5000
SEAL = 1_000_000_000


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path, ranges=[[{"subnet": "10.0.0.0/16"}], [{"subnet": "2001:db8::/64"}]])


def seed(net: HostLocal) -> None:
    """Reserve very many addresses as another program would."""
    for number in range(MANY):
        net.write(f"10.0.{100 + number // 250}.{number % 250}", f"pod{number}\r\neth0")


def sealed(net: HostLocal) -> bool:
    return net.folder.stat().st_mtime_ns == SEAL * 10**9


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
    assert len(few) < 80


def test_reservations_of_our_own_cost_nothing_either(net: HostLocal) -> None:
    net.add("first")
    few = system_calls(attach_and_detach(net, "a"))

    for number in range(200):
        net.add(f"pod{number}")

    assert system_calls(attach_and_detach(net, "b")) == few


def test_add_and_its_del_read_no_file_of_thousands_that_others_wrote(net: HostLocal) -> None:
    net.folder.mkdir()
    few = system_calls(lambda: net.add("a"))
    net.succeed("DEL", "a")
    seed(net)

    adding = system_calls(lambda: net.add("b"))
    deleting = system_calls(lambda: net.succeed("DEL", "b"))

    assert adding.count("open") <= few.count("open")
    assert listings(adding) <= 1
    assert deleting.count("open") <= 3
    assert listings(deleting) <= 1


def test_del_of_what_others_wrote_opens_what_prev_result_names(net: HostLocal) -> None:
    net = HostLocal(net.data_dir, subnet="10.0.0.0/16")
    seed(net)

    calls = system_calls(lambda: net.succeed("DEL", "pod7", prevResult={"ips": [{"address": "10.0.100.7/16"}]}))

    assert calls.count("open") <= 2
    assert "10.0.100.7" not in net.reservations()


def test_a_search_that_finds_nothing_reads_all_once(net: HostLocal) -> None:
    seed(net)

    first = system_calls(lambda: net.succeed("DEL", "nobody"))
    second = system_calls(lambda: net.succeed("DEL", "nobody"))

    assert first.count("open") >= MANY
    assert second.count("open") <= 1
    assert len(net.index()) == MANY


def test_a_second_add_is_seen_in_a_small_folder_that_others_wrote(net: HostLocal) -> None:
    for number in range(20):
        net.write(f"10.0.0.{100 + number}", f"pod{number}\r\neth0")

    assert net.fail("ADD", "pod7")[0] == 100


def test_the_index_names_each_owner_s_addresses_and_is_sealed(net: HostLocal) -> None:
    net.add("a")
    net.add("b", "net1")

    assert net.index() == {".owner@a@eth0": "10.0.0.2,2001:db8::2", ".owner@b@net1": "10.0.0.3,2001:db8::3"}
    assert sealed(net)


def test_whatever_others_change_breaks_the_seal(net: HostLocal) -> None:
    net.add("a")

    net.write("10.0.0.50", "b\r\neth0")

    assert not sealed(net)

    net.succeed("DEL", "b")

    assert sealed(net)
    (net.folder / "10.0.0.2").unlink()
    assert not sealed(net)


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
    assert sealed(net)

    net.succeed("DEL", "a")

    assert net.reservations() == {"10.0.0.2": "b\r\neth0", "2001:db8::2": "b\r\neth0"}


def test_what_an_add_of_the_reference_had_not_written_yet_is_released_too(net: HostLocal) -> None:
    net.write("10.0.0.2", "pod\r\neth0")
    net.succeed("DEL", "nobody")  # between the two addresses, the reference lets go of the lock
    net.write("2001:db8::2", "pod\r\neth0")
    for number in range(100):
        net.write(f"10.0.1.{number}", "other\r\neth0")

    net.succeed("DEL", "pod")

    assert set(net.reservations().values()) == {"other\r\neth0"}


def test_a_lost_index_is_made_again(net: HostLocal) -> None:
    net.add("a")
    net.add("b")
    for link in net.index():
        (net.folder / link).unlink()

    net.succeed("DEL", "a")

    assert net.reservations().keys() == {"10.0.0.3", "2001:db8::3"}
    assert net.index() == {".owner@b@eth0": "10.0.0.3,2001:db8::3"}


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
            *net.index(),
        ]
    )
    assert (net.folder / "10.0.0.3").read_bytes().decode() == content
