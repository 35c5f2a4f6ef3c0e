"""Snapshots compared: the lines, their order, and the parts that are left out."""

import json
from typing import Any

import pytest

from harness.snapshot import Difference, Snapshot, SnapshotError, differences

LINK = {"kind": "veth", "mtu": 1500, "flags": ["UP"], "mac": "02:00:00:00:00:01"}


def snapshot(label: str = "node", *, missing: tuple[str, ...] = (), **sections: dict[str, Any]) -> Snapshot:
    """A snapshot of one namespace that is there."""
    path = f"/run/netns/{label}"
    named: dict[str, dict[str, Any]] = {f"{label}/namespace": {path: {"state": "there"}}}
    for what, things in sections.items():
        named["files" if what == "files" else f"{label}/{what.replace('_', ' ')}"] = things
    return Snapshot(named, missing, {label: path})


def words(before: Snapshot, after: Snapshot, *ignore: str) -> list[str]:
    return [difference.in_words() for difference in differences(before, after, ignore=ignore)]


def test_links_come_first_and_files_last() -> None:
    before = snapshot(files={}, sysctls={"net.ipv4.ip_forward": "0"}, routes={}, links={})
    after = snapshot(
        files={"/a": {"kind": "folder", "mode": "0755"}},
        sysctls={"net.ipv4.ip_forward": "1"},
        routes={"default via 10.1.0.1 dev eth0": {"protocol": "boot"}},
        links={"veth12ab": {**LINK, "port of": "cni0"}},
    )

    assert words(before, after) == [
        "+ node: link veth12ab (veth, port of cni0, up, mtu 1500, mac 02:00:00:00:00:01)",
        "+ node: route default via 10.1.0.1 dev eth0",
        "~ node: sysctl net.ipv4.ip_forward: 0 -> 1",
        "+ files: file /a (folder, mode 0755)",
    ]


def test_a_difference_is_a_record() -> None:
    before, after = snapshot(sysctls={"net.a": "0"}), snapshot(sysctls={"net.a": "1"})

    assert differences(before, after) == [Difference("changed", "node", "sysctl", "net.a", "0", "1")]
    assert differences(before, after)[0].to_document() == {
        "kind": "changed",
        "place": "node",
        "thing": "sysctl",
        "name": "net.a",
        "before": "0",
        "after": "1",
        "words": "~ node: sysctl net.a: 0 -> 1",
    }


@pytest.mark.parametrize(
    ("pattern", "left"),
    [("node/sysctl/net.*", 1), ("files/*", 1), ("*/file/*/lock", 1), ("*", 0), ("pod/*", 2), ("sysctl", 2)],
)
def test_ignored_patterns_leave_out_lines(pattern: str, left: int) -> None:
    before = snapshot(files={}, sysctls={"net.a": "0"})
    after = snapshot(files={"/run/lock": {"kind": "file", "size": 0}}, sysctls={"net.a": "1"})

    assert len(words(before, after, pattern)) == left


def test_section_without_its_tool_is_not_compared() -> None:
    without = snapshot(missing=("tc is not installed",), links={})
    with_tool = snapshot(links={}, qdiscs={"tbf dev veth0 root": {}})

    assert words(without, with_tool) == words(with_tool, without) == []


def test_a_namespace_in_one_of_the_snapshots_only_is_one_line() -> None:
    pod = snapshot("pod1", links={"eth0": LINK, "lo": LINK}, addresses={"10.1.0.2/24 dev eth0": {}}, routes={})
    nothing = Snapshot({})

    assert words(nothing, pod) == ["+ pod1: namespace /run/netns/pod1 (links eth0, addresses 10.1.0.2/24 dev eth0)"]
    assert words(pod, nothing) == ["- pod1: namespace /run/netns/pod1 (links eth0, addresses 10.1.0.2/24 dev eth0)"]


def test_namespace_label_at_another_path_is_the_same_place() -> None:
    old = snapshot(links={"eth0": LINK})
    new = Snapshot(
        {**snapshot(links={"eth0": LINK}).sections, "node/namespace": {"/run/netns/new": {"state": "there"}}},
        namespaces={"node": "/run/netns/new"},
    )

    assert words(old, new) == []


def rules(*texts: str) -> Snapshot:
    return snapshot(nft_rules={"inet t c": list(texts)})


def test_equal_rules_are_counted() -> None:
    assert words(rules("a"), rules("a", "a")) == ["+ node: nft rule inet t c: a"]
    assert words(rules("a", "a", "b"), rules("b")) == ["- node: nft rule inet t c: a"] * 2


def test_a_rule_between_others_is_no_change_of_order() -> None:
    assert words(rules("a", "c"), rules("a", "b", "c")) == ["+ node: nft rule inet t c: b"]
    assert words(rules("a", "b", "c"), rules("c")) == [f"- node: nft rule inet t c: {text}" for text in "ab"]


def test_the_order_of_rules_counts() -> None:
    assert words(rules("a", "b"), rules("b", "a")) == ["~ node: nft rule inet t c: order: a + b -> b + a"]


def conf(default: str, **own: str) -> Snapshot:
    links = dict.fromkeys(("lo", "eth0"), LINK)
    by_link = {link: {"ipv4.conf.rp_filter": value} for link, value in own.items()}
    return snapshot(links=links, sysctls={"net.ipv4.conf.default.rp_filter": default}, link_sysctls=by_link)


def test_a_link_that_keeps_its_value_has_not_changed() -> None:
    default = "~ node: sysctl net.ipv4.conf.default.rp_filter: 0 -> 1"

    assert words(conf("0"), conf("1", eth0="0", lo="0")) == [default]
    assert words(conf("0"), conf("1")) == [default]
    assert words(conf("0"), conf("1", eth0="2")) == [default, "~ node: sysctl net.ipv4.conf.eth0.rp_filter: 0 -> 2"]
    assert words(conf("0", eth0="1"), conf("1")) == [default]


@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        ("net.ipv4.ip_forward", "net.ipv4.conf.default.forwarding"),
        ("net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6"),
    ],
)
def test_sysctls_that_follow_another_are_one_line(leader: str, follower: str) -> None:
    def both(one: str, other: str) -> Snapshot:
        return snapshot(sysctls={leader: one, follower: other})

    assert words(both("0", "0"), both("1", "1")) == [f"~ node: sysctl {leader}: 0 -> 1"]
    assert words(both("0", "0"), both("0", "1")) == [f"~ node: sysctl {follower}: 0 -> 1"]
    assert words(both("1", "0"), both("0", "1")) == [
        f"~ node: sysctl {name}: {change}" for name, change in sorted([(follower, "0 -> 1"), (leader, "1 -> 0")])
    ]


def test_json_both_ways() -> None:
    taken = snapshot(files={"/a": {"kind": "file"}}, links={"eth0": LINK}, missing=("tc is not installed",))

    assert Snapshot.from_document(json.loads(json.dumps(taken.to_document()))) == taken


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a snapshot"),
        ({}, "not a snapshot"),
        ({"format": 2}, "format 2: this program reads format 1"),
        ({**Snapshot({}).to_document(), "sections": {"node/links": []}}, "not a snapshot"),
        ({**Snapshot({}).to_document(), "missing": None}, "not a snapshot"),
        (
            {**Snapshot({}).to_document(), "namespaces": {"a/b": "/run/netns/a"}},
            "label 'a/b': wanted a name without '/'",
        ),
        ({**Snapshot({}).to_document(), "namespaces": {"files": "/run/netns/a"}}, "label 'files': wanted"),
        ({**Snapshot({}).to_document(), "namespaces": {"a": 1}}, "namespaces: wanted a path, not 1"),
        ({**Snapshot({}).to_document(), "folders": ["/a", None]}, "folders: wanted a path, not None"),
        ({**Snapshot({}).to_document(), "folders": ["/a\0b"]}, r"folders: wanted a path, not '/a\\x00b'"),
    ],
)
def test_invalid_snapshot_documents_are_refused(document: object, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        Snapshot.from_document(document)


@pytest.mark.parametrize("lines", [0, 1, 10])
def test_a_long_text_that_grows_by_a_line_is_shown_from_its_difference_on(lines: int) -> None:
    owners = "".join(f"{number:064}@eth0 10.1.0.{number}\n" for number in range(lines))
    texts = (f"{owners}last@eth0 10.1.1.1\n", f"{owners}last@eth0 10.1.1.1\nnew@eth0 10.1.1.2\n")
    before, after = (snapshot(files={"/run/.owners": {"kind": "file", "text": text}}) for text in texts)

    (line,) = words(before, after)

    old, new = line.removeprefix("~ files: file /run/.owners: text ").split(" -> ")
    assert old != new
    assert "new@eth0 10.1.1.2" in new
    assert "new@eth0" not in old
    assert len(line) < 300
