"""nftables' JSON in words, each as nft 1.0.6 printed it."""

import pytest

from harness.snapshot.nft_syntax import element_key, rule_syntax


def payload(protocol: str, field: str) -> dict[str, object]:
    return {"payload": {"protocol": protocol, "field": field}}


def match(left: object, right: object, op: str = "==") -> dict[str, object]:
    return {"match": {"op": op, "left": left, "right": right}}


@pytest.mark.parametrize(
    ("expressions", "words"),
    [
        (
            [match({"ct": {"key": "state"}}, ["established", "related"], "in"), {"accept": None}],
            "ct state established,related accept",
        ),
        (
            [
                match(payload("ip", "saddr"), "@s"),
                match(payload("tcp", "dport"), {"set": [22, {"range": [80, 90]}]}),
                {"counter": {"packets": 3, "bytes": 200}},
                {"drop": None},
            ],
            "ip saddr @s tcp dport { 22, 80-90 } drop",
        ),
        (
            [{"vmap": {"key": {"concat": [payload("ip", "saddr"), {"meta": {"key": "iifname"}}]}, "data": "@m"}}],
            "ip saddr . iifname vmap @m",
        ),
        ([{"snat": {"family": "ip", "addr": "10.0.0.1", "port": {"range": [80, 90]}}}], "snat ip to 10.0.0.1:80-90"),
        (
            [{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"meta": {"key": "mark"}}, 16384]}}}],
            "meta mark set meta mark | 16384",
        ),
        (
            [
                match(payload("ip", "daddr"), {"prefix": {"addr": "224.0.0.0", "len": 4}}, "!="),
                {"masquerade": {"flags": ["random", "persistent"]}},
            ],
            "ip daddr != 224.0.0.0/4 masquerade random,persistent",
        ),
        (
            [{"limit": {"rate": 5, "burst": 5, "per": "second"}}, {"log": {"prefix": "a"}}],
            "limit rate 5/second burst 5 log prefix a",
        ),
        ([{"counter": "passed"}, {"jump": {"target": "x"}}], "counter name passed jump x"),
        ([{"xt": {"type": "match", "name": "comment"}}], "xt type match name comment"),
        ([{"masquerade": None}], "masquerade"),
        ([match(payload("tcp", "flags"), "syn", "in")], "tcp flags syn"),
        ([match(payload("tcp", "flags"), "syn")], "tcp flags == syn"),
        (
            [match({"&": [payload("tcp", "flags"), ["syn", "ack"]]}, "syn"), {"accept": None}],
            "tcp flags & syn,ack == syn accept",
        ),
        ([{"of another day": [1, {"a": "b"}]}], 'of another day [1, {"a": "b"}]'),
    ],
)
def test_rules(expressions: list[object], words: str) -> None:
    assert rule_syntax({"expr": expressions}) == words


def test_a_comment_is_part_of_a_rule() -> None:
    assert rule_syntax({"expr": [{"accept": None}], "comment": "pod1", "handle": 7}) == 'accept comment "pod1"'


@pytest.mark.parametrize(
    ("element", "key", "beside"),
    [
        ("10.1.0.2", "10.1.0.2", {}),
        ({"range": ["10.1.2.3", "10.1.2.9"]}, "10.1.2.3-10.1.2.9", {}),
        (
            {"elem": {"val": {"concat": ["10.0.0.1", "a"]}, "comment": "x", "counter": {"packets": 1, "bytes": 2}}},
            "10.0.0.1 . a",
            {"comment": "x"},
        ),
    ],
)
def test_elements(element: object, key: str, beside: dict[str, object]) -> None:
    assert element_key(element) == (key, beside)
