"""kubelet's HTTP endpoints on a Unix socket: `/healthz`, which is `ok`, and `/pods`, a PodList."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.pod import V1Pod
from api.status import V1PodStatus
from harness.http_server import JSON, Answer, UnixHttpServer

Pods = Callable[[], list[tuple[V1Pod, V1PodStatus]]]


def pod_document(pod: V1Pod, status: V1PodStatus) -> dict[str, Any]:
    """Return a pod as the API shows it: manifest and status."""
    document = {"apiVersion": "v1", "kind": "Pod", **pod.encode()}
    shown = status.encode()
    for key, ips in (("hostIPs", [status.host_ip] if status.host_ip else []), ("podIPs", status.pod_ips)):
        shown.pop(key, None)
        if ips:
            shown[key] = [{"ip": ip} for ip in ips]
    return {**document, "status": shown}


class KubeletServer(UnixHttpServer):
    """Serves until `close`; `health` returns why the kubelet is not well, or an empty string."""

    def __init__(self, path: Path, pods: Pods, health: Callable[[], str]) -> None:
        """Listen at `path`, for root alone; a socket that was left there is replaced. Raises OSError."""
        self._pods = pods
        self._health = health
        super().__init__(path, self._answer)

    def _answer(self, path: str) -> Answer | None:
        if path == "/healthz":
            failure = self._health()
            return Answer(failure or "ok", status=500 if failure else 200)
        if path in {"/pods", "/pods/"}:
            items = [pod_document(pod, status) for pod, status in self._pods()]
            document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
            return Answer(json.dumps(document), JSON)
        return None
