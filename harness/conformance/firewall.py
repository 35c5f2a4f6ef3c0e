"""Changes of ADD in the firewall (nftables, and so iptables-nft), found so that a check can remove them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from harness.conformance.circumstances import command
from harness.conformance.finding import NotApplicableError
from harness.conformance.trial import Trial

Ruleset: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Tables, rules and elements of sets and maps: each has a unique name, and the object that would delete it."""


def ruleset(trial: Trial) -> Ruleset:
    """Return the content of the node's firewall. Raises NotApplicableError if nft(8) fails."""
    if shutil.which("nft") is None:
        raise NotApplicableError("nft is not installed, and so no rule can be removed")
    listed = command(trial, trial.node_netns, "nft", "--json", "list", "ruleset")
    if listed.returncode != 0:
        raise NotApplicableError(f"nft: {listed.stderr.strip()}")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in json.loads(listed.stdout)["nftables"]:
        for kind, body in entry.items():
            for each in _deletable(kind, body):
                found[json.dumps(each, sort_keys=True)] = each
    return found


def added(before: Ruleset, after: Ruleset) -> list[Mapping[str, Any]]:
    """Return the additions; a new table stands for everything in it."""
    come = [after[name] for name in after if name not in before]
    tables = {_place(each["table"]) for each in come if "table" in each}
    return [each for each in come if "table" in each or _table_of(each) not in tables]


def remove(trial: Trial, things: list[Mapping[str, Any]]) -> None:
    """Remove them, all at once. Raises NotApplicableError if nft(8) fails."""
    commands = json.dumps({"nftables": [{"delete": each} for each in things]})
    done = command(trial, trial.node_netns, "nft", "--json", "--file", "-", stdin=commands)
    if done.returncode != 0:
        raise NotApplicableError(f"nft cannot remove what ADD made: {done.stderr.strip()}")


def _deletable(kind: str, body: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 -- JSON of any shape
    if kind == "table":
        yield {"table": {key: body[key] for key in ("family", "name")}}
    elif kind == "rule":
        yield {"rule": {key: body[key] for key in ("family", "table", "chain", "handle")}}
    elif kind in {"set", "map"}:
        place = {key: body[key] for key in ("family", "table", "name")}
        for element in body.get("elem", []):
            yield {"element": {**place, "elem": [_bare(element)]}}


def _bare(element: Any) -> Any:  # noqa: ANN401 -- JSON of any shape
    """Take counters, comments and times off an element."""
    if isinstance(element, list) and len(element) == 2:  # noqa: PLR2004 -- of a map: a key and a value
        return [_bare(element[0]), element[1]]
    return element["elem"]["val"] if isinstance(element, dict) and "elem" in element else element


def _place(table: Mapping[str, Any]) -> tuple[str, str]:
    return table["family"], table["name"]


def _table_of(thing: Mapping[str, Any]) -> tuple[str, str]:
    [body] = thing.values()
    return body["family"], body["table"]
