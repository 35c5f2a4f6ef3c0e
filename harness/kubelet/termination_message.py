"""A container's termination message: a file that it may write, or the end of its log (kubelet's getTerminationMessage).

The limits are the API's: 4096 bytes of the file, 2048 bytes or 80 lines of the log.
"""

import secrets
from pathlib import Path
from typing import Final

from harness.cri.messages import CONTAINER_EXITED, ContainerStatus
from harness.files import read_end
from harness.kubelet.labels import TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY

_FILE_BYTES: Final = 4096
_LOG_BYTES: Final = 2048
_LOG_LINES: Final = 80
_CRI_FIELDS: Final = 4


def new_message_file(folder: Path) -> Path:
    """Make the empty file for one start of a container, which any user may write to. Raises OSError."""
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    path = folder / secrets.token_hex(4)
    path.touch(0o666)
    path.chmod(0o666)
    return path


def termination_message(status: ContainerStatus) -> str:
    """Return the runtime's message of an ended container, followed by the container's own."""
    if status.state is not CONTAINER_EXITED:
        return status.message
    own = _from_file(status)
    falls_back = status.annotations.get(TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError"
    if not own and falls_back and status.exit_code and status.log_path:
        own = _from_log(status.log_path)
    return ": ".join(filter(None, (status.message, own)))


def _from_file(status: ContainerStatus) -> str:
    inside = status.annotations.get(TERMINATION_MESSAGE_PATH, "")
    for mount in status.mounts:
        if inside and mount.container_path == inside:
            try:
                return _end_of(mount.host_path, _FILE_BYTES)
            except OSError as error:
                return f"Error on reading termination log {mount.host_path}: {error.strerror}"
    return ""


def _from_log(path: str) -> str:
    try:
        text = _end_of(path, 4 * _LOG_BYTES)
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror}"
    said = "".join(map(_said, text.splitlines()[-_LOG_LINES:]))
    return said.encode()[-_LOG_BYTES:].decode(errors="ignore")


def _said(line: str) -> str:
    """Return the text of a line of the log: with P it goes on in the next one."""
    fields = line.split(" ", _CRI_FIELDS - 1)
    return fields[-1] if fields[2:3] == ["P"] else f"{fields[-1]}\n"


def _end_of(path: str, count: int) -> str:
    """Return the end of a file, which a container may have made; empty if it is missing. Raises OSError."""
    try:
        return read_end(path, count).decode(errors="replace")
    except FileNotFoundError:
        return ""
