"""Three lines in the `conftest.py` of a plugin's author, for an item of each conformance check.

    from cni_harness_pytest import conformance

    conformance(bin_dir="build", conf="my.conflist")

An item is `conftest.py::conformance::bridge[del-twice]` and has the marker `conformance`. A check that does not apply
is skipped with the reason, a warning is a `ConformanceWarning`, a failure is told as `cni-harness conformance` does. A
known failure is an expected one (xfail).
Like tests with the marker `sudo`, the items run as root, or are skipped. No plugin is executed until one of them runs.

The checks run in `cni-harness conformance session`, a process that is asked in lines of JSON. It finds this
installation's packages first. Neither the author's folder, which pytest may be started in, nor PYTHONPATH can put other
packages before them.
"""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

_DECLARED: Final = "__conformance__"
"""The variable of a conftest.py that keeps its declarations."""

Answer = dict[str, Any]

_SITE: Final = Path(__file__).resolve().parents[1]
"""The folder that has this package and the harness beside it."""
_PROGRAM: Final = f"import sys; sys.path.insert(0, {str(_SITE)!r}); from harness.cli.main import main; main()"


class ConformanceWarning(UserWarning):
    """The plugin breaks a convention, or lacks something optional; or a known failure passes."""


Declaration = dict[str, object]
"""The arguments of one call of `conformance`, with paths from the root: JSON as it is."""


def conformance(  # noqa: PLR0913 -- most calls give two, by name
    *,
    bin_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    conf: str | os.PathLike[str],
    name: str = "conformance",
    plugins: Sequence[str] = (),
    profile: str | None = None,
    checks: Sequence[str] = (),
    skip: Sequence[str] = (),
    level: str | None = None,
    fail_on: str = "works",
    known_failures: str | os.PathLike[str] | None = None,
    watch: Sequence[str | os.PathLike[str]] = (),
    prepare: str | os.PathLike[str] | None = None,
    pod_interface: bool = False,
    timeout: float = 30.0,
) -> None:
    """Declare, in a conftest.py, that the plugins of a network list are examined; paths count from its folder.

    Args:
        bin_dir: the folder of the executables, or several, in which they are looked for in this order.
        conf: the network list, or the configuration of one plugin.
        name: the collector of the items; needed if one conftest.py declares several lists.
        plugins: only these of the list; otherwise all, and the IPAM plugins that they delegate to.
        profile: "interface", "chained" or "ipam", if the place in the list does not tell the kind of plugin.
        checks: only these checks; patterns such as "del-*" are possible.
        skip: none of these checks.
        level: the least binding level, "MUST", "SHOULD", "MAY" or "CONVENTION".
        fail_on: which violations fail, the others warn: one of the levels, or "works" for each MUST and each check
            whose failure has an effect.
        known_failures: a file as of `cni-harness conformance --known-failures`; the failures in it are expected.
        watch: folders that must have no new files after a check.
        prepare: an executable that prepares each node for the plugins.
        pod_interface: whether an IPAM plugin finds its interface in each container, as dhcp needs it.
        timeout: the limit for one execution, in seconds.

    Raises pytest.UsageError outside of a conftest.py, or for a name that is taken.
    """
    frame = inspect.currentframe()
    caller: dict[str, Any] = frame.f_back.f_globals if frame and frame.f_back else {}
    conftest = Path(caller.get("__file__", ""))
    if conftest.name != "conftest.py":
        raise pytest.UsageError(f"{conftest}: conformance() is for a conftest.py")
    declared: dict[str, Declaration] = caller.setdefault(_DECLARED, {})
    if name in declared:
        raise pytest.UsageError(f"{conftest}: conformance() twice with the name {name!r}: give one another name=")
    folder = conftest.parent
    several = [bin_dir] if isinstance(bin_dir, (str, os.PathLike)) else bin_dir
    declared[name] = {
        "bin_dirs": [str(folder / each) for each in several],
        "conf": str(folder / conf),
        "plugins": list(plugins),
        "profile": profile,
        "checks": list(checks),
        "skip": list(skip),
        "level": level,
        "fail_on": fail_on,
        "known_failures": None if known_failures is None else str(folder / known_failures),
        "watched": [str(folder / each) for each in watch],
        "prepare": None if prepare is None else str(folder / prepare),
        "pod_interface": pod_interface,
        "timeout": timeout,
    }


def declared_by(conftest: object) -> dict[str, Declaration]:
    """Return the declarations of a conftest.py, by name."""
    found: dict[str, Declaration] = getattr(conftest, _DECLARED, {})
    return found


class Session:
    """The process, started at the first question."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, **question: object) -> Answer:
        """Return the answer to one question. Raises RuntimeError if the process ends without one, OSError."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 -- for the types: both are pipes
        assert process.stdout is not None  # noqa: S101 -- for the types
        try:
            with suppress(BrokenPipeError):  # read as the end of the process below
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
        except BaseException:
            # An answer that arrives later would be taken for that of the next question.
            self.end()
            raise
        if not line:
            self.end()
            raise RuntimeError(f"`cni-harness conformance session` ended with exit code {process.returncode}")
        answer: Answer = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process, which first removes the nodes that it made."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        process.wait()

    @staticmethod
    def _start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, "conformance", "session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for pytest, which ends this process
        )


def write_launchers(folder: str | os.PathLike[str]) -> None:
    """Write the executables of this environment's plugins into `folder`. Raises pytest.UsageError."""
    session = Session()
    try:
        answer = session.ask(verb="launchers", folder=os.path.abspath(folder))  # noqa: PTH100 -- no link is followed
    finally:
        session.end()
    if "error" in answer:
        raise pytest.UsageError(answer["error"])
