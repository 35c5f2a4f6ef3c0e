"""The records that recorders have written: the requests of a runtime, and the answers."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.conformance.engine.delegates import environ_of
from harness.conformance.runtime_checks.networks import RecordedNetwork
from harness.conformance.runtime_checks.recorder import read_networks
from harness.files import write_atomically
from skel.strict_json import decode_json

_REPORTS = "reported.json"


class RecordError(Exception):
    """The folder has no records, or they are unreadable."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One execution of a recorder.

    `start` and `end` are its numbers in the order of all starts and ends; `end` is None if it did not end by itself.
    `domain` is the network namespace that it ran in, `netns` the one that CNI_NETNS names, each as the kernel
    identifies it; `netns` is empty if the path is none. `found` tells whether CNI_PATH has its folder.
    """

    type: str
    start: int
    end: int | None
    environ: Mapping[str, str]
    stdin: bytes
    stdout: bytes = b""
    code: int | None = 0
    domain: str = ""
    netns: str = ""
    found: bool = True

    @property
    def verb(self) -> str:
        """The operation."""
        return self.environ.get("CNI_COMMAND", "")

    @property
    def container_id(self) -> str:
        """The container ID, empty if there is none."""
        return self.environ.get("CNI_CONTAINERID", "")

    @property
    def ifname(self) -> str:
        """The interface name, empty if there is none."""
        return self.environ.get("CNI_IFNAME", "")

    @property
    def failed(self) -> bool:
        """Whether it reported an error."""
        return self.code not in {0, None}

    @cached_property
    def request(self) -> Mapping[str, object]:
        """The configuration on standard input; empty if that is not one JSON object."""
        return _object(self.stdin)

    @cached_property
    def result(self) -> Mapping[str, object]:
        """The printed result of an ADD; empty for all else."""
        return _object(self.stdout) if self.verb == "ADD" and not self.failed else {}

    @cached_property
    def message(self) -> str:
        """The message of the printed error, empty for a success."""
        return str(_object(self.stdout).get("msg", "")) if self.failed else ""

    @property
    def version(self) -> str:
        """The `cniVersion` of the request, empty if it has none."""
        version = self.request.get("cniVersion")
        return version if isinstance(version, str) else ""


@dataclass(frozen=True)
class Report:
    """The runtime's answer to its own caller after an operation: a result, or an error. For GC, no container."""

    network: str
    verb: str
    container_id: str = ""
    ifname: str = ""
    result: Mapping[str, object] | None = None
    error: str = ""


@dataclass(frozen=True)
class Records:
    """All records of a folder.

    `living` are the network namespaces, as the kernel identifies them, that exist still. `speaks` is the highest
    version of the specification that the runtime is said to speak, empty if nobody says so.
    """

    networks: Sequence[RecordedNetwork]
    calls: Sequence[RecordedCall]
    reports: Sequence[Report] = ()
    living: frozenset[str] = frozenset()
    speaks: str = ""


def read_records(folder: Path, *, speaks: str = "") -> Records:
    """Read the records below `folder`. Raises RecordError."""
    try:
        networks = read_networks(folder)
        numbers = sorted(int(path.name) for path in (folder / "executions").iterdir() if path.name.isdigit())
        calls = [_call(folder / "executions" / str(number), number) for number in numbers]
        reports = _reports(folder)
    except (OSError, ValueError, TypeError) as error:
        raise RecordError(f"no records of witnesses: {error}") from None
    if not networks:
        raise RecordError(f"no records of witnesses: {folder} has no list of networks")
    known = [call for call in calls if call is not None]
    return Records(networks, known, reports, _living(known), speaks)


def add_report(folder: Path, report: Report) -> None:
    """Add an answer of the runtime to its caller. Not for two processes at once. Raises RecordError, OSError."""
    reports = [*_reports(folder), report]
    documents = [{key: value for key, value in vars(each).items() if value} for each in reports]
    write_atomically(folder / _REPORTS, json.dumps(documents).encode())


def _reports(folder: Path) -> list[Report]:
    """Raises OSError, ValueError, TypeError."""
    path = folder / _REPORTS
    return [Report(**each) for each in json.loads(path.read_bytes())] if path.exists() else []


def _call(record: Path, number: int) -> RecordedCall | None:
    """Return an execution, None if the number is that of an end, or of a recorder that is about to write. OSError."""
    if not (record / "stdin").exists() or not (record / "type").exists():
        return None
    end = _text(record / "end")
    code = _text(record / "code")
    return RecordedCall(
        type=_text(record / "type"),
        start=number,
        end=int(end) if end else None,
        environ=environ_of(record / "environ"),
        stdin=(record / "stdin").read_bytes(),
        stdout=_text(record / "stdout").encode(),
        code=int(code) if code else None,
        domain=_text(record / "domain"),
        netns=_text(record / "netns"),
        found=bool(_text(record / "found")),
    )


def _object(text: bytes) -> Mapping[str, object]:
    with suppress(ValueError):
        if isinstance(document := decode_json(text), dict):
            return document
    return {}


def _text(path: Path) -> str:
    return path.read_text(errors="surrogateescape").strip() if path.exists() else ""


def _living(calls: Sequence[RecordedCall]) -> frozenset[str]:
    """Return the namespaces of the calls whose paths name them still."""
    living = set()
    for call in calls:
        with suppress(OSError):
            found = Path(call.environ.get("CNI_NETNS", "")).stat()
            if call.netns == f"{found.st_dev}:{found.st_ino}":
                living.add(call.netns)
    return frozenset(living)
