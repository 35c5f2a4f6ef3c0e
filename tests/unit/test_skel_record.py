"""Typed records: reading, writing, and the values that decoders accept."""

from collections.abc import Callable
from typing import Any

import pytest

from skel import (
    UNKNOWN,
    CniError,
    Record,
    address,
    boolean,
    choice,
    cidr,
    dict_of,
    field,
    integer,
    list_of,
    mac,
    network,
    optional,
    raw,
    record,
    string,
)
from skel.record import rendered


class Port(Record):
    host_port: int = field(integer)
    protocol: str = field(choice("tcp", "udp"), default="tcp")


class Settings(Record):
    name: str = field(string)
    pci_id: str = field(string, "pciID", default="")
    limit: int | None = field(integer, default=None)
    mtu: int = field(integer, default=1500)
    enabled: bool = field(boolean, default=False)
    ports: list[Port] = field(list_of(record(Port)), default=list)
    labels: dict[str, str] = field(dict_of(string), default=dict)
    extra: object = field(raw, default=None)


class Wider(Settings):
    name: str = field(string, default="unnamed")
    depth: int = field(integer, default=0)


def test_keys_are_the_attributes_in_camel_case_unless_given() -> None:
    settings = Settings.decode({"name": "a", "pciID": "0000:01:00.0", "ports": [{"hostPort": 80}]})

    assert settings.pci_id == "0000:01:00.0"
    assert settings.ports == [Port(host_port=80)]


def test_unknown_keys_are_ignored() -> None:
    assert Settings.decode({"name": "a", "vlanTrunk": [], "": 1}) == Settings(name="a")


def test_record_survives_encoding_and_decoding() -> None:
    settings = Settings(
        name="a",
        limit=0,
        mtu=9000,
        enabled=True,
        ports=[Port(host_port=80, protocol="udp")],
        labels={"Tier": "web"},
        extra={"a": [1, None, 1.5]},
    )

    assert Settings.decode(settings.encode()) == settings


def test_empty_defaults_are_omitted_and_other_defaults_are_written() -> None:
    assert Settings(name="").encode() == {"name": "", "mtu": 1500}
    assert Settings(name="", mtu=0, limit=0).encode() == {"name": "", "mtu": 0, "limit": 0}


def test_records_do_not_share_their_defaults() -> None:
    one, other = Settings(name="a"), Settings.decode({"name": "a"})

    one.ports.append(Port(host_port=80))
    one.labels["a"] = "b"

    assert other == Settings(name="a")


def test_a_subclass_redeclares_and_adds() -> None:
    assert Wider.decode({"Depth": 2}) == Wider(name="unnamed", depth=2)
    assert Wider() != Settings(name="unnamed")


def test_a_declaration_is_not_a_value() -> None:
    with pytest.raises(AttributeError):
        _ = Settings.mtu


def test_a_missing_required_key_names_its_path() -> None:
    with pytest.raises(CniError, match=r"^at\.ports\[1\]\.hostPort: required key is missing$"):
        Settings.decode({"name": "a", "ports": [{"hostPort": 1}, {"hostPort": None}]}, "at")
    with pytest.raises(CniError, match=r"^Port\.hostPort: required key is missing$"):
        Port()  # type: ignore[call-arg]


def test_a_misspelt_field_is_the_authors_mistake() -> None:
    with pytest.raises(TypeError, match=r"^Port has no field port$"):
        Port(port=80)  # type: ignore[call-arg]


def test_repr_of_a_record_shows_its_fields() -> None:
    assert repr(Port(host_port=80)) == "Port(host_port=80, protocol='tcp')"


@pytest.mark.parametrize(
    ("decode", "value", "read"),
    [
        (address, "10.1.0.5", "10.1.0.5"),
        (address, "FD00::0005", "fd00::5"),
        (address, "::ffff:10.1.0.5", "10.1.0.5"),
        (cidr, "10.1.0.5/16", "10.1.0.5/16"),
        (cidr, "10.1.0.5/0", "10.1.0.5/0"),
        (cidr, "fd00::5/128", "fd00::5/128"),
        (network, "10.1.0.5/16", "10.1.0.0/16"),
        (network, "::/0", "::/0"),
        (mac, "0A-00-00-00-00-0F", "0a:00:00:00:00:0f"),
        (mac, "0A:00:00:00:00:0F", "0a:00:00:00:00:0f"),
        (mac, "0a00.0000.000F", "0a:00:00:00:00:0f"),
        (optional(address), "10.1.0.5", "10.1.0.5"),
        (optional(address), "", "None"),
        (integer, 34359738359, "34359738359"),
    ],
)
def test_values_are_read_as_go_reads_them(decode: Callable[[object, str], Any], value: object, read: str) -> None:
    assert str(decode(value, "key")) == read


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        (address, "10.1.0.5/16"),
        (address, "fe80::1%eth0"),
        (address, "10.1"),
        (address, 167837701),
        (address, ""),
        (address, True),
        (optional(address), " "),
        (optional(address), False),
        (optional(address), []),
        (cidr, "10.1.0.5/\u0661\u0666"),
        (cidr, "/16"),
        (cidr, "10.1.0.5/16/16"),
        (network, "10.1.0.0"),
        (mac, ""),
        (mac, "0a:00:00:00:00:0f:00:00"),
        (mac, "0a00.0000.000f\n"),
        (mac, 1),
    ],
)
def test_values_that_go_refuses_are_refused(decode: Callable[[object, str], Any], value: object) -> None:
    with pytest.raises(CniError, match=r"^key: expected ") as raised:
        decode(value, "key")

    assert raised.value.code == 7
    assert raised.value.msg.endswith(f", got {rendered(value)}")


def test_a_long_value_is_cut_in_messages() -> None:
    assert rendered("x" * 1000) == '"' + "x" * 118 + "\u2026"
    assert rendered("x" * 118) == '"' + "x" * 118 + '"'


class Place(Record):
    folder: str = field(string, default="", unreadable=UNKNOWN)
    depth: int = field(integer, default=1)
    walled: bool = field(boolean, default=False, unreadable=True)
    ports: list[Port] = field(list_of(record(Port)), default=list)


class Holder(Record):
    name: str = field(string)
    place: Place = field(record(Place), default=Place)


def tolerant(value: object) -> tuple[Holder, list[str]]:
    told: list[str] = []
    return Holder.decode(value, tolerate=lambda error: told.append(error.msg)), told


def test_a_tolerant_record_has_a_default_for_a_key_that_cannot_be_read_and_tells_it() -> None:
    place = {"folder": "/srv", "depth": "deep", "walled": 5, "ports": [{"hostPort": "x"}]}
    holder, told = tolerant({"name": "a", "place": place})

    assert holder.place == Place(folder="/srv", depth=1, walled=True, ports=[])
    assert told == [
        'place.depth: expected a whole number, got "deep"',
        "place.walled: expected true or false, got 5",
        'place.ports[0].hostPort: expected a whole number, got "x"',
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": 5}, "name: expected a string, got 5"),
        ({"name": "a", "place": {"folder": 5}}, "place.folder: expected a string, got 5"),
    ],
)
def test_tolerant_record_raises_for_a_bad_key_without_default(value: object, message: str) -> None:
    holder, told = tolerant(value)

    assert told == [message]
    with pytest.raises(CniError, match=message):
        _ = (holder.name, holder.place.folder)
    assert not hasattr(Holder.decode({"name": "a"}), "no_such_field")


def test_the_last_of_a_repeated_key_counts_for_a_tolerant_record_too() -> None:
    assert tolerant({"name": 5, "NAME": "b"})[0].name == "b"
    with pytest.raises(CniError):
        _ = tolerant({"name": "b", "NAME": 5})[0].name


@pytest.mark.parametrize("value", [5, [], "text"])
def test_tolerant_record_requires_an_object(value: object) -> None:
    with pytest.raises(CniError, match="expected an object"):
        tolerant(value)


def test_a_required_key_that_is_missing_is_no_less_required() -> None:
    with pytest.raises(CniError, match="required key is missing"):
        tolerant({})
