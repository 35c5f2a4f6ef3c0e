"""Which pods kubelet has: those of a folder of manifests, and those that `run` has recorded (kubelet's config mux)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.kubelet.file_source import FileSource
from harness.kubelet.labels import CONFIG_SOURCE
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.v1 import V1Pod

RUN_SOURCE: Final = "run"
"""The source of a pod that `cni-harness run` has recorded; that of a static pod is `file`."""

_PERIOD_S: Final = 0.5


class Sources(threading.Thread):
    """Looks for changes twice a second, and hands all pods to `on_pods`, which is set before, after each.

    Without a folder, every recorded pod is wanted: a single pass leaves the static pods of an ended kubelet alone.
    """

    def __init__(
        self,
        records: PodRecords,
        *,
        manifests: Path | None,
        node_name: str,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="sources", daemon=True)
        self._records = records
        self.on_pods: Callable[[list[V1Pod]], None] = lambda _: None
        self._files = None if manifests is None else FileSource(manifests, node_name)
        self._say = say
        self._static: list[V1Pod] = []
        self._said: set[str] = set()
        self._last: list[V1Pod] | None = None
        self._ended = threading.Event()

    def look(self) -> None:
        """Read what has changed, and hand on the pods if they are others than before. Raises OSError."""
        if self._files is not None and self._files.changed():
            state = self._files.read()
            self._static = state.pods
            for pod in state.pods:
                self._records.set_config_maps(pod, state.config_maps)
            said = {f"{file}: {error}" for file, errors in state.errors.items() for error in errors}
            for line in sorted(said - self._said):
                self._say(line)
            self._said = said
        recorded = [pod for pod in self._records.pods() if self._is_wanted(pod)]
        pods = [*self._static, *recorded]
        if pods != self._last:
            self._last = pods
            self.on_pods(pods)

    def run(self) -> None:
        """Look until `close`."""
        while not self._ended.wait(_PERIOD_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - told; without this thread no change would be seen any more
                self._say(f"manifests: {error}")

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def _is_wanted(self, pod: V1Pod) -> bool:
        if pod.metadata.deletion_timestamp:
            return False
        return self._files is None or pod.metadata.annotations.get(CONFIG_SOURCE) == RUN_SOURCE
