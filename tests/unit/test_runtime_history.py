"""The judgement of runtimes on records that were written by hand: orders, overlaps, unfinished calls."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.conformance.finding import Outcome
from harness.conformance.runtime_checks.catalogue import RuntimeFinding, judge, runtime_checks
from harness.conformance.runtime_checks.networks import NETWORKS, from_document
from harness.conformance.runtime_checks.records import RecordedCall, Records
from harness.conformance.sentences import load

[FIRST] = [network for network in NETWORKS if network.name == "witness-no-gc"]


def call(verb: str, place: int, start: int, end: int | None, **changes: Any) -> RecordedCall:
    """An execution of a witness as a sound runtime has it, with changes to the request and to the record."""
    variables = {"CNI_CONTAINERID": "one", "CNI_IFNAME": "eth0", "CNI_NETNS": "/run/netns/one", "CNI_ARGS": "A=1;B=2"}
    result = {"cniVersion": "1.1.0", "ips": [{"address": f"192.0.2.{place}/24"}], "dns": {}}
    before = {**result, "ips": [{"address": f"192.0.2.{place - 1}/24"}]}
    configuration = {key: value for key, value in FIRST.inlined[place - 1].items() if key != "capabilities"}
    request = {"cniVersion": "1.1.0", "name": FIRST.name, **configuration}
    if verb == "ADD" and place > 1:
        request["prevResult"] = before
    if verb == "DEL":
        request["prevResult"] = {**result, "ips": [{"address": "192.0.2.2/24"}]}
    record: dict[str, Any] = {
        "netns": "4:1",
        "domain": "net:[9]",
        "stdout": json.dumps(result).encode() if verb == "ADD" else b"",
    }
    record |= {name: changes.pop(name) for name in ("netns", "code", "stdout") if name in changes}
    variables |= {name: changes.pop(name) for name in list(changes) if name.startswith("CNI_")}
    return RecordedCall(
        type=FIRST.types[place - 1],
        start=start,
        end=end,
        environ={"CNI_COMMAND": verb, **variables},
        stdin=json.dumps(request | changes).encode(),
        **record,
    )


def findings(*calls: RecordedCall, **records: Any) -> dict[str, RuntimeFinding]:
    """The findings of a network with two plugins, by check."""
    return {finding.check.id: finding for finding in judge(Records([FIRST], calls, **records))}


def breached(*calls: RecordedCall, **records: Any) -> set[str]:
    """The checks that catch something."""
    return {name for name, finding in findings(*calls, **records).items() if finding.breaches}


ADDED = (call("ADD", 1, 0, 1), call("ADD", 2, 2, 3))
DELETED = (call("DEL", 2, 4, 5), call("DEL", 1, 6, 7))


def test_complete_history_of_a_container_has_no_breach() -> None:
    found = findings(*ADDED, *DELETED)

    assert {name for name, finding in found.items() if finding.breaches} == set()
    assert found["del-prev-result"].cases == 2
    assert found["check-order"].outcome is Outcome.NOT_EXAMINED


def test_a_plugin_that_was_killed_makes_no_order_wrong() -> None:
    killed = call("ADD", 1, 0, None, code=None, stdout=b"")

    assert breached(killed, call("DEL", 2, 1, 2, prevResult=None), call("DEL", 1, 3, 4, prevResult=None)) == set()


def test_a_container_that_lives_needs_no_del_yet() -> None:
    assert breached(*ADDED, living=frozenset({"4:1"})) == set()
    assert breached(*ADDED) == {"add-then-del"}


def test_a_namespace_may_not_outlive_its_container() -> None:
    assert breached(*ADDED, *DELETED, living=frozenset({"4:1"})) == {"namespace-removed"}


def test_operations_overlap_by_the_order_of_starts_and_ends() -> None:
    inside = [call("ADD", 1, 2, 3, CNI_IFNAME="net1"), call("ADD", 2, 4, 5, CNI_IFNAME="net1")]
    living = frozenset({"4:1"})

    assert breached(call("ADD", 1, 0, 1), call("ADD", 2, 6, 7), *inside, living=living) == {"one-at-a-time"}
    after = [call("ADD", 1, 4, 5, CNI_IFNAME="net1"), call("ADD", 2, 6, 7, CNI_IFNAME="net1")]
    assert breached(*ADDED, *after, living=living) == set()


@pytest.mark.parametrize("collection", [(0, 7), (2, 3), (4, 9)])
def test_gc_overlaps_an_add_in_either_order(collection: tuple[int, int]) -> None:
    added = (call("ADD", 1, 1, 3), call("ADD", 2, 5, 6))

    assert "gc-alone" in breached(*added, call("GC", 1, *collection))
    assert "gc-alone" not in breached(*added, call("GC", 1, 7, 8))


def test_the_order_of_args_and_empty_values_have_no_meaning() -> None:
    result = {"cniVersion": "1.1.0", "ips": [{"address": "192.0.2.2/24"}], "routes": None, "interfaces": []}
    deleted = [each(CNI_ARGS="B=2;A=1", prevResult=result) for each in _deletions()]

    assert breached(*ADDED, *deleted) == set()


def _deletions() -> list[Any]:
    return [lambda **changes: call("DEL", 2, 4, 5, **changes), lambda **changes: call("DEL", 1, 6, 7, **changes)]


def test_a_del_may_lack_the_namespace() -> None:
    deleted = [each(CNI_NETNS="", netns="") for each in _deletions()]

    assert breached(*ADDED, *deleted) == set()


def test_a_repeated_del_needs_no_result() -> None:
    again = [call("DEL", 2, 8, 9, prevResult=None), call("DEL", 1, 10, 11, prevResult=None)]

    assert breached(*ADDED, *DELETED, *again) == set()


@pytest.mark.parametrize("numbers", [[0, -1, 1.0, 9007199254740991], [False, -1, 1.5, 9007199254740991]])
def test_a_changed_number_is_another_value(numbers: list[object]) -> None:
    changed = call("ADD", 1, 0, 1, witnessNumbers=numbers)

    assert "fields-unchanged" in breached(changed, ADDED[1], *DELETED)


def test_runtime_of_unknown_version_is_not_judged_by_versions() -> None:
    older = [call("ADD", 1, 0, 1, cniVersion="1.0.0")]

    assert findings(*older)["version-highest"].outcome is Outcome.NOT_EXAMINED
    assert findings(*older, speaks="1.0.0")["version-highest"].outcome is Outcome.PASS
    assert findings(*older, speaks="1.1.0")["version-highest"].outcome is Outcome.FAIL


def test_the_lists_survive_their_file() -> None:
    assert [from_document(json.loads(json.dumps(each.to_document()))) for each in NETWORKS] == list(NETWORKS)


def test_every_sentence_about_runtimes_is_enforced_or_has_a_reason() -> None:
    enforced = {name for check in runtime_checks() for name in check.sentences}
    about_runtimes = [sentence for sentence in load().values() if sentence.side == "runtime"]

    assert [each.id for each in about_runtimes if (each.id in enforced) == bool(each.why_not)] == []
    assert enforced <= {each.id for each in about_runtimes}


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
def test_a_type_that_is_a_path_is_executed_for_no_verb(verb: str) -> None:
    [mistyped] = [network for network in NETWORKS if network.name == "witness-mistyped"]
    sent = replace(call(verb, 1, 0, 1, name=mistyped.name), type=mistyped.types[0])

    found = {finding.check.id: finding for finding in judge(Records([mistyped], (sent,)))}

    assert found["plugin-type"].breaches
