"""Pictures of the documentation: the Pod's way, a topology, and the recorded terminal."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.cli import ROOT
from tools.pictures import terminal_svg, topology
from tools.pictures.cast import COLUMNS, PROMPT, RECORDING, SCRIPT, Cast, Event, _shortened
from tools.pictures.pod import PICTURE, STEPS, drawing

_TEXT = "{http://www.w3.org/2000/svg}text"


def test_picture_file_is_up_to_date() -> None:
    assert PICTURE.read_text() == drawing(), "`make pictures` writes it"


def test_the_drawn_topology_is_up_to_date_and_that_of_its_page() -> None:
    tree = (ROOT / "docs" / "topology.md").read_text().partition("## topology\n")[2].split("```")[1]
    texts = {text.text for text in ET.fromstring(topology.drawing()).iter(_TEXT)}  # noqa: S314 -- our own text

    assert topology.PICTURE.read_text() == topology.drawing(), "`make pictures` writes it"
    assert set(re.findall(r"veth\w{6,}|pod\d$|route .*|port \S+|[\d.]+/16(?=  )", tree, re.MULTILINE)) <= texts


def test_the_numbers_are_sections_of_the_walkthrough() -> None:
    sections = re.findall(r"^## (\d)\. ", (ROOT / "docs" / "walkthrough.md").read_text(), re.MULTILINE)

    assert sections == sorted({str(step.section) for step in STEPS})


def test_no_text_leaves_the_picture() -> None:
    picture = ET.fromstring(drawing())  # noqa: S314 -- our own text
    width = float(picture.attrib["width"])
    ends = [
        float(text.attrib["x"]) + side * 3.4 * len(text.text or "")  # half of a character of 12 pixels
        for text in picture.iter(_TEXT)
        for side in (-1, 1)
    ]

    assert len(ends) > 2 * len(STEPS)
    assert [end for end in ends if not 0 < end < width] == []


def test_the_recording_has_each_command_and_the_picture_shows_them() -> None:
    cast = Cast.read(RECORDING.read_text())
    picture = terminal_svg.drawing(cast)
    lines = ["".join(line.itertext()) for line in ET.fromstring(picture).iter(_TEXT)]  # noqa: S314 -- our own text

    assert cast.document() == RECORDING.read_text()
    assert cast.commands() == list(SCRIPT), "`make pictures` records them"
    assert picture == terminal_svg.PICTURE.read_text(), "`make pictures` draws it"
    shown = "".join(lines)  # a long command goes on in the next line
    assert [command for command in SCRIPT if f"# {command}" not in shown] == []
    assert max(map(len, lines)) <= COLUMNS
    assert len(picture) < 150_000


def test_the_recording_starts_with_content_and_ends_within_a_minute() -> None:
    cast = Cast.read(RECORDING.read_text())
    lines = list(ET.parse(terminal_svg.PICTURE).getroot().iter(_TEXT))  # noqa: S314 -- our own text

    assert 0 == cast.events[0].time < cast.events[-1].time <= 60
    first = "".join(event.text for event in cast.events if event.time == 0)
    assert SCRIPT[0] in first
    assert first.count("\n") > 8
    at_once = [line for line in lines if not line.get("style") and not any(part.get("style") for part in line)]
    assert len(at_once) > 8
    delays = re.findall(r"animation-delay:([\d.]+)s", terminal_svg.PICTURE.read_text())
    assert 0 < min(map(float, delays)) < 2
    assert 5 < max(map(float, delays)) <= 60


def test_a_recording_starts_with_ten_lines_and_waits_for_readers() -> None:
    prompt, command, enter = Event(0.1, "o", PROMPT), Event(0.2, "m", "ls"), Event(0.3, "o", "ls\r\n")
    output = [Event(0.3 + number / 10, "o", f"{number}\r\n") for number in range(1, 13)]
    after = [Event(9.0, "o", PROMPT), Event(9.0, "m", "ls"), Event(9.1, "o", "l")]

    recorded = _shortened([prompt, command, enter, *output, *after])

    assert [event.text for event in recorded if not event.time][-1] == "10\r\n"
    assert [(event.time, event.text) for event in recorded if event.time] == [
        (0.1, "11\r\n"),
        (0.2, "12\r\n"),
        (1.2, PROMPT),
        (3.2, "ls"),
        (3.3, "l"),
    ]


def test_a_line_appears_at_its_time_and_a_typed_one_key_by_key() -> None:
    typed = [Event(1 + number / 10, "o", key) for number, key in enumerate("date")]
    output = Event(2.5, "o", "\r\n\x1b[1mMon\x1b[0m \x1b[31mNov <23>\x1b[0m\r\n" + PROMPT)

    picture = terminal_svg.drawing(Cast((Event(0.0, "o", PROMPT), *typed, output)))
    lines = list(ET.fromstring(picture).iter(_TEXT))  # noqa: S314 -- our own text
    assert ["".join(line.itertext()) for line in lines] == ["# date", "Mon Nov <23>"]
    assert [line.get("style") for line in lines] == [None, "animation-delay:2.50s"]
    assert [(key.text, key.get("style")) for key in lines[0]] == [
        (key, f"animation-delay:{1 + number / 10:.2f}s") for number, key in enumerate("date")
    ]
    assert [(part.text, part.get("class")) for part in lines[1]] == [("Mon", "bold"), ("Nov <23>", "r")]


def test_a_screen_that_needs_an_emulator_is_refused() -> None:
    with pytest.raises(ValueError, match="only colours"):
        terminal_svg.drawing(Cast((Event(0.0, "o", "one\x1b[2Ktwo"),)))
