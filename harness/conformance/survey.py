"""Every plugin of some networks in one suite: the selection, the version and profile of each, and the findings."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions, Hangs, StoppedError
from harness.conformance.finding import Finding, ViolationError
from harness.conformance.for_good import left_for_good
from harness.conformance.found_delegates import with_delegates
from harness.conformance.run import examine, with_profile
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.execute import Executor, PluginError, PluginNotFoundError
from harness.libcni.networks import NetworkList
from harness.libcni.outcome import decode_versions
from harness.runtime.site import Site

_ABOUT_LEFTOVERS: Final = "del-undoes-add"


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Examines suites, one after the other: `checks` on the plugins of `networks`, only of `plugins` if any are named.

    `jobs` checks run at once, each `repeat` times. `judge` gets each finding, and returns it, marked if it is known.
    `progress` gets each finding, its number and the number of its plugin's checks. `remark` gets the remarks that are
    not findings.
    """

    networks: Sequence[NetworkList]
    checks: Sequence[Check]
    state_dir: Path
    options: CheckOptions
    plugins: Sequence[str] = ()
    profile: Profile | None = None
    jobs: int = 1
    repeat: int = 1
    judge: Callable[[Finding], Finding] = lambda finding: finding
    progress: Callable[[Finding, int, int], object] = lambda *_: None
    remark: Callable[[str], object] = lambda _: None
    _profiles: dict[tuple[str, str], Profile] = field(default_factory=dict, init=False)
    """The profiles that were found, by network and type: the same in each suite."""
    left_for_good: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    """The things that the first ADD of each plugin leaves for good, by plugin and network, of the last suite."""

    def of(
        self, bin_dirs: Sequence[Path], *, lenient: bool = False, found: list[Finding] | None = None
    ) -> list[Finding]:
        """Return the findings of the suite in these folders.

        `found` is extended by the findings of each plugin, also if the run is halted or ends by an error. Raises
        PluginNotFoundError if a plugin is missing, before anything is executed; when `lenient`, it is left out. Raises
        OSError, SnapshotError if a plugin's version or profile cannot be found out; PreparationError.
        """
        subjects = [
            subject
            for network in self.networks
            for subject in subjects_of(network, bin_dirs, profile=self.profile, only=self.plugins)
            if self._is_there(subject, lenient=lenient)
        ]
        findings: list[Finding] = [] if found is None else found
        self.left_for_good.clear()
        for subject in subjects:
            options = replace(self.options, hangs=Hangs())
            if options.stop.is_requested:
                break
            with suppress(StoppedError):
                profiled = self._profiled(subject, options)
                if not any(profiled.profile in check.profiles for check in self.checks):
                    continue
                if not options.hangs.has_only_hung("ADD"):
                    self._note_left(profiled, options)
                    profiled = with_delegates(profiled, self.state_dir, options)
                examine(
                    profiled,
                    self.checks,
                    state_dir=self.state_dir,
                    options=options,
                    jobs=self.jobs,
                    repeat=self.repeat,
                    judge=self.judge,
                    progress=self.progress,
                    found=findings,
                )
        return findings

    def _note_left(self, subject: Subject, options: CheckOptions) -> None:
        """List the things that the first ADD leaves, if leftovers are examined."""
        if not any(check.id == _ABOUT_LEFTOVERS for check in self.checks):
            return
        left = left_for_good(subject, self.state_dir, options)
        self.left_for_good[f"{subject}, network {subject.network.name}"] = left
        if left:
            self.remark(f"{subject}: left for good by the first ADD: {', '.join(left)}")

    def _is_there(self, subject: Subject, *, lenient: bool) -> bool:
        executor = Executor(subject.bin_dirs)
        try:
            for name in subject.executables:
                executor.find(name)
        except PluginNotFoundError as error:
            if not lenient:
                raise
            self.remark(f"{subject.type} is left out: {error.msg}")
            return False
        return True

    def _profiled(self, subject: Subject, options: CheckOptions) -> Subject:
        """Choose a version that the plugin speaks, if the list has several; find its profile, once for all suites."""
        subject = in_common_version(subject, self.state_dir, options)
        key = (subject.network.name, subject.type)
        if subject.profile is None and key in self._profiles:
            return replace(subject, profile=self._profiles[key])
        try:
            found = with_profile(subject, self.state_dir, options)
        except ViolationError as violation:
            self.remark(
                f"{subject.type} is taken for an interface plugin (see --profile), and few checks apply to one whose"
                f" ADD fails (see --prepare): {violation}"
            )
            return replace(subject, profile=Profile.INTERFACE)
        if subject.profile is None and found.profile is not None:
            self._profiles[key] = found.profile
        return found


def in_common_version(subject: Subject, state_dir: Path, options: CheckOptions) -> Subject:
    """Return the subject in the highest version that its list and all its plugins have (SPEC.md section 1).

    If no version is common, or a plugin does not answer VERSION, the subject stays in the highest of the list. Raises
    OSError, StoppedError.
    """
    network = subject.network
    if len(network.cni_versions) < 2:  # noqa: PLR2004 -- a choice needs two
        return subject
    executor = Executor(subject.bin_dirs, timeout=options.timeout)
    stdin = json.dumps({"cniVersion": network.cni_version}).encode()
    spoken = set(network.cni_versions)
    with Site(state_dir, "conformance") as site:
        node = site.node(has_own_folders=True, layered=options.watched)
        try:
            for name in subject.executables:
                options.stop.raise_if_urgent()
                asked = node.run(executor.run, name, "VERSION", stdin, {})
                if name == subject.type:
                    options.hangs.note(asked)
                spoken &= set(decode_versions(asked))
        except PluginError:
            return subject
    common = [version for version in network.cni_versions if version in spoken]
    return replace(subject, network=replace(network, cni_version=common[-1])) if common else subject
