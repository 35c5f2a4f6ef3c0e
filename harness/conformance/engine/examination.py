"""One run of the suite, as every report describes it: its findings, the examined executables, and the machine."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from harness.conformance.catalogue import SPEC_VERSION, SUITE_VERSION
from harness.conformance.engine.requests import execute
from harness.conformance.engine.sequences import BARE_PATH
from harness.conformance.finding import Finding
from harness.conformance.reproduce import Arguments, this_program
from harness.conformance.subject import Subject
from harness.conformance.threshold import FailOn
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.locations import own_version
from harness.runtime.node import Node
from harness.runtime.site import Site
from netlink.own_namespaces import in_user_namespace

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
_SECONDS: Final = 5.0
"""The time limit of an execution without a verb."""


@dataclass(frozen=True)
class ExaminedFile:
    """An executable that was examined. `about` is the line that it prints without CNI_COMMAND, empty for none."""

    type: str
    path: Path
    sha256: str
    about: str


def privileges() -> str:
    """Return how this process came to its rights: "root", "sudo" or "user namespace". Raises OSError."""
    if in_user_namespace():
        return "user namespace"
    return "sudo" if os.environ.get("SUDO_UID") else "root"


def _source() -> str:
    """Return the version of this program, and the commit if it is executed from a checkout."""
    product = f"cni-harness {own_version()}"
    if not (_CHECKOUT / ".git").exists() or not (git := shutil.which("git")):
        return product
    # Without locks git does not write into a checkout, which may be another user's.
    options = ("--no-optional-locks", "-c", f"safe.directory={_CHECKOUT}")
    command = [git, *options, "describe", "--always", "--dirty", "--abbrev=40"]
    said = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    return f"{product}, commit {said.stdout.strip() or 'unknown'}"


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The findings of a run, and their circumstances. The defaults describe this process."""

    findings: tuple[Finding, ...]
    files: tuple[ExaminedFile, ...]
    kernel: str = field(default_factory=lambda: os.uname().release)
    began: datetime
    """With a time zone."""
    command: tuple[str, ...] = field(default_factory=lambda: (*this_program(), *sys.argv[1:]))
    """The command line, the program first."""
    privileges: str = field(default_factory=privileges)
    """How the suite came to its rights: "root", "sudo" or "user namespace"."""
    cut_short: str = ""
    """The reason if the run ended before its last check, for example "interrupted"."""
    fail_on: FailOn = FailOn.WORKS
    """Which violations are failures; the others are warnings."""
    arguments: Arguments = field(default_factory=Arguments)
    """The arguments that a command needs to repeat a finding (harness.conformance.reproduce)."""
    left_for_good: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The things that the first ADD leaves on the node, by plugin and network: "nft table ip nat"; no fault."""
    build: str = ""
    """How the plugins were built, in the words of the caller; empty if unknown."""
    source: str = field(default_factory=_source)
    """The program that has the suite: its version, and the commit of a checkout."""
    spec_version: str = SPEC_VERSION
    suite_version: str = SUITE_VERSION


def examined_files(findings: Iterable[Finding], state_dir: Path) -> Iterator[ExaminedFile]:
    """Yield the executables of the findings' plugins, each once, in their order.

    Each is executed without CNI_COMMAND, on a node that they share. Raises OSError if the node cannot be made.
    """
    wanted = dict.fromkeys(found for finding in findings for found in _executables(finding.subject))
    if not wanted:
        return
    with Site(state_dir, "conformance") as site:
        node = site.node()
        for name, path in wanted:
            yield ExaminedFile(name, path, _sha256(path), _about(path, node))


def _executables(subject: Subject) -> Iterator[tuple[str, Path]]:
    executor = Executor(subject.bin_dirs)
    for name in subject.executables:
        try:
            yield name, executor.find(name)
        except PluginNotFoundError:  # removed during the run
            continue


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _about(path: Path, node: Node) -> str:
    """Return the first line that the executable prints without a verb: on stderr, or else on stdout."""
    try:
        said = node.run(execute, path, environ={"PATH": BARE_PATH}, stdin=b"", timeout=_SECONDS)
    except OSError:  # the kernel cannot execute it, as a finding says
        return ""
    text = b"\n".join((said.stderr, said.stdout)).decode(errors="replace")
    return next(filter(None, map(str.strip, text.splitlines())), "")
