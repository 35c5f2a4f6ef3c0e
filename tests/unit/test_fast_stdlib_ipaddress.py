"""`fast_stdlib.ipaddress` held against `ipaddress`: calls, `isinstance`, unions in annotations, no early import."""

import ipaddress
import subprocess
import sys
from typing import Any

import pytest

import fast_stdlib.ipaddress
from tests.cli import ROOT

TEXTS = ["192.0.2.1", "2001:db8::1", "192.0.2.0/24", "2001:db8::/64", "192.0.2.1/24", "2001:db8::1/64", "", "x"]
VALUES = [
    *(make(text) for make in (ipaddress.ip_address, ipaddress.ip_interface) for text in TEXTS[:2]),
    *map(ipaddress.ip_network, TEXTS[2:4]),
    *map(ipaddress.ip_interface, TEXTS[4:6]),
    None,
    "192.0.2.1",
    5,
]


def outcome(make: Any, text: str) -> object:
    try:
        return make(text)
    except ValueError as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", fast_stdlib.ipaddress.__all__)
def test_a_call_is_the_standard_library_s(name: str) -> None:
    ours, theirs = getattr(fast_stdlib.ipaddress, name), getattr(ipaddress, name)

    assert [outcome(ours, text) for text in TEXTS] == [outcome(theirs, text) for text in TEXTS]


@pytest.mark.parametrize("first", [name for name in fast_stdlib.ipaddress.__all__ if name.startswith("IP")])
def test_isinstance_tells_the_same_of_classes_and_unions(first: str) -> None:
    ours, theirs = getattr(fast_stdlib.ipaddress, first), getattr(ipaddress, first)
    unions = [
        (ours, theirs),
        (ours | fast_stdlib.ipaddress.IPv6Address, theirs | ipaddress.IPv6Address),
        (ours | None, theirs | None),
        (None | ours, None | theirs),
        (ours | str, theirs | str),
        (int | ours, int | theirs),
    ]

    for our_union, their_union in unions:
        told = [isinstance(value, our_union) for value in VALUES]

        assert told == [isinstance(value, their_union) for value in VALUES]


def test_nothing_is_loaded_until_an_address_is_made() -> None:
    script = (
        "import sys; from fast_stdlib.ipaddress import IPv4Address, ip_address;"
        "from skel.decoders import Address, Cidr;"
        "held: dict[Address, list[Cidr | None]] = {}; assert not isinstance('', Address | IPv4Address);"
        "loaded = {'ipaddress', 'functools', 'collections'} & set(sys.modules); assert not loaded, loaded;"
        "assert isinstance(ip_address('192.0.2.1'), Address); assert 'ipaddress' in sys.modules"
    )

    subprocess.run([sys.executable, "-ISc", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {script}"], check=True)
