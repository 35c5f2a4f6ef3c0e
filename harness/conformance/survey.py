"""Every plugin of some networks in one suite: the selection, the profile of each, and the removal of all nodes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from harness.conformance.catalogue import Check
from harness.conformance.finding import Finding
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, examine, with_profile
from harness.conformance.subject import Subject, subjects_of
from harness.conformance.verdict import ViolationError
from harness.conformance.versions import in_common_version
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.libcni.networks import NetworkList

__all__ = ["Progress", "Scope", "Survey"]


@dataclass(frozen=True)
class Scope:
    """The selection: these checks on the plugins of these networks, only of these types unless none are named."""

    networks: Sequence[NetworkList]
    checks: Sequence[Check]
    plugins: Sequence[str] = ()
    profile: Profile | None = None

    def subjects(self, bin_dirs: Sequence[Path]) -> list[Subject]:
        """Return the plugins; the profile of some may not be known yet."""
        return [
            subject
            for network in self.networks
            for subject in subjects_of(network, bin_dirs, profile=self.profile, only=self.plugins)
        ]


@dataclass(frozen=True)
class Progress:
    """The progress: `done` of `total` checks of a plugin; `finding` is the last one."""

    done: int
    total: int
    finding: Finding


class Survey:
    """Examines suites, one after the other. `remark` gets the remarks that are not findings."""

    def __init__(
        self,
        scope: Scope,
        *,
        state_dir: Path,
        extent: Extent,
        jobs: int = 1,
        progress: Callable[[Progress], object] = lambda _: None,
        remark: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._scope = scope
        self._state_dir = state_dir
        self._extent = extent
        self._jobs = jobs
        self._progress = progress
        self._remark = remark
        self._profiles: dict[tuple[str, str], Profile] = {}
        """The profiles that were found, by network and type: the same in each suite."""

    def of(self, bin_dirs: Sequence[Path], *, lenient: bool = False) -> list[Finding]:
        """Return the findings of the suite in these folders.

        Raises PluginNotFoundError if a plugin is missing, before anything is executed; when `lenient`, it is left out.
        Raises OSError, SnapshotError if a plugin's version or profile cannot be found out.
        """
        subjects = [each for each in self._scope.subjects(bin_dirs) if self._is_there(each, lenient=lenient)]
        findings: list[Finding] = []
        for subject in map(self._profiled, map(self._in_version, subjects)):
            total = sum(subject.profile in check.profiles for check in self._scope.checks)
            findings += examine(
                subject,
                self._scope.checks,
                state_dir=self._state_dir,
                extent=self._extent,
                jobs=self._jobs,
                progress=partial(self._step, count(1), total),
            )
        return findings

    def _step(self, done: Iterator[int], total: int, finding: Finding) -> None:
        self._progress(Progress(next(done), total, finding))

    def _is_there(self, subject: Subject, *, lenient: bool) -> bool:
        executor = Executor(subject.bin_dirs)
        delegates = {plugin.delegate for plugin in (*subject.before, subject.plugin)} - {""}
        try:
            for name in (subject.type, *(plugin.type for plugin in subject.before), *sorted(delegates)):
                executor.find(name)
        except PluginNotFoundError as error:
            if not lenient:
                raise
            self._remark(f"{subject.type} is left out: {error.msg}")
            return False
        return True

    def _in_version(self, subject: Subject) -> Subject:
        """Choose a version that the plugin speaks, if the list has several."""
        return in_common_version(subject, self._state_dir, self._extent.timeout)

    def _profiled(self, subject: Subject) -> Subject:
        """Find its profile, once for all suites."""
        key = (subject.network.name, subject.type)
        if subject.profile is None and key in self._profiles:
            return replace(subject, profile=self._profiles[key])
        try:
            found = with_profile(subject, self._state_dir, self._extent)
        except ViolationError as violation:
            self._remark(
                f"{subject.type} is taken for an interface plugin (see --profile), and few checks apply to one whose"
                f" ADD fails (see --prepare): {violation}"
            )
            return replace(subject, profile=Profile.INTERFACE)
        if subject.profile is None and found.profile is not None:
            self._profiles[key] = found.profile
        return found
