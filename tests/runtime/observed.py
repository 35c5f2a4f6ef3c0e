"""`cni-harness` with a record of its kubelet's work: `python -m tests.runtime.observed FILE ARGS...`.

Each line of FILE is a JSON object: a call that changes something in the runtime, or a pod's status that is new.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from api.status import V1PodStatus
from harness.cli import kubelet_node
from harness.cli.main import main
from harness.kubelet.pod_records import PodRecords
from skel.record import Record

CHANGES = frozenset(
    {
        *("run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox", "create_container", "start_container"),
        *("stop_container", "remove_container", "exec_sync"),
    }
)


class Log:
    """A file of JSON lines; safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, **entry: object) -> None:
        """Append an object."""
        with self._lock, self._path.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")


class ObservedService:
    """A RuntimeService that writes down the calls that change something, when they return."""

    def __init__(self, service: Any, log: Log) -> None:
        self._service = service
        self._log = log

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._service, name)
        if name not in CHANGES:
            return function

        def call(*arguments: object) -> object:
            answer = function(*arguments)
            told = [each.encode() if isinstance(each, Record) else each for each in (*arguments, answer)]
            self._log.write(call=name, arguments=told[:-1], answer=told[-1])
            return answer

        return call


def observe(log: Log) -> None:
    """Put the record into the two places that everything passes."""
    runtime, set_status = kubelet_node._runtime, PodRecords.set_status

    def observed_runtime(*arguments: Any, **named: Any) -> Any:
        service, images = runtime(*arguments, **named)
        return ObservedService(service, log), images

    def observed_status(self: PodRecords, uid: str, status: V1PodStatus) -> None:
        log.write(status=status.encode())
        set_status(self, uid, status)

    kubelet_node._runtime = observed_runtime
    PodRecords.set_status = observed_status  # type: ignore[method-assign]  # a record of each


if __name__ == "__main__":
    observe(Log(Path(sys.argv.pop(1))))
    main()
