"""The choice of checks: patterns of IDs, levels, sections of the specification."""

import pytest
from click.shell_completion import ShellComplete

from harness.cli.command_line import cli as main
from harness.conformance.checks import all_checks
from harness.conformance.selection import Selection, SelectionError, section_name, section_names
from harness.conformance.sentences import Level, load


def chosen(**conditions: object) -> list[str]:
    return [check.id for check in Selection(**conditions).of(all_checks())]  # type: ignore[arg-type] # as given


def test_without_conditions_all_are_chosen() -> None:
    assert chosen() == [check.id for check in all_checks()]


def test_check_patterns_work_as_in_a_shell() -> None:
    ids = [check.id for check in all_checks()]

    assert chosen(only=["del-*"]) == [each for each in ids if each.startswith("del-")]
    assert chosen(only=["del-t[wx]ice", "gc-*"]) == [each for each in ids if each == "del-twice" or each[:3] == "gc-"]
    assert chosen(skip=["*-*-*"]) == [each for each in ids if each.count("-") < 2] != []
    assert chosen(only=["del-*"], skip=["del-twice"]) == [
        each for each in ids if each.startswith("del-") and each != "del-twice"
    ]


@pytest.mark.mostly_slow(3, "each level; a part is in make test")
@pytest.mark.parametrize(
    ("level", "levels"),
    [
        (Level.MUST, {Level.MUST}),
        (Level.SHOULD, {Level.MUST, Level.SHOULD}),
        (Level.MAY, {Level.MUST, Level.SHOULD, Level.MAY}),
        (Level.CONVENTION, set(Level)),
    ],
)
def test_a_level_has_the_more_binding_ones_too(level: Level, levels: set[Level]) -> None:
    found = [check for check in all_checks() if check.id in chosen(level=level)]

    assert {check.level for check in found} == levels & {check.level for check in all_checks()}
    assert len(found) == sum(check.level in levels for check in all_checks())


@pytest.mark.parametrize(
    ("document", "section", "name"),
    [
        ("SPEC.md", "2 Execution Protocol / ADD", "2.ADD"),
        ("SPEC.md", "2 Execution Protocol / Parameters", "2.parameters"),
        ("SPEC.md", "4 Plugin Delegation", "4"),
        ("SPEC.md", "5 Result Types / Delegated plugins (IPAM)", "5.delegated-plugins"),
        ("SPEC.md", "Overview", "overview"),
        ("CONVENTIONS.md", "CNI_ARGS", "conventions.CNI_ARGS"),
        ("CONVENTIONS.md", '"args" in network config', "conventions.args-in-network-config"),
        ("runtimes", "CRI-O", "runtimes.CRI-O"),
    ],
)
def test_the_short_name_of_a_section(document: str, section: str, name: str) -> None:
    sentence = next(each for each in load().values() if (each.document, each.section) == (document, section))

    assert section_name(sentence) == name


def test_each_heading_has_a_name_of_its_own() -> None:
    places = {(each.document, each.section) for each in load().values()}

    assert len({section_name(each).lower() for each in load().values()}) == len(places)


def test_a_section_has_the_checks_of_all_its_sentences() -> None:
    here = [
        check.id
        for check in all_checks()
        if any(each.section == "2 Execution Protocol / ADD" for each in check.enforced)
    ]

    assert chosen(sections=["2.ADD"]) == here != []
    assert chosen(sections=["2.add"]) == here


def test_a_chapter_has_its_sections() -> None:
    names = section_names(all_checks())
    parts = [name for name in names if name.partition(".")[0] == "2"]

    assert len(parts) > 5
    assert chosen(sections=["2"]) == chosen(sections=parts)
    assert set(chosen(sections=["4"])) > set(chosen(sections=["4.delegated-plugin-protocol"]))


@pytest.mark.parametrize(
    ("conditions", "option", "given"),
    [
        ({"only": ["del-twicee"]}, "check", "del-twicee"),
        ({"skip": ["none-*"]}, "skip", "none-*"),
        ({"sections": ["2.AD"]}, "section", "2.AD"),
        ({"sections": ["2.ADD", "22"]}, "section", "22"),
    ],
)
def test_a_condition_that_no_check_meets_is_an_error(conditions: dict[str, object], option: str, given: str) -> None:
    with pytest.raises(SelectionError) as caught:
        chosen(**conditions)

    assert (caught.value.option, caught.value.given) == (option, given)
    assert ("2.ADD" if option == "section" else "del-twice") in caught.value.known


@pytest.mark.parametrize(
    ("option", "incomplete", "completed"),
    [
        ("--check", "del-tw", ["del-twice"]),
        ("--skip", "del-tw", ["del-twice"]),
        ("--level", "M", ["MUST", "MAY"]),
        ("--section", "2.d", ["2.DEL"]),
        ("--section", "run", ["runtimes", "runtimes.CRI-O"]),
    ],
)
def test_shell_completes_check_selections(option: str, incomplete: str, completed: list[str]) -> None:
    shell = ShellComplete(main, {}, "cni-harness", "_CNI_HARNESS_COMPLETE")

    found = [item.value for item in shell.get_completions(["conformance", option], incomplete)]

    assert found[: len(completed)] == completed
