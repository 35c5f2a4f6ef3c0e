"""Delegates that no configuration names: the plugins that an ADD is seen to execute (flannel, Multus and the like).

Executables are found as SPEC.md section 4 says, on CNI_PATH. A plugin that executes another by its path is not seen.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.conformance.check_options import CheckOptions, HangingError
from harness.conformance.delegates import Delegate
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import Profile, Subject
from harness.conformance.trial import Trial
from harness.libcni.execute import Executor


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
