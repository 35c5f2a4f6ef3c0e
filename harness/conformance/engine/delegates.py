"""A substitute for a delegate, first on CNI_PATH: it records each execution, and gives prescribed answers."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from harness.conformance.engine.requests import execute, json_object
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.libcni.execute import Execution, Executor, PluginNotFoundError
from harness.overload import overload

_SECONDS: Final = 30.0
"""The timeout of the real delegate."""
FAILURE_CODE: Final = 117
FAILURE_MESSAGE: Final = "the conformance suite wants this delegate to fail"
REMARK: Final = "a remark of the delegate on its standard error"
"""The line that every execution writes there."""

# /proc/$$/environ is the environment before the shell has changed it.
# The limit of 999 ends the loop if the folder cannot be written.
_SCRIPT: Final = r"""#!/bin/sh
number=0
until mkdir "$delegate_log/$number" 2>/dev/null || [ "$number" -ge 999 ]; do number=$((number + 1)); done
cat "/proc/$$/environ" >"$delegate_log/$number/environ"
cat >"$delegate_log/$number/stdin"
printf '%s\n' "$delegate_remark" >&2
answer="$delegate_answers/$CNI_COMMAND"
if [ ! -e "$answer" ] || [ -e "$answer.real" ]; then
    CNI_PATH=${delegate_path:-$CNI_PATH} "$delegate_real" <"$delegate_log/$number/stdin" >"$delegate_log/$number/stdout"
    code=$?
fi
if [ -e "$answer" ]; then
    cat "$answer"
    exit "$(cat "$answer.code")"
fi
cat "$delegate_log/$number/stdout"
exit "$code"
"""


class DelegateAnswer(NamedTuple):
    """The substitute's answer. With `after_real` the real delegate is executed before."""

    stdout: str
    code: int
    after_real: bool = False


FAILURE: Final = DelegateAnswer(f'{{"cniVersion":"1.0.0","code":{FAILURE_CODE},"msg":"{FAILURE_MESSAGE}"}}\n', 1)
"""An error object of the substitute's own."""


class DelegateRecord(NamedTuple):
    """One execution of the substitute. `stdout` is the real delegate's."""

    verb: str
    environ: Mapping[str, str]
    stdin: bytes
    stdout: bytes


class Delegate:
    """The substitute in its folder. `environ` puts it first on CNI_PATH: give that to the plugin under test."""

    def __init__(
        self,
        folder: Path,
        name: str,
        real: Path,
        bin_dirs: tuple[Path, ...],
        *,
        below: str = "",
        hides: bool = False,
    ) -> None:
        """Write it as `name` into a folder of its own below `folder`; it executes `real`.

        If it `hides`, the real one gets a CNI_PATH of `bin_dirs` alone, without any substitutes.
        """
        self._real = real
        self._log = folder / "log"
        self._answers = folder / "answers"
        self.bin_dir = bin_dir = folder / "bin"
        self.path = bin_dir / below / name
        places = (self._log, self._answers, self.path.parent)
        for place in places:
            place.mkdir(parents=True, exist_ok=True)
        usual = ":".join(map(str, bin_dirs)) if hides else ""
        values = {"log": self._log, "answers": self._answers, "real": real, "remark": REMARK, "path": usual}
        self.path.write_text(with_variables(_SCRIPT, {f"delegate_{key}": value for key, value in values.items()}))
        self.path.chmod(0o755)
        self.environ = {"CNI_PATH": ":".join(map(str, (bin_dir, *bin_dirs)))}

    def answer(self, verb: str, answer: DelegateAnswer | None) -> None:
        """Answer one verb this way from now on; None for the real one's answer."""
        files = [self._answers / f"{verb}{suffix}" for suffix in ("", ".code", ".real")]
        for path in files:
            path.unlink(missing_ok=True)
        if answer is not None:
            said, code, real = files
            said.write_text(answer.stdout)
            code.write_text(str(answer.code))
            if answer.after_real:
                real.touch()

    def records(self, verb: str = "") -> list[DelegateRecord]:
        """Return its executions in their order; only those of `verb` if that is not empty."""
        folders = sorted(self._log.iterdir(), key=lambda folder: int(folder.name))
        records = [_record(folder) for folder in folders]
        return [record for record in records if verb in {"", record.verb}]

    def ask_real(self, trial: Trial, verb: str) -> Execution:
        """Execute the real one as at the last ADD, but with this verb, and with the ADD's result as prevResult.

        Raises NotApplicableError if the plugin has not executed its delegate with a configuration.
        """
        last, given = next(((each, json_object(each.stdin)) for each in reversed(self.records("ADD"))), (None, None))
        if last is None or given is None:
            raise NotApplicableError("the plugin does not execute its delegate with a configuration")
        request = {**given, "prevResult": trial.result_document()}
        environ = {**last.environ, "CNI_COMMAND": verb}
        stdin = json.dumps(request).encode()
        return trial.node.run(execute, self._real, environ=environ, stdin=stdin, timeout=_SECONDS * overload())

    def demand(self, verb: str, execution: Execution, why: str) -> DelegateRecord:
        """Return the last execution with `verb`. Raises ViolationError if the plugin has not executed it so."""
        records = self.records(verb)
        if not records:
            others = ", ".join(record.verb for record in self.records()) or "nothing"
            raise ViolationError(f"{verb} executed on {self.path.name}, {why}", f"executed: {others}", execution)
        return records[-1]


def recording(trial: Trial, *, below: str = "", named: bool = False) -> Delegate:
    """Make a substitute for the subject's first delegate. Raises NotApplicableError if the subject has no delegate.

    With `below` it is in a folder of that name below the one that is on CNI_PATH. `named` demands that it is the IPAM
    plugin that the configuration names: another delegate may get another configuration, and its result may be changed.
    """
    if not trial.subject.delegates:
        raise NotApplicableError("the configuration names no IPAM plugin, and ADD executes no plugin of CNI_PATH")
    name = trial.subject.delegates[0]
    if named and name != trial.subject.delegate:
        raise NotApplicableError(f"ADD executes {name}, which is not the ipam.type of the configuration")
    executor = Executor(trial.subject.bin_dirs)
    try:
        real = executor.find(name)
    except PluginNotFoundError as error:
        raise NotApplicableError(str(error)) from None
    trial.delegate_recorded = True
    return Delegate(trial.folder(), name, real, executor.bin_dirs, below=below)


def with_variables(script: str, values: Mapping[str, object]) -> str:
    """Return a shell script with these variables set behind its first line."""
    lines = script.splitlines(keepends=True)
    lines[1:1] = [f"{name}={shlex.quote(str(value))}\n" for name, value in values.items()]
    return "".join(lines)


def environ_of(path: Path) -> dict[str, str]:
    """Return the environment in a copy of /proc/PID/environ. Raises OSError."""
    pairs = (pair.partition("=") for pair in path.read_bytes().decode(errors="surrogateescape").split("\0"))
    return {name: value for name, sign, value in pairs if sign}


def _record(folder: Path) -> DelegateRecord:
    environ = environ_of(folder / "environ")
    stdout = folder / "stdout"
    return DelegateRecord(
        verb=environ.get("CNI_COMMAND", ""),
        environ=environ,
        stdin=(folder / "stdin").read_bytes(),
        stdout=stdout.read_bytes() if stdout.exists() else b"",
    )
