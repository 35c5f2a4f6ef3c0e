"""The picture at the top of README."""

import re
from xml.etree import ElementTree as ET

from tests.cli import ROOT
from tools.pod_picture import PICTURE, STEPS, drawing


def test_the_file_is_what_the_program_draws() -> None:
    assert PICTURE.read_text() == drawing(), "`python -m tools.pod_picture` writes it"


def test_the_numbers_are_sections_of_the_walkthrough() -> None:
    sections = re.findall(r"^## (\d)\. ", (ROOT / "docs" / "walkthrough.md").read_text(), re.MULTILINE)

    assert sections == sorted({str(step.section) for step in STEPS})


def test_no_text_leaves_the_picture() -> None:
    picture = ET.fromstring(drawing())  # noqa: S314 -- our own text
    width = float(picture.attrib["width"])
    ends = [
        float(text.attrib["x"]) + side * 3.4 * len(text.text or "")  # half of a character of 12 pixels
        for text in picture.iter("{http://www.w3.org/2000/svg}text")
        for side in (-1, 1)
    ]

    assert len(ends) > 2 * len(STEPS)
    assert [end for end in ends if not 0 < end < width] == []
