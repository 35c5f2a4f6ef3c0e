"""Records a terminal: types commands into a shell on a fresh machine, and keeps its output with times.

The recording is an asciicast of version 2 (docs.asciinema.org/manual/asciicast/v2): a line with the terminal's size,
then one event a line. `asciinema play docs/recording.cast` plays it.
"""

import codecs
import fcntl
import json
import os
import select
import struct
import subprocess
import termios
import time
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.nodes import Node

_ROOT: Final = Path(__file__).resolve().parents[2]
RECORDING: Final = _ROOT / "docs" / "recording.cast"
_GREP: Final = r"grep -oE '.*├ (Sync|create|Run|setup|[Aa]dd|ExecPluginWithR|cmdA|start)\S+ *\S*'"
SCRIPT: Final = (
    "cni-harness run -f docs/examples/web.yaml --trace 2>&1 | " + _GREP,
    "cni-harness get pods",
    "cni-harness logs web -c neighbour",
    "cni-harness topology",
    "cni-harness delete web",
)
"""The commands that are typed."""
_PREPARATION: Final = (
    "cni-harness install --bin-dir /opt/cni/bin --conf-dir /etc/cni/net.d",
    "mkdir -p /etc/cni/net.d",
    "cp conf/60-portmap.conflist /etc/cni/net.d/",
)
"""Commands of the walkthrough that are not recorded: their output is long."""
_CLEANING: Final = ("cni-harness uninstall", "ip link delete cni-portmap")
COLUMNS: Final = 100
ROWS: Final = 50
PROMPT: Final = "\x1b]133;A\x07# "
"""Begins with the control sequence by which shells mark their prompts. Terminals do not show it."""
_KEY_S: Final = 0.03
"""Seconds between two keys."""
_PAUSE_S: Final = 1.0
"""Longer times without output are shortened to this."""
_READING_S: Final = 2.0
"""Between the output of a command and the next command."""
_FIRST_LINES: Final = 10
"""Lines of output that are there at the start."""
_TIME_LIMIT_S: Final = 300.0


class Event(NamedTuple):
    """An event of an asciicast: seconds since the start; "o" for output, "m" for the start of a command; the text."""

    time: float
    kind: str
    text: str


class Cast(NamedTuple):
    """A recorded terminal of `COLUMNS` and `ROWS`."""

    events: tuple[Event, ...]

    def commands(self) -> list[str]:
        """Return the commands that were typed."""
        return [event.text for event in self.events if event.kind == "m"]

    def document(self) -> str:
        """Return the recording as an asciicast."""
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "A Pod, from its manifest to its end"}
        lines = [header, *([event.time, event.kind, event.text] for event in self.events)]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the recording that `document` wrote. Raises ValueError."""
        _, *lines = text.splitlines()
        return cls(tuple(Event(*json.loads(line)) for line in lines))


class _Screen:
    """Our end of a terminal, and the events until now."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begin = time.monotonic()
        self.events: list[Event] = []

    def type(self, command: str) -> None:
        """Type a command, key by key, and Enter; keep all output until the next prompt."""
        self._keep("m", command)
        for key in f"{command}\n":
            os.write(self._terminal, key.encode())
            deadline = time.monotonic() + _KEY_S
            while (left := deadline - time.monotonic()) > 0:
                self._read(left)
        self.wait_for_prompt()

    def wait_for_prompt(self) -> None:
        """Keep all output until the next prompt. Raises TimeoutError."""
        deadline = time.monotonic() + _TIME_LIMIT_S
        while not (self.events and self.events[-1].text.endswith(PROMPT)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no prompt within {_TIME_LIMIT_S:.0f} s")
            self._read(1.0)

    def _read(self, seconds: float) -> None:
        if select.select([self._terminal], [], [], seconds)[0]:
            self._keep("o", self._decoder.decode(os.read(self._terminal, 65536)))

    def _keep(self, kind: str, text: str) -> None:
        self.events.append(Event(time.monotonic() - self._begin, kind, text))


def record(machine: Node) -> Cast:
    """Type `SCRIPT` on a fresh machine. Raises AssertionError if the preparation fails, TimeoutError."""
    for command in _PREPARATION:
        machine.run(["sh", "-c", f"cd {_ROOT} && {command}"])
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    environment = {**machine.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": PROMPT}
    shell = ["setsid", "--ctty", *machine.command(["sh", "-c", f"cd {_ROOT} && exec sh -i"])]
    with subprocess.Popen(shell, env=environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        try:
            screen = _Screen(ours)
            screen.wait_for_prompt()
            for command in SCRIPT:
                screen.type(command)
        finally:
            os.close(ours)  # the shell gets SIGHUP
            process.terminate()
    for command in _CLEANING:
        machine.run(["sh", "-c", f"cd {_ROOT} && {command}"])
    return Cast(_shortened(screen.events))


def _shortened(events: list[Event]) -> tuple[Event, ...]:
    """Set the pauses, and move the start: the first command and some lines of its output are there at 0 s."""
    shortened: list[Event] = []
    before = now = 0.0
    for event in events:
        now += _READING_S if event.kind == "m" else min(event.time - before, _PAUSE_S)
        before = event.time
        shortened.append(event._replace(time=now))
    lines = accumulate(event.text.count("\n") for event in shortened)
    start = next(event.time for event, count in zip(shortened, lines, strict=True) if count > _FIRST_LINES)
    return tuple(event._replace(time=round(max(0.0, event.time - start), 2)) for event in shortened)
