"""Facts about a plugin that are found by executing it: a common version, its profile, and its delegates.

A delegate that no configuration names is found by an ADD (flannel, Multus and the like). Executables are found on
CNI_PATH, as SPEC.md section 4 says: a plugin that executes another by its path is not seen.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.conformance.check_options import CheckOptions, HangingError
from harness.conformance.engine import expect
from harness.conformance.engine.delegates import Delegate
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import Profile, Subject
from harness.libcni.execute import Executor, PluginError
from harness.libcni.outcome import decode_versions
from harness.runtime.site import Site


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


def with_profile(subject: Subject, state_dir: Path, options: CheckOptions) -> Subject:
    """Find out the plugin's profile, unless it is known: an ADD shows it by the objects in the pod.

    Raises ViolationError if the ADD fails; OSError, SnapshotError, PreparationError, StoppedError.
    """
    if subject.profile is not None:
        return subject
    with Trial.on_new_node(subject, state_dir, replace(options, corrects_version=True)) as trial:
        before = trial.snapshot()
        result = expect.result(trial.add(), trial.version)
        made = before.sections["pod/links"].keys() != trial.snapshot().sections["pod/links"].keys()
        trial.delete()
    if made:
        return replace(subject, profile=Profile.INTERFACE)
    return replace(subject, profile=Profile.IPAM if result.ips and not result.interfaces else Profile.CHAINED)


def with_delegates(subject: Subject, state_dir: Path, options: CheckOptions) -> Subject:
    """Find the plugins that the subject executes, by an ADD on a new node; the profile must be known.

    Nothing is executed if the configuration names an IPAM plugin: that is the delegate. Raises OSError.
    """
    if subject.profile is Profile.IPAM or subject.delegate:
        return subject
    with Trial.on_new_node(subject, state_dir, options) as trial:
        substitutes = _substitutes(trial)
        folders = [*(str(each.bin_dir) for each in substitutes), *map(str, Executor(subject.bin_dirs).bin_dirs)]
        try:
            trial.add(environ={"CNI_PATH": ":".join(folders)})
        except (HangingError, NotApplicableError, ViolationError):  # other findings tell it
            return subject
        executed = [each.path.name for each in substitutes if each.records("ADD")]
    return replace(subject, executed=tuple(executed))


def for_each_delegate(action: Callable[[Trial], str | None], trial: Trial) -> str | None:
    """Carry out a check; if it records the subject's delegate, then also for each further delegate, on a new node.

    Returns the first remark. Raises as the check does, but for one that only does not apply to a further delegate.
    """
    remark = action(trial)
    for name in trial.subject.delegates[1:] if trial.delegate_recorded else ():
        subject = replace(trial.subject, executed=(name,))
        with Trial.on_new_node(subject, trial.site.state_dir, trial.options) as another:
            try:
                remark = remark or action(another)
            except NotApplicableError:
                continue
            finally:
                trial.executions.extend(another.executions)
    return remark


def _substitutes(trial: Trial) -> list[Delegate]:
    """Make a substitute for each executable of CNI_PATH but the subject itself."""
    executor = Executor(trial.subject.bin_dirs)
    found: dict[str, Path] = {}
    for folder in executor.bin_dirs:
        for path in sorted(folder.glob("*")):
            if path.is_file() and path.stat().st_mode & 0o111:
                found.setdefault(path.name, path)
    found.pop(trial.subject.type, None)
    return [Delegate(trial.folder(), name, real, executor.bin_dirs, hides=True) for name, real in sorted(found.items())]
