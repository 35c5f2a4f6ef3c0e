"""Further processes in a running container: `runc exec`, or a process beside one without an image."""

import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.containerd.container_log import last_error
from harness.containerd.container_store import ContainerFolder
from harness.containerd.processes import HOST_PROCESS, program
from harness.containerd.runc import OciRuntime
from harness.cri.messages import ExecSyncResult
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.files import write_atomically

_LIMIT: Final = 16 << 20
"""The bytes of each stream that are kept, as by containerd (maxExecOutputSize)."""
_CHUNK: Final = 65_536
_FAILED: Final = 255
"""The exit code of runc, and of host_process, when they could not run the command."""


class _Command(NamedTuple):
    """A prepared command. The pid file and the log are in a folder that ends with it."""

    words: list[str]
    pid_file: Path
    log: Path


def execute(folder: ContainerFolder, command: Sequence[str], timeout_s: float, runtime_state: Path) -> ExecSyncResult:
    """Run a command, and return its output and exit code. Then nobody has its streams open any more.

    Raises TimeoutError, having killed the command, with containerd's text; RuntimeServiceError if it cannot run.
    """
    with _prepared(folder, command, runtime_state, terminal=False) as prepared:
        process = subprocess.Popen(
            prepared.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            streams = _collect(process, time.monotonic() + timeout_s if timeout_s > 0 else None)
            if streams is None:
                _kill(process, prepared.pid_file)
                raise TimeoutError(
                    f"failed to exec in container: timeout {timeout_s:g}s exceeded: context deadline exceeded"
                )
        _check_started(process.returncode, prepared)
        stdout, stderr = (text.decode(errors="replace") for text in streams)
        return ExecSyncResult(stdout=stdout, stderr=stderr, exit_code=_code(process.returncode))


def execute_with_own_streams(
    folder: ContainerFolder, command: Sequence[str], runtime_state: Path, *, terminal: bool, stdin: bool
) -> int:
    """Run a command with this process's streams, and return its exit code. Raises RuntimeServiceError."""
    with _prepared(folder, command, runtime_state, terminal=terminal) as prepared:
        process = subprocess.Popen(prepared.words, stdin=None if stdin else subprocess.DEVNULL)
        while process.returncode is None:
            with suppress(KeyboardInterrupt):  # the terminal sent it to the command, too
                process.wait()
        _check_started(process.returncode, prepared)
        return _code(process.returncode)


@contextmanager
def _prepared(
    folder: ContainerFolder, command: Sequence[str], runtime_state: Path, *, terminal: bool
) -> Iterator[_Command]:
    record = folder.record()
    first = folder.process()
    try:
        document = _document(folder)
        own = Path(tempfile.mkdtemp(prefix="exec-", dir=folder.path))
    except FileNotFoundError:
        raise NotFoundError(f'container "{record.id}" not found') from None
    pid_file, log, file = own / "pid", own / "log", own / "process.json"
    try:
        process = document["process"]
        process |= {"args": list(command), "terminal": terminal}
        if terminal:
            process["env"].append("TERM=xterm")
        if record.image_id:
            runtime = OciRuntime.found(runtime_state)
            words = runtime.execute(record.id, file, log=log, pid_file=pid_file)
        else:
            process = document | {"pid": first.pid if first else 0}
            words = program(HOST_PROCESS, "exec", str(file), str(log))
        write_atomically(file, json.dumps(process).encode(), mode=0o600)
        yield _Command(words, pid_file, log)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _document(folder: ContainerFolder) -> dict[str, Any]:
    """Return `config.json`, or `host.json`: an earlier release wrote that for a container without an image."""
    try:
        document: dict[str, Any] = json.loads((folder.bundle / "config.json").read_bytes())
    except FileNotFoundError:
        document = json.loads((folder.path / "host.json").read_bytes())
        user = {"uid": document["uid"], "gid": document["gid"], "additionalGids": document["groups"]}
        env = [f"{name}={value}" for name, value in document["env"].items()]
        rights = {"user": user, "noNewPrivileges": document["no_new_privileges"]}
        document["process"] = {"cwd": document["cwd"], "env": env, **rights}
    return document


def _collect(process: subprocess.Popen[bytes], deadline: float | None) -> tuple[bytes, bytes] | None:
    """Read both streams to their end, and wait for the process; None at the deadline."""
    texts = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in texts:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]  # both are pipes
        while selector.get_map():
            ready = selector.select(None if deadline is None else max(0, deadline - time.monotonic()))
            for key, _ in ready:
                piece = os.read(key.fd, _CHUNK)
                if not piece:
                    selector.unregister(key.fileobj)
                kept = texts[key.fileobj]  # type: ignore[index]  # one of the two
                kept += piece[: _LIMIT - len(kept)]
            if deadline is not None and time.monotonic() >= deadline and selector.get_map():
                return None
    try:
        process.wait(None if deadline is None else max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return bytes(texts[process.stdout]), bytes(texts[process.stderr])


def _kill(process: subprocess.Popen[bytes], pid_file: Path) -> None:
    """Kill the command: SIGKILL to runc alone would leave it running."""
    process.kill()
    with suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
    process.wait()


def _check_started(code: int, prepared: _Command) -> None:
    if code == _FAILED and not prepared.pid_file.exists() and (error := last_error(prepared.log)):
        raise RuntimeServiceError(f"failed to exec in container: {error}")


def _code(code: int) -> int:
    return 128 - code if code < 0 else code
