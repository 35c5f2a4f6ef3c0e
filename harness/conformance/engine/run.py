"""A run of the suite: the checks of one plugin, each on a node of its own, or of every plugin of some networks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions, StoppedError
from harness.conformance.engine.attempt import without_node
from harness.conformance.engine.discovery import in_common_version, with_delegates, with_profile
from harness.conformance.engine.examiner import Examiner
from harness.conformance.engine.prerequisites import NUMBERS, causes_first
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import Finding, NotApplicableError, ViolationError
from harness.conformance.known_failures import NOTHING_KNOWN, KnownFailures
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.libcni.networks import NetworkList
from harness.snapshot import Difference

_ABOUT_LEFTOVERS: Final = "del-undoes-add"
_NODE: Final = "node"


def _marked(finding: Finding, known: KnownFailures) -> Finding:
    """Return the finding with the reason why it is known; the node of a known failure does not stay."""
    marked = known.marked(finding)
    return without_node(marked) if marked.known else marked


@dataclass(frozen=True, kw_only=True)
class ConformanceRun:
    """Examines suites, one after the other: `checks` on the plugins of `networks`, only of `plugins` if any are named.

    `jobs` checks run at once, each `repeat` times. Failures that are `known` are marked. `progress` gets each finding,
    its number and the number of its plugin's checks. `remark` gets the remarks that are not findings.
    """

    networks: Sequence[NetworkList]
    checks: Sequence[Check]
    state_dir: Path
    options: CheckOptions
    plugins: Sequence[str] = ()
    profile: Profile | None = None
    jobs: int = 1
    repeat: int = 1
    known: KnownFailures = NOTHING_KNOWN
    progress: Callable[[Finding, int, int], object] = lambda *_: None
    remark: Callable[[str], object] = lambda _: None
    _profiles: dict[tuple[str, str], Profile] = field(default_factory=dict, init=False)
    """The profiles that were found, by network and type: the same in each suite."""
    left_for_good: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    """The things that the first ADD of each plugin leaves for good, by plugin and network, of the last suite."""

    def findings_of(
        self, bin_dirs: Sequence[Path], *, lenient: bool = False, found: list[Finding] | None = None
    ) -> list[Finding]:
        """Return the findings of the suite in these folders.

        `found` is extended by the findings of each plugin, also if the run is stopped or ends by an error. Raises
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
            options = self.options.for_next_plugin()
            if options.stop.is_requested:
                break
            with suppress(StoppedError):
                profiled = self._profiled(subject, options)
                if not any(profiled.profile in check.profiles for check in self.checks):
                    continue
                if not options.hangs.has_only_hung("ADD"):
                    self._note_left(profiled, options)
                    profiled = with_delegates(profiled, self.state_dir, options)
                self.examine(profiled, options, findings)
        return findings

    def examine(self, subject: Subject, options: CheckOptions, found: list[Finding]) -> None:
        """Run the checks that are for the subject's profile, and extend `found` by their findings.

        Checks whose level in the subject's version is less binding than the options' least binding one are left out.
        The findings are in the order of the checks, causes of others first. If one is not examined because of a check
        that was not wanted, that one's finding is among them, too. `found` has also those of a run that is stopped, or
        ends by an error. Raises PreparationError.
        """
        version, threshold = subject.network.cni_version, options.threshold
        levels = {check: check.level_in(version) for check in self.checks if subject.profile in check.profiles}
        wanted = causes_first(check for check, level in levels.items() if level is None or threshold.examines(level))
        examiner = Examiner(subject, state_dir=self.state_dir, options=options, repeat=self.repeat)
        numbers = count(1)
        made: dict[str, Finding] = {}

        def run(check: Check) -> None:
            if options.stop.is_requested:
                return
            try:
                finding = made[check.id] = _marked(examiner.find(check), self.known)
            except StoppedError:
                return
            self.progress(finding, next(numbers), len(wanted))

        try:
            with ThreadPoolExecutor(self.jobs, thread_name_prefix="conformance") as pool:
                list(pool.map(run, wanted))
        finally:
            findings = [made[check.id] for check in wanted if check.id in made]
            unwanted = dict.fromkeys(each.cause for each in findings if each.cause and each.cause not in made)
            found += findings
            found += [_marked(each, self.known) for each in map(examiner.known, unwanted) if each]

    def _note_left(self, subject: Subject, options: CheckOptions) -> None:
        """List the things that the first ADD leaves, if leftovers are examined."""
        if not any(check.id == _ABOUT_LEFTOVERS for check in self.checks):
            return
        left = permanent_objects(subject, self.state_dir, options)
        self.left_for_good[subject.place] = left
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


def permanent_objects(subject: Subject, state_dir: Path, options: CheckOptions) -> tuple[str, ...]:
    """Return the things of the node that remain after the first ADD and DEL: "nft table ip nat", "sysctl NAME=1".

    Things that each ADD and DEL leaves are left out: they are a finding. So are the contents of a table and of a link,
    and files. None are returned if the plugin or one before it fails. Raises OSError, PreparationError.
    """
    with Trial.on_new_node(subject, state_dir, options) as trial:
        try:
            trial.prepare(trial.container)
            trial.detach_others(trial.container)  # their own runs list their objects
            before, (first, second) = trial.snapshot(), (trial.new_container(), trial.new_container())
            trial.come_and_go(first)
            between = trial.snapshot()
            trial.come_and_go(second)
        except (ViolationError, NotApplicableError):
            return ()
        after = trial.snapshot()
        again = {_pattern(each) for each in trial.leftovers(between, after)}
        left = [each for each in trial.leftovers(before, after) if each.place == _NODE]
    return tuple(_descriptions([each for each in left if _pattern(each) not in again]))


def _pattern(difference: Difference) -> tuple[str, str]:
    return difference.thing, NUMBERS.sub("#", difference.name)


def _descriptions(left: Sequence[Difference]) -> Iterator[str]:
    """Yield the objects in words, without the contents of a table or a link that is among them."""
    new = [each for each in left if each.kind == "appeared"]
    tables = tuple(f"{each.name} " for each in new if each.thing == "nft table")
    links = [each.name for each in new if each.thing == "link"]
    for each in left:
        in_table = each.thing.startswith(("nft ", "iptables ")) and each.name.startswith(tables)
        of_link = each.name.endswith(tuple(f" dev {name}" for name in links)) or any(
            each.thing == "sysctl" and f".{name}." in each.name for name in links
        )
        if not in_table and not of_link:
            yield _in_words(each)


def _in_words(difference: Difference) -> str:
    named = f"{difference.thing} {difference.name}"
    if difference.thing == "sysctl":
        return f"{named}={difference.after}"
    return named if difference.kind == "appeared" else f"{named} {difference.kind}"
