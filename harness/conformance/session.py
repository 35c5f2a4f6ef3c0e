"""Checks one at a time, for a program that asks for the checks of a network list and the outcome of each.

The pytest plugin is such a program. Questions and answers are JSON, documented at `Session.answer`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exc
from typing import Any, NamedTuple

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.discovery import in_common_version, with_delegates, with_profile
from harness.conformance.engine.examiner import Examiner
from harness.conformance.engine.node_setup import PreparationError
from harness.conformance.engine.prerequisites import PREREQUISITES
from harness.conformance.finding import NOT_JUDGED, Finding, Outcome, ViolationError
from harness.conformance.known_failures import KnownFailures, KnownFailuresError
from harness.conformance.report.wording import paragraph, place
from harness.conformance.reproduce import Arguments, command_of, option_words
from harness.conformance.selection import Selection, SelectionError
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.conformance.threshold import FailOn, Threshold
from harness.libcni.execute import PluginError
from harness.libcni.networks import NetworkError, read_network_file
from harness.output import printable


class _DeclarationError(Exception):
    """The declaration names a check, plugin or profile that does not exist."""


class ConformanceSession:
    """Answers questions. Suites, with the profiles of their plugins, are kept from question to question."""

    def __init__(self) -> None:
        self._suites: dict[str, _Suite] = {}

    def answer(self, question: Mapping[str, Any]) -> dict[str, object]:
        """Return `items` to the verb "collect", `outcome` and `text` to the verb "run"; or `error`, if neither can be.

        `declaration` has the arguments of `cni_harness_pytest.conformance`. `item` is one of `items`. `outcome` is
        an Outcome. `known` is the reason of a known failure. `outdated` tells that a known failure passes.
        """
        try:
            suite = self._suite(question["declaration"])
            if question["verb"] == "collect":
                return {"items": list(suite.items)}
            return suite.run(question["item"])
        except (NetworkError, PluginError, PreparationError, KnownFailuresError, _DeclarationError) as error:
            return {"error": str(error)}
        except Exception:  # noqa: BLE001 -- the program that asked shows it
            return {"error": format_exc()}

    def _suite(self, declaration: Mapping[str, Any]) -> "_Suite":
        key = json.dumps(declaration)
        if key not in self._suites:
            self._suites[key] = _Suite(declaration)
        return self._suites[key]


class _Item(NamedTuple):
    """One check of one plugin, whose `label` no other of the list has; `profile` follows from its place in the list."""

    label: str
    subject: Subject
    profile: Profile
    check: Check


class _Suite:
    """The plugins of one network list."""

    def __init__(self, declaration: Mapping[str, Any]) -> None:
        """Find the items. Raises NetworkError, _DeclarationError."""
        prepare = declaration["prepare"]
        watched = tuple(map(Path, declaration["watched"]))
        self._options = CheckOptions(
            declaration["timeout"],
            watched,
            Path(prepare) if prepare else None,
            threshold=_threshold(declaration),
            pod_interface=declaration["pod_interface"],
        )
        self._arguments = _arguments(declaration, self._options)
        self._subjects: dict[str, Subject] = {}
        self._examiners: dict[str, Examiner] = {}
        self._temporary = TemporaryDirectory(prefix="conformance-")
        self._folder = Path(self._temporary.name)
        self.items = dict(_items(declaration))
        known = declaration["known_failures"]
        self._known = KnownFailures.read(Path(known) if known else None, [check.id for check in all_checks()])

    def run(self, name: str) -> dict[str, object]:
        """Run the check of an item on a node of its own. Raises PluginError, PreparationError."""
        item = self.items[name]
        subject = self._subject(item)
        if (found := subject.profile) is not item.profile:
            text = f'{item.subject.type} is of the profile {found}: say so, profile="{found}"'
            return {"outcome": Outcome.FAIL, "text": text, "known": "", "outdated": ""}
        finding = self._known.marked(self._examiner(item.label, subject).find(item.check))
        return {
            "outcome": finding.outcome,
            "text": _text(finding, self._arguments),
            "known": finding.known,
            "outdated": "; ".join(self._known.outdated_in_words([finding], exact=True)),
        }

    def _subject(self, item: _Item) -> Subject:
        """Return the plugin in the list's version and with its profile, found once for all its items.

        If its ADD fails, it has the profile of its place.
        """
        if item.label not in self._subjects:
            found = in_common_version(item.subject, self._folder, self._options)
            try:
                found = with_profile(found, self._folder, self._options)
            except ViolationError:
                found = replace(found, profile=Profile.INTERFACE)
            self._subjects[item.label] = found
        return self._subjects[item.label]

    def _examiner(self, label: str, subject: Subject) -> Examiner:
        """Return the examiner of a plugin, the same for all its items: it remembers the causes that they share."""
        if label not in self._examiners:
            subject = with_delegates(subject, self._folder, self._options)
            # Items may be selected alone: only the cause that concerns nearly all of them may have one skipped.
            options, causes = self._options.for_next_plugin(), PREREQUISITES[:1]
            self._examiners[label] = Examiner(subject, state_dir=self._folder, options=options, causes=causes)
        return self._examiners[label]


def _items(declaration: Mapping[str, Any]) -> Iterator[tuple[str, _Item]]:
    """Yield the items by name. Raises NetworkError, _DeclarationError."""
    profile, plugins, level = declaration["profile"], declaration["plugins"], declaration["level"]
    _demand_known("profile", [profile] if profile else [], list(Profile))
    network = read_network_file(Path(declaration["conf"]))
    folders = [Path(folder) for folder in declaration["bin_dirs"]]
    subjects = list(subjects_of(network, folders, profile=Profile(profile) if profile else None, only=plugins))
    _demand_known("plugins", plugins, [subject.type for subject in subjects])
    selection = Selection(only=declaration["checks"], skip=declaration["skip"], level=Level(level) if level else None)
    try:
        chosen = selection.of(all_checks())
    except SelectionError as error:
        name = "checks" if error.option == "check" else error.option
        raise _DeclarationError(f"{name}: there is no {error.given}") from None
    taken: dict[str, int] = {}
    for subject in subjects:
        taken[subject.type] = taken.get(subject.type, 0) + 1
        label = subject.type if taken[subject.type] == 1 else f"{subject.type}-{taken[subject.type]}"
        expected = subject.profile or Profile.INTERFACE
        for check in chosen:
            if expected in check.profiles:
                yield f"{label}[{check.id}]", _Item(label, subject, expected, check)


def _threshold(declaration: Mapping[str, Any]) -> Threshold:
    """Return which failures count. Raises _DeclarationError."""
    fail_on, level = declaration["fail_on"], declaration["level"]
    _demand_known("fail_on", [fail_on], list(FailOn))
    _demand_known("level", [level] if level else [], list(Level))
    return Threshold(FailOn(fail_on), Level(level or Level.CONVENTION))


def _demand_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    if missing := [name for name in given if name not in known]:
        raise _DeclarationError(f"{what}: there is no {', '.join(missing)}")


def _arguments(declaration: Mapping[str, Any], options: CheckOptions) -> Arguments:
    """Return the arguments of a command line that examines as this declaration."""
    threshold = options.threshold.fail_on
    given = {
        "--watch": options.watched,
        "--timeout": options.timeout if options.timeout != CheckOptions.timeout else (),
        "--prepare": options.preparation or (),
        "--fail-on": str(threshold) if threshold is not Threshold.fail_on else (),
        "--pod-interface": options.pod_interface,
        "--profile": declaration["profile"] or (),
    }
    words = [word for name, value in given.items() for word in option_words(name, value)]
    folders = tuple(Path(folder) for folder in declaration["bin_dirs"])
    return Arguments(bin_dirs=folders, options=tuple(words))


def _text(finding: Finding, arguments: Arguments) -> str:
    if finding.outcome in NOT_JUDGED:
        return printable(finding.detail)
    check, repeat = finding.check, printable(command_of(finding, arguments))
    return f"{check.id} ({check.level}; {place(check.enforced[0])})\n{paragraph(finding)}\n{'repeat:':10}{repeat}"
