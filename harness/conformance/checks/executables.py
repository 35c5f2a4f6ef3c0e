"""The place of the executable: behind a link, in another folder, replaced, or being replaced."""

import shlex
import shutil
from pathlib import Path
from threading import Timer

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import Changes
from harness.conformance.engine.sequences import as_before, round_trip
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.subject import IN_POD

_WRITTEN_FOR = 0.7
"""Seconds that the file of a delegate is held open for writing; libcni's own pauses add up to five."""


@check("executable-linked", "habit-bin-dir")
def executable_linked(trial: Trial) -> None:
    """ADD and DEL work by way of links to the executables, in a folder with another name."""
    links = _links(trial)
    round_trip(trial, "by way of links to the executables", **_from(links, trial))


@check("executable-replaced", "habit-replaced")
def executable_replaced(trial: Trial) -> None:
    """DEL by another copy of the executable, in another place, cleans up after the first copy's ADD."""
    with as_before(trial, "after DEL by a copy of the executable"):
        trial.attach()
        elsewhere = _links(trial)
        replacement = elsewhere / trial.subject.type
        replacement.unlink()
        shutil.copy2(trial.path, replacement)
        expect.succeeded(trial.delete(**_from(elsewhere, trial)), "DEL by a copy of the executable")


@check("delegate-text-file-busy", "skel-text-file-busy", profiles=IN_POD)
def delegate_text_file_busy(trial: Trial) -> None:
    """An IPAM plugin that is being replaced ("text file busy") is tried again."""
    if not trial.subject.delegate:
        raise NotApplicableError("the configuration has no IPAM plugin")
    folder = _links(trial)
    busy = folder / trial.subject.delegate
    original = busy.resolve()
    busy.unlink()
    shutil.copy2(original, busy)
    writer = busy.open("r+b")
    written = Timer(_WRITTEN_FOR, writer.close)
    written.start()
    try:
        execution = trial.add(**_from(folder, trial))
    finally:
        written.join()
    expect.succeeded(execution, "ADD, once the IPAM plugin can be executed,")


def _links(trial: Trial) -> Path:
    """Return a folder with links to all executables beside the plugin's, and to its IPAM plugin."""
    folder = trial.folder() / "plugins of this node"
    folder.mkdir()
    for bin_dir in reversed(trial.subject.bin_dirs):
        for path in bin_dir.absolute().glob("*"):  # nothing if the folder does not exist
            link = folder / path.name
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    return folder


def _from(folder: Path, trial: Trial) -> Changes:
    """Return the changes that execute the plugin, and its delegates, of another folder."""
    path = folder / trial.subject.type
    # The wrapper ignores its last argument, the plugin's usual path.
    return {"environ": {"CNI_PATH": str(folder)}, "wrapper": ("/bin/sh", "-c", f"exec {shlex.quote(str(path))}")}
