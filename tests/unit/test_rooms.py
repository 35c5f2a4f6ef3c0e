"""The table of rooms in docs/design.md: its last column is made from the import contracts."""

import pytest

from tools.rooms import PAGE, drawn


def test_table_of_rooms_equals_the_contracts_of_lint() -> None:
    text = PAGE.read_text()

    assert drawn(text) == text, "`python -m tools.rooms` writes the page"


def test_table_without_a_room_is_refused() -> None:
    text = PAGE.read_text().replace("| `netlink/` |", "| netlink |")

    with pytest.raises(ValueError, match="no row for netlink"):
        drawn(text)
