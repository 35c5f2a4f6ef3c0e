"""Each kind of step of a trace has a sentence and a page: the names are read from the sources."""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from harness.cri.service import ImageService, RuntimeService
from harness.cri.traced import _CHANGING
from harness.kubelet.sync.pod_workers import _STEPS
from harness.views.step_meanings import _PAGES, _TABLE, meaning_of
from skel.dispatch import _FUNCTIONS
from tests.cli import ROOT

_ROOMS: Final = ("harness", "plugins", "ipam", "firewall", "netlink", "skel", "launch")
_DYNAMIC: Final = {
    "harness/cri/traced.py": [
        "".join(word.capitalize() for word in method.split("_"))
        for service in (RuntimeService, ImageService)
        for method in vars(service)
        if method.startswith(_CHANGING)
    ],
    "harness/kubelet/sync/pod_workers.py": [*_STEPS.values()],
    "harness/libcni/execute.py": ["ExecPluginWithResult", "ExecPluginWithoutResult"],
    "harness/libcni/operations.py": [f"{verb}Network" for verb in ("add", "del", "check")],
    "harness/libcni/repair.py": ["repairNetwork", "checkNetwork"],
    "harness/views/trace_formats.py": ["cni-harness add", "cni-harness run"],
    "firewall/iptables_program.py": ["iptables-restore", "ip6tables-save", "iptables"],
    "netlink/spans.py": ["netlink RTM_NEWLINK", "netlink type 77", "nftables commit", "nftables look-up"],
    "skel/delegate.py": [f"ipam.Exec{verb}" for verb in ("Add", "Del", "Check", "Status", "GC")],
    "skel/dispatch.py": [*_FUNCTIONS.values()],
}
"""The names of spans by the files that do not name them in whole."""


def spans() -> Iterator[tuple[str, str]]:
    """Yield file and name of each span in the sources; the name is empty if it is no constant."""
    for room in _ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            text = file.read_text()
            for node in ast.walk(ast.parse(text)) if "span(" in text else ():
                if not (isinstance(node, ast.Call) and node.args):
                    continue
                function = node.func
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if called == "span":
                    name = node.args[0]
                    value = name.value if isinstance(name, ast.Constant) else ""
                    yield str(file.relative_to(ROOT)), str(value)


def test_each_step_in_the_sources_has_a_meaning() -> None:
    found = list(spans())
    assert len(found) > 40
    names = {name for _, name in found if name} | {name for names in _DYNAMIC.values() for name in names}

    assert [name for name in sorted(names) if meaning_of(name) is None] == []
    assert {file for file, name in found if not name} == _DYNAMIC.keys(), "their names are listed in this test"


def test_no_row_is_left_over() -> None:
    names = {name for _, name in spans()} | {name for names in _DYNAMIC.values() for name in names}
    told = {meaning_of(name) for name in names}

    others = {"ip6tables", "repairNetwork"}
    assert [name for name in _TABLE if name not in others and meaning_of(name) not in told] == []
    assert _PAGES.keys() == {page for _, page in _TABLE.values()}


@pytest.mark.parametrize("name", _TABLE)
def test_a_meaning_is_one_sentence_and_a_page(name: str) -> None:
    meaning = meaning_of(name)

    assert meaning is not None
    assert meaning.sentence.endswith(".")
    assert meaning.sentence[:-1].count(". ") == 0
    assert len(meaning.sentence) <= 100
    assert meaning.address.startswith("https://")
    assert meaning.title


def test_sentences_differ() -> None:
    assert len({sentence for sentence, _ in _TABLE.values()}) == len(_TABLE)


@pytest.mark.parametrize("name", ["", "paint the fence", "ADD", "netlinks", "cmd"])
def test_an_unknown_step_has_no_meaning(name: str) -> None:
    assert meaning_of(name) is None
