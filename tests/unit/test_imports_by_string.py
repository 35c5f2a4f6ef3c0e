"""An import by string counts as an import: each one is listed here, with its reason and the rooms that it reaches.

import-linter reads import statements alone. It once missed a circle of rooms that a string closed.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from launch import DAEMONS, PLUGINS
from launch.installation import PACKAGES
from tests.cli import ROOT

ROOMS = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "tools"}
MAY_IMPORT = {
    "cni_harness_pytest": {"cni_harness_pytest", "harness"},
    "harness": {"harness", "api", "launch", "skel", "netlink", "fast_stdlib", "conf"},
    "launch": {"launch", "plugins", "ipam", "firewall", "netlink", "skel", "fast_stdlib"},
    "plugins": {"plugins", "firewall", "netlink", "skel", "fast_stdlib"},
    "ipam": {"ipam", "netlink", "skel", "fast_stdlib"},
    "firewall": {"firewall", "netlink", "skel", "fast_stdlib"},
    "netlink": {"netlink", "fast_stdlib"},
    "skel": {"skel", "fast_stdlib"},
    "fast_stdlib": {"fast_stdlib"},
    "conf": set(),
    "api": {"api"},
    "kube": {"kube", "api"},
    "agent": {"agent", "api", "kube", "netlink", "firewall", "skel", "fast_stdlib", "conf"},
}
"""The table of docs/design.md. A room's plugins are loaded by `launch.plugin_list` alone."""

IMPORTERS = {
    "launch/plugin_list.py": "the launcher knows a plugin by the name of its file; the one module that loads plugins",
    "harness/cli/command_line.py": "a verb loads its own module alone, so that each starts fast",
    "harness/conformance/catalogue.py": "checks register themselves when their modules are imported",
    "netlink/bridge_ports.py": "pyroute2's modules by their names, without the package's slow start",
}
"""Modules that import by string, and why."""

PROGRAMS = {
    "launch/launcher.py": "the program in a launcher, which an interpreter without our path executes",
    "launch/installation.py": "the program of a unit of systemd, likewise",
    "harness/containerd/processes.py": "the shim of a container and its helper, which load no site-packages",
    "cni_harness_pytest/declaration.py": "the process that answers pytest, which the author's folders must not reach",
}
"""Modules with Python in strings, and why."""

SPANS = "ipam.Exec"
"""Names of spans, after the functions of containernetworking/plugins' package ipam, not ours."""

_IMPORTING = {"__import__", "import_module", "exec", "eval", "run_module", "run_path", "resolve_name", "walk_packages"}
_BUILT_IN = {"exec", "eval"}
_LOADING = {"load_module", "module_from_spec"}
_STATEMENT = re.compile(r"(?:^|;)\s*(?:from|import) (\w+)", re.MULTILINE)
_DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+(?::\w+)?|[a-z_]\w*:[A-Z]\w*")


class Found(NamedTuple):
    """What a source does by string."""

    importing: set[str]
    """Names of the functions that import or execute."""
    modules: set[str]
    """Modules of ours that strings name."""
    programs: set[str]
    """Packages that Python in strings imports; `*` is any."""


def read(source: str) -> Found:
    tree = ast.parse(source)
    documentation = set(_documentation(tree))
    found = Found(set(), set(), set())
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
        # As an attribute, `exec` is a call of CRI, or a key of a manifest.
        is_other = name in _BUILT_IN and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and name in _IMPORTING | _LOADING and not is_other:
            found.importing.add(str(name))
        text = _text(node)
        if not text or id(node) in documentation or text.startswith(SPANS):
            continue
        if _DOTTED.fullmatch(text) and (module := _module(text.partition(":")[0])):
            found.modules.add(module)
        found.programs.update(name for name in _STATEMENT.findall(text) if name in ROOMS or name == "_")
    return found


def _documentation(tree: ast.AST) -> Iterator[int]:
    """Strings that stand alone, and the pieces of f-strings, which count as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield id(node.value)
        if isinstance(node, ast.JoinedStr):
            yield from map(id, node.values)


def _text(node: ast.AST) -> str:
    """The text of a string; in an f-string, `_` stands for each expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "_" for part in node.values)
    return ""


def _module(name: str) -> str:
    """The part of a dotted name that is a package or module of a room; of one that is put together, the package."""
    parts = name.split(".")
    while len(parts) > 1 or (parts and parts[0] in ROOMS):
        path = ROOT.joinpath(*parts)
        if parts[0] in ROOMS and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()):
            return ".".join(parts)
        if parts[-1] != "_" and not parts[-1][:1].isupper():
            return ""
        parts.pop()
    return ""


def sources() -> Iterator[str]:
    for room in sorted(ROOMS):
        yield from (str(path.relative_to(ROOT)) for path in sorted((ROOT / room).rglob("*.py")))


@pytest.fixture(scope="module")
def everything() -> dict[str, Found]:
    return {path: read((ROOT / path).read_text()) for path in sources()}


@pytest.mark.slow("it reads all code; single imports by string are found in make test")
def test_only_listed_modules_import_by_string(everything: dict[str, Found]) -> None:
    assert {path for path, found in everything.items() if found.importing} == set(IMPORTERS)


def test_only_listed_modules_have_programs_in_strings(everything: dict[str, Found]) -> None:
    assert {path for path, found in everything.items() if found.programs} == set(PROGRAMS)


def test_only_the_plugin_list_names_plugins(everything: dict[str, Found]) -> None:
    naming = {
        path: named
        for path, found in everything.items()
        if (named := {module for module in found.modules if module.partition(".")[0] in {"plugins", "ipam"}})
        and not path.startswith(("plugins/", "ipam/"))  # "ipam.ranges" is a key, too
    }

    assert naming == {"launch/__init__.py": {*PLUGINS.values(), *DAEMONS.values()}}


def test_rooms_name_only_modules_that_they_may_import(everything: dict[str, Found]) -> None:
    wrong = {
        (path, room)
        for path, found in everything.items()
        for room in {module.partition(".")[0] for module in found.modules} | found.programs - {"_"}
        if room not in MAY_IMPORT[path.partition("/")[0]]
    }

    assert wrong == set()


def test_the_installation_has_all_rooms_that_a_plugin_may_import() -> None:
    """A room that is missing is in no build ID: an upgrade of it alone would go unnoticed."""
    reached = set().union(*(MAY_IMPORT[room] for room in ("launch", "plugins", "ipam")))

    assert set(PACKAGES) == reached


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import importlib\nimportlib.import_module('skel')", Found({"import_module"}, set(), set())),
        ("from importlib import import_module as load", Found({"import_module"}, set(), set())),
        ("__import__('os')", Found({"__import__"}, set(), set())),
        ("target = 'plugins.bridge:PLUGIN'", Found(set(), {"plugins.bridge"}, set())),
        ("target = f'plugins.{name}'", Found(set(), {"plugins"}, set())),
        ("program = f'import sys; from {module} import main'", Found(set(), set(), {"_"})),
        ("program = 'import plugins.bridge'", Found(set(), set(), {"plugins"})),
        ('"""Like plugins.bridge."""', Found(set(), set(), set())),
        ("words = 'taken from plugins of others'", Found(set(), set(), set())),
    ],
)
def test_the_search_finds_each_way(source: str, expected: Found) -> None:
    assert read(source) == expected
