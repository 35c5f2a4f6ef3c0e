"""docs/findings: pages of one form explain each finding in five of the reference's plugins."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from harness.conformance.checks import all_checks
from harness.conformance.runtime_checks.catalogue import runtime_checks
from harness.conformance.sentences import Level, Sentence
from harness.libcni.networks import read_network_file
from tests.cli import ROOT
from tools.reports import FOLDER, read_reports

PLACE: Final = ROOT / "docs" / "findings"
INDEX: Final = (PLACE / "README.md").read_text()
OTHERS: Final = "other-plugins.md"
"""The page of another form: findings in plugins of other projects, a table for each plugin."""
JUDGED: Final = (PLACE / OTHERS).read_text()
PAGES: Final = {
    path.name: path.read_text() for path in sorted(PLACE.glob("*.md")) if path.name not in {"README.md", OTHERS}
}
EXPLAINED: Final = ("bridge", "ptp", "macvlan", "host-device", "host-local")
"""The plugins of the reference whose findings all have a page."""
HEADINGS: Final = ["The sentence", "The transcript", "The cause", "A suggestion", "Reproduce"]
LEVELS: Final = ["MUST", "SHOULD", "MAY", "CONVENTION"]
"""The strictest first."""
Demands = Mapping[str, tuple[Level, Sequence[Sentence]]]
OF_PLUGINS: Final[Demands] = {check.id: (check.level, check.enforced) for check in all_checks()}
OF_RUNTIMES: Final[Demands] = {check.id: (check.level, check.enforced) for check in runtime_checks()}
JUDGEMENTS: Final = ("right", "by the letter", "doubtful", "wrong")
JUDGED_ROW: Final = re.compile(r"^\| `([a-z0-9-]+)` \| ([A-Z]+)(, warning)? \| (.+) \| (.+?): .+ \|$", re.MULTILINE)
LOCAL: Final = r"cni-harness/nodes|/tmp/tmp|netns/conformance-|[0-9a-f]{64}"
ROW: Final = re.compile(r"^\| ([^|`]+) \| (MUST|SHOULD|MAY|CONVENTION) \| (`[^|]+`) \|$", re.MULTILINE)

each_page = pytest.mark.parametrize("name", PAGES)


def rows(name: str) -> dict[str, tuple[str, list[str]]]:
    """Return the level and the checks of each plugin, or runtime, of a page."""
    found = ROW.findall(PAGES[name])
    assert found, f"{name} has no table of plugins"
    return {plugin: (level, re.findall("`([^`]+)`", cell)) for plugin, level, cell in found}


def demands(name: str) -> Demands:
    """Return the catalogue of a page: that of plugins, or that of runtimes."""
    return OF_RUNTIMES if "cni-harness conformance runtime" in section(name, "Reproduce") else OF_PLUGINS


def strictest(levels: Iterable[str]) -> str:
    return min(levels, key=LEVELS.index)


def section(name: str, heading: str) -> str:
    """Return the text below a heading."""
    return PAGES[name].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def title(name: str) -> str:
    return PAGES[name].partition("\n")[0].removeprefix("# ")


def types(path: Path) -> set[str]:
    """Return the plugins of a network list, and those that they delegate to."""
    plugins = read_network_file(path).plugins
    return {plugin.type for plugin in plugins} | {plugin.delegate for plugin in plugins if plugin.delegate}


def lists(words: str) -> list[Path]:
    return [ROOT / word for word in words.split() if word.endswith(".conflist")]


@pytest.mark.parametrize("project", ["debian", "reference-head"])
def test_each_finding_of_the_report_is_explained(project: str) -> None:
    report = read_reports(FOLDER)[project]
    examined = [plugin for plugin in report["plugins"] if plugin["plugin"] in EXPLAINED]
    found = {(plugin["plugin"], told["check"]) for plugin in examined for told in plugin["told"]}
    explained = {(plugin, check) for name in PAGES for plugin, (_, named) in rows(name).items() for check in named}

    named = {type for path in lists(report["command"]) for type in types(path)}
    assert {plugin["plugin"] for plugin in examined} == named & set(EXPLAINED)
    assert len(found) > 50
    assert sorted(found - explained) == [], "write a page in docs/findings, or name the check in one"


def test_matrix_covers_each_explained_plugin() -> None:
    [named] = re.findall(
        r"^MATRIX_LISTS .*addsuffix \.conflist,([^)]*)\)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    paths = [ROOT / "tests" / "conformance" / "networks" / f"{name}.conflist" for name in named.split()]

    assert set(EXPLAINED) <= {type for path in paths for type in types(path)}


@each_page
def test_a_page_has_the_five_parts(name: str) -> None:
    assert re.findall(r"^## (.*)", PAGES[name], re.MULTILINE) == HEADINGS
    assert [heading for heading in HEADINGS if not section(name, heading).strip()] == []
    assert "```text\n" in section(name, "The transcript")
    assert re.findall(r"\.go:\d+", section(name, "The cause")) != []


@each_page
def test_a_page_names_checks_that_exist_with_their_level(name: str) -> None:
    for level, named in rows(name).values():
        assert [check for check in named if check not in demands(name)] == []
        assert level == strictest(demands(name)[check][0] for check in named)


@each_page
def test_a_page_quotes_sentences_that_its_checks_enforce(name: str) -> None:
    found = re.findall(r"^> .*(?:\n> .*)*", section(name, "The sentence"), re.MULTILINE)
    quoted = {" ".join(quote.replace("\n> ", " ").removeprefix("> ").split()) for quote in found}
    named = {check for _, named in rows(name).values() for check in named}
    enforced = {" ".join(sentence.text.split()) for check in named for sentence in demands(name)[check][1]}

    assert quoted != set()
    assert quoted <= enforced


@each_page
def test_a_page_has_a_command_that_reproduces_it(name: str) -> None:
    [command] = re.findall(r"```sh\n(.*?)```", section(name, "Reproduce").replace("\\\n", ""), re.DOTALL)
    words = shlex.split(command)
    options = dict(pairwise(words))

    assert words[:2] == ["cni-harness", "conformance"]
    assert options["--check"] in {check for _, named in rows(name).values() for check in named}
    for option in {"--conf", "--prepare"} & options.keys():
        assert (ROOT / options[option]).is_file()
    if "--plugin" in options:
        assert options["--check"] in rows(name)[options["--plugin"]][1]
        assert options["--plugin"] in types(ROOT / options["--conf"])


@each_page
def test_page_has_no_local_paths_or_ids(name: str) -> None:
    assert re.findall(LOCAL, PAGES[name]) == []


def test_the_index_has_each_page_with_its_level_and_plugins() -> None:
    entries = re.findall(r"^\| \[(.+)\]\((.+)\) \| (\w+) \| ([^|]+) \| [^|]+ \|$", INDEX, re.MULTILINE)
    wanted = {
        name: (title(name), strictest(level for level, _ in found.values()), ", ".join(found))
        for name in PAGES
        if (found := rows(name))
    }

    assert {name: (text, level, plugins) for text, name, level, plugins in entries} == wanted
    assert len(entries) == len(wanted)


def test_the_site_has_each_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()

    assert [name for name in ["README.md", OTHERS, *PAGES] if f"findings/{name}" not in navigation] == []
    assert f"]({OTHERS})" in INDEX


def judged_plugins() -> dict[str, list[tuple[str, str, str, str, str]]]:
    """Return the rows of each section of the page about other projects that has any.

    A row is a check, its level, whether it is only a warning, the cause and the judgement.
    """
    sections = re.split(r"^## ", JUDGED, flags=re.MULTILINE)[1:]
    return {each.partition("\n")[0]: rows for each in sections if (rows := JUDGED_ROW.findall(each))}


def test_each_judged_finding_is_of_a_check_that_exists_and_has_one_judgement() -> None:
    for found in judged_plugins().values():
        named = [check for check, *_ in found]
        assert len(named) == len(set(named))
        for check, level, _, cause, judgement in found:
            assert LEVELS.index(level) >= LEVELS.index(OF_PLUGINS[check][0]), "earlier versions demand no more"
            assert judgement in JUDGEMENTS
            assert [cause for cause in re.findall(r"[Aa]s `([a-z-]+)`", cause) if cause not in named] == []


def test_the_summary_counts_the_judged_findings() -> None:
    lines = re.findall(r"^\| \[([\w-]+)\]\(#[\w-]+\) \| .+? \|((?: \d+ \|){6})$", JUDGED, re.MULTILINE)
    told = {plugin: [int(number) for number in re.findall(r"\d+", numbers)] for plugin, numbers in lines}
    found = {
        plugin: [
            len(rows),
            len([warning for _, _, warning, _, _ in rows if not warning]),
            *([row[4] for row in rows].count(each) for each in JUDGEMENTS),
        ]
        for plugin, rows in judged_plugins().items()
    }

    assert told == found


def test_the_page_about_other_projects_has_no_local_paths() -> None:
    assert re.findall(LOCAL, JUDGED) == []
