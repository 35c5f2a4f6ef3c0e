"""The page of life cycles shows the tables of the code."""

import pytest

from tools.life_cycles import PAGE, drawn


def test_drawings_match_the_tables() -> None:
    text = PAGE.read_text()

    assert text.count("```mermaid") == 3
    assert "    sync --> sync : SYNCED, FAILED\n" in text
    assert "    READY --> NOTREADY : ENDED\n" in text
    assert "    CONTAINER_RUNNING --> CONTAINER_EXITED : EXIT, SHIM_LOST\n" in text
    assert drawn(text) == text, "`python -m tools.life_cycles` writes the page"


def test_an_old_drawing_is_replaced_and_a_missing_one_is_an_error() -> None:
    text = PAGE.read_text()

    assert drawn(text.replace("    MAKING --> READY : MADE\n", "    MAKING --> GONE : MADE\n")) == text
    with pytest.raises(ValueError, match="no place for the drawing of Sandbox"):
        drawn(text.replace("## Sandbox", "## Sandboxes"))
