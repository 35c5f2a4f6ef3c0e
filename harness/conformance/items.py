"""The suite as pytest's collectors and items; harness.pytest_conformance is what declares them."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from harness.conformance.catalogue import Check, checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.preparation import PreparationError
from harness.conformance.profile import Profile
from harness.conformance.report.wording import paragraph, place, printable
from harness.conformance.run import Extent, run_check, with_profile
from harness.conformance.subject import Subject, subjects_of
from harness.conformance.verdict import ViolationError
from harness.conformance.versions import in_common_version
from harness.libcni.execute import PluginError
from harness.libcni.networks import NetworkError, read_network_file
from harness.pytest_conformance import ConformanceWarning, Declaration

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

__all__ = ["ConformanceFile", "ConformanceItem", "ConformanceSuite"]


class ConformanceFile(pytest.File):
    """A conftest.py that has declared something."""

    declared: dict[str, Declaration]

    def collect(self) -> Iterator["ConformanceSuite"]:
        """Yield what it has declared."""
        for declaration in self.declared.values():
            suite: ConformanceSuite = ConformanceSuite.from_parent(self, name=declaration.name)
            suite.declaration = declaration
            suite.profiles = {}
            yield suite


class ConformanceSuite(pytest.Collector):
    """The plugins of one network list."""

    declaration: Declaration
    profiles: "dict[str, Profile]"
    """What plugins have turned out to be, by type."""

    def collect(self) -> Iterator["ConformanceItem"]:
        """Yield each check of each plugin; what kind of plugin it is follows from its place in the list."""
        declaration = self.declaration
        self._demand_known("profile", [declaration.profile] if declaration.profile else [], list(Profile))
        profile = Profile(declaration.profile) if declaration.profile else None
        known = checks()
        try:
            network = read_network_file(declaration.conf)
        except NetworkError as error:
            raise self.CollectError(str(error)) from error
        subjects = list(subjects_of(network, declaration.bin_dirs, profile=profile, only=declaration.plugins))
        self._demand_known("plugins", declaration.plugins, [subject.type for subject in subjects])
        self._demand_known("checks", declaration.checks, [check.id for check in known])
        wanted = [check for check in known if not declaration.checks or check.id in declaration.checks]
        taken: dict[str, int] = {}
        for subject in subjects:
            taken[subject.type] = taken.get(subject.type, 0) + 1
            label = subject.type if taken[subject.type] == 1 else f"{subject.type}-{taken[subject.type]}"
            profile = subject.profile or Profile.INTERFACE
            for check in wanted:
                if profile in check.profiles:
                    yield self._item(f"{label}[{check.id}]", subject, profile, check)

    def profile_of(self, subject: "Subject", state_dir: Path, extent: "Extent") -> "Profile":
        """Return what a plugin is, once for all of its items; of one whose ADD fails, what its place tells."""
        if subject.profile is not None:
            return subject.profile
        if subject.type not in self.profiles:
            try:
                found = with_profile(subject, state_dir, extent).profile
            except ViolationError:
                found = None
            self.profiles[subject.type] = found or Profile.INTERFACE
        return self.profiles[subject.type]

    def _item(self, name: str, subject: "Subject", profile: "Profile", check: "Check") -> "ConformanceItem":
        item: ConformanceItem = ConformanceItem.from_parent(self, name=name)
        item.subject, item.profile, item.check = subject, profile, check
        item.add_marker("conformance")
        if self.config.pluginmanager.hasplugin("sudo"):
            item.add_marker("sudo")
        return item

    def _demand_known(self, what: str, given: Sequence[str], known: Sequence[str]) -> None:
        if missing := [name for name in given if name not in known]:
            raise self.CollectError(f"{what}: there is no {', '.join(missing)}")


class ConformanceItem(pytest.Item):
    """One check of one plugin."""

    subject: "Subject"
    profile: "Profile"
    check: "Check"

    @property
    def suite(self) -> ConformanceSuite:
        """What it was declared with."""
        assert isinstance(self.parent, ConformanceSuite)  # noqa: S101 -- for the types: it is made by one
        return self.parent

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it was declared; the words of a failure have all else."""
        return self.path, None, self.nodeid.partition("::")[2]

    def runtest(self) -> None:
        """Run the check, and end as it did."""
        if os.geteuid() != 0:
            pytest.skip("needs root: it makes network namespaces")
        self.conclude(self.finding())

    def finding(self) -> "Finding":
        """Run the check on a node of its own. Fails where the plugin is not what its place in the list tells."""
        declaration = self.suite.declaration
        extent = Extent(declaration.timeout, declaration.watched, declaration.prepare)
        with TemporaryDirectory(prefix="conformance-") as folder:
            subject = in_common_version(self.subject, Path(folder), declaration.timeout)
            found = self.suite.profile_of(subject, Path(folder), extent)
            if found is not self.profile:
                pytest.fail(f'{subject.type} is of the profile {found}: say so, profile="{found}"', pytrace=False)
            return run_check(self.check, replace(subject, profile=found), state_dir=Path(folder), extent=extent)

    def conclude(self, finding: "Finding") -> None:
        """Fail, skip, warn or pass, in the words of the report."""
        if finding.outcome is Outcome.NOT_APPLICABLE:
            pytest.skip(printable(finding.detail))
        told = f"{finding.check.id} ({finding.check.level}; {place(finding.check.enforced[0])})\n{paragraph(finding)}"
        if finding.outcome in {Outcome.FAIL, Outcome.ERROR}:
            pytest.fail(told, pytrace=False)
        if finding.outcome is Outcome.WARN:
            warnings.warn(told, ConformanceWarning, stacklevel=1)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: "TracebackStyle | None" = None
    ) -> "str | TerminalRepr":
        """Return the words alone where they say all: of a warning made an error, and of a plugin that is not there."""
        if isinstance(excinfo.value, (ConformanceWarning, PluginError, PreparationError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)
