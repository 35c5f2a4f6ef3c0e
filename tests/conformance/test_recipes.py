"""The recipes of docs/conformance-recipes.md that say "Run": their files and commands, as they stand, on few checks."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli import ROOT, Cli

pytestmark = [pytest.mark.sudo, pytest.mark.slow("runs of the suite; its verbs are in make test")]

PAGE = (ROOT / "docs/conformance-recipes.md").read_text()
FEW = ("add-prints-result", "del-twice", "version-result")


class Recipe(NamedTuple):
    """A section: its code by language, in order."""

    blocks: dict[str, list[str]]

    @classmethod
    def read(cls, title: str) -> "Recipe":
        section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        blocks: dict[str, list[str]] = {}
        for language, text in re.findall(r"```(\w+)\n(.*?)```\n", section, re.DOTALL):
            blocks.setdefault(language, []).append(text)
        return cls(blocks)

    def command(self) -> list[str]:
        [line] = [line for text in self.blocks["sh"] for line in text.splitlines() if line.startswith("cni-harness ")]
        return shlex.split(line)[1:]


def outcomes(cli: Cli, folder: Path, command: Sequence[str], checks: Sequence[str] = FEW) -> dict[str, str]:
    placed = [str(folder / word) if (folder / word).is_file() else word for word in command]
    chosen = [word for name in checks for word in ("--check", name)]
    run = cli.run(*placed, *chosen, "-o", "json", check=False)
    return {each["id"]: each["outcome"] for each in json.loads(run.stdout)["checks"]}


def test_plugin_with_a_daemon(make_cli: Callable[[Path], Cli], tmp_path: Path) -> None:
    recipe = Recipe.read("A plugin that needs its daemon, or an API object")
    prepare = tmp_path / "prepare.sh"
    prepare.write_text(recipe.blocks["sh"][0])
    prepare.chmod(0o755)
    (tmp_path / "leased.conflist").write_text(recipe.blocks["json"][0])

    found = outcomes(make_cli(tmp_path), tmp_path, recipe.command())

    assert (found["add-prints-result"], found["del-twice"]) == ("pass", "pass")


def test_chained_plugin(make_cli: Callable[[Path], Cli], tmp_path: Path) -> None:
    recipe = Recipe.read("A plugin that is chained only")
    (tmp_path / "chain.conflist").write_text(recipe.blocks["json"][0])

    found = outcomes(make_cli(tmp_path), tmp_path, recipe.command())

    assert (found["add-prints-result"], found["del-twice"]) == ("pass", "pass")
