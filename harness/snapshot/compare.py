"""Differences between two snapshots, one for each thing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from harness.snapshot.descriptions import described_difference
from harness.snapshot.state import ELSEWHERE, FILES, Snapshot
from harness.snapshot.sysctls import baseline, parameter

Kind: TypeAlias = Literal["appeared", "disappeared", "changed"]

THINGS: Final = {
    "links": "link",
    "addresses": "address",
    "routes": "route",
    "rules": "rule",
    "neighbours": "neighbour",
    "fdb entries": "fdb entry",
    "vlans": "vlan",
    "qdiscs": "qdisc",
    "classes": "class",
    "filters": "filter",
    "nft tables": "nft table",
    "nft chains": "nft chain",
    "nft rules": "nft rule",
    "nft sets": "nft set",
    "nft elements": "nft element",
    "nft objects": "nft object",
    "iptables tables": "iptables table",
    "iptables chains": "iptables chain",
    "iptables rules": "iptables rule",
    "sysctls": "sysctl",
    "link sysctls": "sysctl",
}
"""The sections of a namespace, and the word for one thing of each; differences come in this order."""

_GIVEN_TO_ALL: Final = {
    "net.ipv4.conf.default.forwarding": "net.ipv4.ip_forward",
    "net.ipv6.conf.default.forwarding": "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.default.disable_ipv6": "net.ipv6.conf.all.disable_ipv6",
}
"""Parameters that the kernel sets to the same value when another is set; links follow too."""

_FORWARDING: Final = "net.ipv4.ip_forward"
_REDIRECTS: Final = "net.ipv4.conf.all.accept_redirects"
"""The kernel sets it to the opposite of `_FORWARDING` whenever that is set."""


@dataclass(frozen=True)
class Difference:
    """One thing that appeared, disappeared or changed.

    `place` is the namespace's label or "files"; `thing` its kind: "link", "nft rule", "sysctl"; `name` is its name.
    `before` and `after` are its values in the snapshots, None in a snapshot that does not have it.
    """

    kind: Kind
    place: str
    thing: str
    name: str
    before: object = None
    after: object = None

    def in_words(self) -> str:
        """Return it on one line: `+ node: link veth12ab (veth, port of cni0, up, mtu 1500)`."""
        return described_difference(self.place, self.thing, self.name, self.before, self.after)

    def to_document(self) -> dict[str, object]:
        """Return it as a JSON object, with the line of words."""
        return {**vars(self), "words": self.in_words()}


def differences(before: Snapshot, after: Snapshot, *, ignore: Sequence[str] = ()) -> list[Difference]:
    """Return the differences, namespace by namespace, links first and files last.

    `ignore` are patterns (fnmatch) of `place/thing/name`: "node/sysctl/*", "files/file/*/lock". A namespace that is
    in one of the snapshots only, or gone in one, is a single difference. A section that only one of them has, because a
    tool was missing, is not compared: see `Snapshot.missing`.
    """
    return [
        difference
        for difference in _all(before, after)
        if not any(
            fnmatchcase(f"{difference.place}/{difference.thing}/{difference.name}", pattern) for pattern in ignore
        )
    ]


def _all(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for label in dict.fromkeys([*before.namespaces, *after.namespaces]):
        was, has = (_is_there(snapshot, label) for snapshot in (before, after))
        if was and has:
            yield from _of_namespace(label, before, after)
        elif was or has:
            path = str((after if has else before).namespaces[label])
            old, new = (_contents(before, label) if was else None, _contents(after, label) if has else None)
            yield _difference(label, "namespace", path, old, new)
    yield from _of_things(FILES, "file", before.sections.get(FILES, {}), after.sections.get(FILES, {}))


def _is_there(snapshot: Snapshot, label: str) -> bool:
    path = snapshot.namespaces.get(label)
    return path is not None and snapshot.section(label, "namespace").get(path) == {"state": "there"}


def _contents(snapshot: Snapshot, label: str) -> dict[str, object]:
    found = {what: sorted(snapshot.section(label, what)) for what in ("links", "addresses", "routes")}
    return {what: [name for name in names if name.split()[-1] != "lo"] for what, names in found.items()}


def _of_namespace(label: str, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for what, thing in THINGS.items():
        if f"{label}/{what}" not in before.sections or f"{label}/{what}" not in after.sections:
            continue
        old, new = before.section(label, what), after.section(label, what)
        if what == "link sysctls":
            yield from _of_link_sysctls(label, before, after)
        elif what == "links":
            yield from _of_things(label, thing, *_with_known_peers(old, new))
        elif what == "sysctls":
            yield from (each for each in _of_things(label, thing, old, new) if not _follows(each.name, old, new))
        elif what in {"nft rules", "iptables rules"}:
            yield from _of_rules(label, thing, old, new)
        else:
            yield from _of_things(label, thing, old, new)


def _of_things(place: str, thing: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Difference]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield _difference(place, thing, name, old.get(name), new.get(name))


def _with_known_peers(old: Mapping[str, object], new: Mapping[str, object]) -> list[dict[str, object]]:
    """Return links without the places of peers that are outside of one of the snapshots."""
    in_both = old.keys() & new.keys()
    unknown = {name for name in in_both if ELSEWHERE in [_own(side[name]).get("peer") for side in (old, new)]}
    return [
        {
            name: {key: value for key, value in _own(link).items() if key != "peer"} if name in unknown else link
            for name, link in side.items()
        }
        for side in (old, new)
    ]


def _of_rules(place: str, thing: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Difference]:
    for chain in sorted(old.keys() | new.keys()):
        texts = _texts(old.get(chain)), _texts(new.get(chain))
        gone, come = Counter(texts[0]) - Counter(texts[1]), Counter(texts[1]) - Counter(texts[0])
        yield from (_difference(place, thing, f"{chain}: {text}", {}, None) for text in gone.elements())
        yield from (_difference(place, thing, f"{chain}: {text}", None, {}) for text in come.elements())
        stayed = [_without(side, extra) for side, extra in zip(texts, (gone, come), strict=True)]
        if stayed[0] != stayed[1]:
            yield Difference("changed", place, thing, f"{chain}: order", stayed[0], stayed[1])


def _texts(rules: object) -> list[str]:
    return [str(rule) for rule in rules] if isinstance(rules, list) else []


def _without(texts: Sequence[str], extra: Counter[str]) -> list[str]:
    left, kept = Counter(extra), []
    for text in reversed(texts):
        if left[text] > 0:
            left[text] -= 1
        else:
            kept.append(text)
    return kept[::-1]


def _follows(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    if name == _REDIRECTS and old.get(_FORWARDING) != new.get(_FORWARDING):
        return {new.get(name), new.get(_FORWARDING)} == {"0", "1"}
    leader = _GIVEN_TO_ALL.get(name)
    return (
        leader is not None
        and old.get(leader) != new.get(leader)
        and (old.get(leader), new.get(leader)) == (old.get(name), new.get(name))
    )


def _of_link_sysctls(place: str, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    """Compare parameters of links by their values; a snapshot has only those that differ from a new link's."""
    sides = [
        (snapshot.section(place, "link sysctls"), snapshot.section(place, "sysctls"), snapshot.section(place, "links"))
        for snapshot in (before, after)
    ]
    for link in sorted(sides[0][0].keys() | sides[1][0].keys()):
        own = [_own(things.get(link)) for things, _, _ in sides]
        in_both = all(link in links for _, _, links in sides)
        for name in sorted(own[0].keys() | own[1].keys()):
            old, new = (
                values.get(name, baseline(name, defaults) if in_both else None)
                for values, (_, defaults, _) in zip(own, sides, strict=True)
            )
            if old != new:
                yield _difference(place, "sysctl", parameter(link, name), old, new)


def _own(values: object) -> dict[str, object]:
    return values if isinstance(values, dict) else {}


def _difference(place: str, thing: str, name: str, old: object, new: object) -> Difference:
    kind: Kind = "appeared" if old is None else "disappeared" if new is None else "changed"
    return Difference(kind, place, thing, name, old, new)
