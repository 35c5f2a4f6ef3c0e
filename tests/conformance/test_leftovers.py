"""Content of files is a leftover if it names a container, and otherwise a hint."""

import pytest

from harness.conformance.engine.node_state import leftovers
from harness.snapshot import Snapshot

GONE, OTHER = "c0ffee", "decade"


def holding(text: str) -> Snapshot:
    return Snapshot({"files": {"/var/lib/cni/all": {"kind": "file", "mode": "0600", "text": text}}})


@pytest.mark.parametrize(
    ("before", "after", "is_left"),
    [
        ("", f"10.0.0.1 {GONE}\n", True),
        (f"10.0.0.1 {OTHER}\n", f"10.0.0.1 {OTHER}\n10.0.0.2 {GONE}\n", True),
        (f"{GONE} eth0\n", f"{GONE} eth0\n{GONE} net1\n", True),
        (f"{OTHER} eth0\n", "", True),
        (f"{OTHER} eth0\nlast 1\n", f"last 2\n{OTHER} eth0\n", False),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_changed_file_is_a_leftover_if_it_gains_or_loses_a_container(before: str, after: str, *, is_left: bool) -> None:
    left = leftovers(holding(before), holding(after), [GONE, OTHER])

    assert [each.name for each in left] == (["/var/lib/cni/all"] if is_left else [])


def test_new_file_of_any_content_is_a_leftover() -> None:
    [left] = leftovers(Snapshot({"files": {}}), holding("1"), [GONE])

    assert (left.kind, left.name) == ("appeared", "/var/lib/cni/all")


@pytest.mark.parametrize(
    ("rule", "is_left"),
    [
        ("inet 1000: from all l3mdev", False),
        ("inet6 1000: from all l3mdev", False),
        ("inet 999: from all l3mdev", True),
    ],
)
def test_the_kernel_keeps_its_rules_for_vrfs(rule: str, *, is_left: bool) -> None:
    there: dict[str, dict[str, object]] = {"pod/namespace": {"/run/netns/pod": {"state": "there"}}}
    pod = {"pod": "/run/netns/pod"}
    none, one = (
        Snapshot({**there, "pod/rules": {}}, namespaces=pod),
        Snapshot({**there, "pod/rules": {rule: {}}}, namespaces=pod),
    )

    assert [each.name for each in leftovers(none, one, [GONE])] == ([rule] if is_left else [])
    assert len(leftovers(one, none, [GONE])) == 1
