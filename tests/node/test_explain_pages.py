"""Pages of `explain` and of `conformance` in a browser: wide and on a phone, light and dark.

Pictures go to build/pictures.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image, ImageStat

from harness.conformance.finding import Outcome
from harness.conformance.report.page import run_page
from harness.views.explanation import Explanation, explain_run, page
from harness.views.recorded_runs import RecordedRun, RecordedRuns
from tests.browser import PHONE, WIDE, Browser, Page, View, running_browser
from tests.cli import ROOT, Cli, bridge_network
from tests.findings import examination, execution, finding
from tests.page_measures import MEASURES

pytestmark = [pytest.mark.sudo, pytest.mark.needs("chromium")]

PICTURES = ROOT / "build" / "pictures"
ALL_VIEWS = [(view, dark) for view in (WIDE, PHONE) for dark in (False, True)]
HOSTILE = "</script><script>document.title = 'changed'</script> \u202eright to left\u202c \x1b[31m " + "w" * 400


class Look(NamedTuple):
    """A page, and the screens that it is looked at on."""

    name: str
    file: Path
    views: list[tuple[View, bool]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


def recorded(cli: Cli) -> RecordedRun:
    """Return the newest record of a node."""
    return next(RecordedRuns(cli.node_dir / "runs").all())


def with_hostile_words(found: Explanation) -> Explanation:
    """Return the explanation as if a plugin had said the worst at every place, and several times."""
    bars = tuple(bar._replace(words=HOSTILE, error=HOSTILE, is_open=True) for bar in found.bars)
    arrow = found.arrows[0]
    executed = found.executions[0]._replace(stdout=HOSTILE, stderr=HOSTILE, error=HOSTILE, plugin=HOSTILE[:200])
    return found._replace(
        pod=f"default/{'a' * 250}",
        facts=tuple((key, HOSTILE) for key, _ in found.facts),
        errors=(HOSTILE,),
        bars=bars * 3,
        arrows=tuple(arrow._replace(text=HOSTILE, target=f"{HOSTILE}{number}", is_error=True) for number in range(9)),
        executions=(executed,),
        changes=tuple(change._replace(words=HOSTILE) for change in found.changes),
        networks=tuple(network._replace(name=HOSTILE, text=HOSTILE) for network in found.networks),
    )


def conformance_page() -> str:
    """Return the page of a run with a finding of each outcome, and hostile words wherever a plugin could say some."""
    said = dict.fromkeys(("detail", "sent", "got", "expected", "known"), HOSTILE)
    calls = (execution(HOSTILE), execution("{}", verb="DEL", stdin=HOSTILE.encode()))
    told = [finding(outcome.name.lower(), outcome, transcript=calls, **said) for outcome in Outcome]
    long = [finding("a-check-with-a-long-name-" * 3, Outcome.PASS), finding("sometimes", runs=6, failed_runs=1)]
    return run_page(examination(*told, *long, cut_short=HOSTILE, command=("cni-harness", HOSTILE)))


@pytest.fixture
def looks(own_cli: Cli, tmp_path: Path) -> list[Look]:
    """An ADD of a chain, one that failed, the present state, and a page of hostile words."""
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    broken = bridge_network("broken", subnet="10.78.0.0/16")
    broken["plugins"].append({"type": "bandwidth", "ingressRate": -1})
    own_cli.configure(network, broken)
    own_cli.run("add", "pod1", "-p", "8080:80", "--record")
    run = recorded(own_cli)
    files = {name: tmp_path / f"{name}.html" for name in ("add", "failed", "now", "hostile", "conformance")}
    own_cli.run("explain", "pod1", "-o", str(files["add"]))
    own_cli.run("add", "pod2", "--network", "broken", "--record", check=False)
    own_cli.run("explain", "pod2", "-o", str(files["failed"]))
    own_cli.run("add", "pod3")
    own_cli.run("explain", "pod3", "-o", str(files["now"]))
    files["hostile"].write_text(page(with_hostile_words(explain_run(run, "default/pod1"))))
    files["conformance"].write_text(conformance_page())
    return [
        Look("add", files["add"], ALL_VIEWS),
        Look("failed", files["failed"], [(WIDE, True), (PHONE, False)]),
        Look("now", files["now"], [(WIDE, False)]),
        Look("hostile", files["hostile"], [(WIDE, False), (PHONE, True)]),
        Look("conformance", files["conformance"], ALL_VIEWS),
    ]


def test_pages_are_sound_on_every_screen(browser: Browser, looks: list[Look]) -> None:
    found = {}
    for look in looks:
        for view, dark in look.views:
            opened = browser.open(look.file, view, dark=dark)
            name = f"page-{look.name}-{view.name}-{'dark' if dark else 'light'}"
            flaws = {measure: opened.evaluate(script)[:5] for measure, script in MEASURES.items()}
            # A page with everything open is another page.
            if look.name in {"add", "conformance"}:
                opened.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
                flaws |= {f"{measure}, opened": opened.evaluate(script)[:5] for measure, script in MEASURES.items()}
                opened.evaluate("document.querySelectorAll('.facts').forEach(each => each.open = false)")
            flaws["told by the browser"] = [each["entry"]["text"] for each in opened.told("Log.entryAdded")]
            flaws["asked of a network"] = [url for url in _asked(opened) if url not in {look.file.as_uri(), "data:,"}]
            flaws["of its picture"] = _flaws_of_picture(opened, PICTURES / f"{name}.png", dark=dark)
            flaws["done by a script"] = [title for title in [opened.evaluate("document.title")] if title == "changed"]
            found[name] = {measure: flawed for measure, flawed in flaws.items() if flawed}
            opened.close()

    assert {name: flaws for name, flaws in found.items() if flaws} == {}
    assert len(found) == 13


def _asked(opened: Page) -> list[str]:
    return [each["request"]["url"] for each in opened.told("Network.requestWillBeSent")]


def _flaws_of_picture(opened: Page, file: Path, *, dark: bool) -> list[str]:
    """Tell whether a picture is blank, or of the other scheme; the whole page is written to the file."""
    image = Image.open(io.BytesIO(opened.picture(file))).convert("L")
    brightness = ImageStat.Stat(image).mean[0] / 255
    histogram = image.histogram()
    inked = 1 - max(histogram) / sum(histogram)
    flaws = [] if inked > 0.03 else [f"only {inked:.1%} of it is not the background"]
    if brightness > 0.25 if dark else brightness < 0.75:
        flaws.append(f"its brightness is {brightness:.2f}")
    return flaws


def test_the_measures_find_flaws(browser: Browser, tmp_path: Path) -> None:
    """Each measure is shown a page with its flaw: one that finds nothing there would be worth nothing."""
    flawed = {
        "wider than the screen": '<div style="width: 3000px">wide</div>',
        "beyond the right edge": '<div style="margin-left: 1300px; width: 300px">beyond</div>',
        "cut off": '<div style="width: 90px; overflow: hidden; white-space: nowrap">much too long for this</div>',
        "hard to read": '<p style="color: #999; background: #fff">pale</p>',
        "too small": '<p style="font-size: 8px">small</p>',
        "over each other": '<svg class="sequence" viewBox="0 0 99 99" width="99" height="99"><g><text x="5" y="50">one'
        '</text><text x="9" y="52">two</text></g></svg>',
        "outside of its box": '<svg class="topology" viewBox="0 0 300 99" width="300" height="99"><g><rect x="0" y="0" '
        'width="20" height="40"/><text x="5" y="20">much too long</text></g></svg>',
        "outside of its drawing": '<svg viewBox="0 0 50 99" width="50" height="99"><text x="5" y="9">too long</text>'
        "</svg>",
        "a section without content": "<section><h2>Empty</h2></section>",
    }
    file = tmp_path / "flawed.html"
    missed = []
    for name, body in flawed.items():
        file.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{body}")
        opened = browser.open(file, WIDE, dark=False)
        missed += [name] if not opened.evaluate(MEASURES[name]) else []
        opened.close()

    assert missed == []
    assert json.dumps(sorted(flawed)) == json.dumps(sorted(MEASURES))
