"""Plugins that note where `cni-harness conformance` executes them, and what remains of the nodes there."""

import re
from pathlib import Path
from typing import Any

from tests.cli import Cli, bridge_network


def noting(cli: Cli, folder: Path) -> Cli:
    """Give it a bridge network and a bridge plugin that notes in `folder`/places where it is to work."""
    cli.configure(bridge_network("net"))
    shadow(cli, folder, "bridge", "")
    return cli


def shadow(cli: Cli, folder: Path, name: str, script: str) -> None:
    """Put a plugin before the sound one of the same name, which it ends in executing."""
    sound = next(Path(each, name) for each in reversed(cli.environment["CNI_PATH"].split(":")))
    cli.plugin(name, f'echo "$CNI_NETNS" >> {folder}/places\n{script}\nexec {sound}\n')


def made_places(folder: Path) -> set[Path]:
    """The network namespaces that the plugin was to work on, which the suite made."""
    lines = set((folder / "places").read_text().split())
    return {Path(line) for line in lines if re.fullmatch(r"/run/netns/conformance-[0-9a-f]{8}-\d+", line)}


def assert_nothing_left(cli: Cli, folder: Path) -> None:
    """Demand that nothing is left of the nodes that the plugin was to work on, of which there were some."""
    places = made_places(folder)
    assert places
    runs = {place.name.rpartition("-")[0] for place in places}
    assert [path for path in Path("/run/netns").iterdir() if path.name.rpartition("-")[0] in runs] == []
    assert list(cli.state_dir.glob("nodes/*")) == []


def outcomes(document: dict[str, Any]) -> dict[tuple[str, str], str]:
    """The outcomes in a document, by plugin and ID of the check."""
    return {(each["plugin"], each["id"]): each["outcome"] for each in document["checks"]}
