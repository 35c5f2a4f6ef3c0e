"""Documents that are generated, and their style: the site, manual pages, README's length, names of tests."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import skel
from tests.cli import ROOT
from tests.cli_examples import verbs
from tools.prose import HABITS, Passage, habits, names_of_tests, passages, rates, unclear_names, unclear_words
from tools.site.man import write_manual_pages

VERBS = [f"cni-harness {name}" for name, _ in verbs()]


class Site:
    """A browser's view of the pages: their text, the names within them, and their links."""

    def __init__(self, folder: Path) -> None:
        self.pages = {str(path.relative_to(folder)): Page(path.read_text()) for path in folder.rglob("*.html")}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.loaded: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names.add(found.get("id") or "")
        if tag in {"script", "img"}:
            self.loaded.append(found.get("src") or "")
        if tag == "link" and found.get("rel") == "stylesheet":
            self.loaded.append(found.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    # A dead link, a missing anchor and a page without a place in the navigation are warnings, and end a strict build.
    # With --quiet they would not be counted.
    assert (build.returncode, re.findall("^(?:WARNING|ERROR).*", build.stderr, re.MULTILINE)) == (0, [])
    return Site(folder)


@pytest.mark.slow("it builds the site, as make docs does")
def test_the_site_has_every_verb_and_key_and_public_name(site: Site) -> None:
    assert [verb for verb in VERBS if verb.replace(" ", "-") not in site.pages["command-line.html"].names] == []
    assert "cni-harness add pod1" in " ".join("".join(site.pages["command-line.html"].words).split())
    schemas = [json.loads(path.read_text()) for path in (ROOT / "conf" / "schemas").glob("*.json")]
    keys = {key for schema in schemas for key in schema.get("properties", {})}
    assert [key for key in sorted(keys) if key not in site.pages["keys.html"].words] == []
    documented = [name for name in skel.__all__ if getattr(getattr(skel, name), "__doc__", "") and name[0].isupper()]
    classes = [name for name in documented if isinstance(getattr(skel, name), type)]
    assert len(classes) > 10
    assert [name for name in classes if f"skel.{name}" not in site.pages["api/skel.html"].names] == []
    assert "netlink.namespace.open_namespace" in site.pages["api/netlink.html"].names


@pytest.mark.slow("it builds the site, as make docs does")
def test_a_readers_browser_asks_no_other_host(site: Site) -> None:
    assert [link for page in site.pages.values() for link in page.loaded if "//" in link] == []


def test_manual_pages_name_every_verb(tmp_path: Path) -> None:
    pages = {path.name: path.read_text() for path in write_manual_pages(tmp_path)}

    assert set(pages) == {"cni-harness.8", *(f"{verb.replace(' ', '-')}.8" for verb in VERBS)}
    first = pages["cni-harness.8"].replace("\\-", "-")
    assert [verb for verb in VERBS if verb.count(" ") == 1 and f"\\fB{verb}\\fR" not in first] == []
    assert "--exist-ok" in pages["cni-harness-add.8"].replace("\\-", "-")
    assert "\n\\fBcni-harness add pod1\\fR\n" in pages["cni-harness-add.8"].replace("\\-", "-")
    assert "--state-dir" in first
    assert "--state-dir" not in pages["cni-harness-add.8"].replace("\\-", "-")
    for name, page in pages.items():
        assert [line for line in page.splitlines() if line.startswith("'")] == [], name
        assert re.findall(r"^\.(?!TH |SH |PP$|TP$).*", page, re.MULTILINE) == [], name


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 900


def test_habits_are_found_with_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "A pod keeps what\nit has.\n\nWhat is a pod?\n\n```\nwhat is code\n```\nStop where there is none.\n"
    )
    code = tmp_path / "code.py"
    code.write_text('"""What a thing is."""\n\nX = "what is no prose"  # where\n# there is none\n')

    found = {path.name: [each[:2] for one in passages(path) for each in habits(one)] for path in (page, code)}

    assert found == {"page.md": [("what is", 1), ("where there", 9)], "code.py": [("what is", 1), ("where there", 3)]}
    assert list(habits(Passage(page, 1, "Is this what it does?"))) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("what_a_pod_leaves_is_removed", "what"),
        ("pod_stays_where_it_was", "where"),
        ("links_are_those_of_the_pod", "those"),
        ("one_that_is_taken_is_refused", "one_that"),
        ("somebody_elses_bridge_is_kept", "somebody_elses"),
        ("gateway_is_none_of_them", "none_of"),
        ("it_is_unpacked_once", "it"),
        ("add_has_no_reason_to_fail", "no_reason"),
        ("route_is_told", "told"),
        ("pod_that_has_no_address_is_refused", None),
        ("whole_result_of_another_pod_is_kept", None),
    ],
)
def test_unclear_names_of_tests_are_found(name: str, words: str | None) -> None:
    assert unclear_words(f"test_{name}") == words


def test_names_are_read_from_test_files_and_templates(tmp_path: Path) -> None:
    text = "\nclass TestOne:\n    def test_it_works(self):\n        pass\n\n\nasync def test_add(node):\n    pass\n"
    files = [tmp_path / name for name in ("test_one.py", "test_two.py.in", "page.md")]
    for file in files:
        file.write_text(text)

    assert [list(names_of_tests(file)) for file in files] == [[(3, "test_it_works"), (7, "test_add")]] * 2 + [[]]
    assert unclear_names(files) == [f"{file}:3: test_it_works (it)" for file in files[:2]]


def test_names_of_tests_are_clear() -> None:
    assert len(unclear_names(sorted((ROOT / "tests").rglob("test_*.py")))) < 30


@pytest.mark.slow("it reads all pages and code; the habits are found in a text in make test")
def test_pages_and_code_have_few_of_the_habits() -> None:
    rooms = [path.parent for path in ROOT.glob("*/__init__.py")]
    code = [path for room in rooms for path in room.rglob("*.py")]

    places, counts = rates([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *code])

    for folder, count in counts.items():
        shares = {habit: 1000 * count[habit] / count["words"] for habit in HABITS}
        assert {habit: share for habit, share in shares.items() if share >= 2} == {}, (folder, places)
