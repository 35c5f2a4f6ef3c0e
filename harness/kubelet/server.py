"""kubelet's HTTP endpoints on a Unix socket: `/healthz`, which is `ok`, and `/pods`, a PodList."""

import json
import os
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from api.pod import V1Pod
from api.status import V1PodStatus

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


class KubeletServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves until `close`; `health` returns why the kubelet is not well, or an empty string."""

    daemon_threads = True

    def __init__(self, path: Path, pods: Pods, health: Callable[[], str]) -> None:
        """Listen at `path`, for root alone; a socket that was left there is replaced. Raises OSError."""
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.pods = pods
        self.health = health
        before = os.umask(0o177)
        # The path of a socket has 107 bytes at most (unix(7)): the folder is named by its descriptor.
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            super().__init__(f"/proc/self/fd/{folder}/{path.name}", _Handler)
        finally:
            os.close(folder)
            os.umask(before)
        self._thread = threading.Thread(target=self.serve_forever, name="kubelet-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and remove the socket."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        self.path.unlink(missing_ok=True)


class _Handler(BaseHTTPRequestHandler):
    server: KubeletServer

    def do_GET(self) -> None:
        """Answer one request."""
        if self.path == "/healthz":
            failure = self.server.health()
            self._answer(500 if failure else 200, failure or "ok", "text/plain; charset=utf-8")
        elif self.path in {"/pods", "/pods/"}:
            items = [pod_document(pod, status) for pod, status in self.server.pods()]
            document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
            self._answer(200, json.dumps(document), "application/json")
        else:
            self._answer(404, "404 page not found\n", "text/plain; charset=utf-8")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing: the log is the pods'."""

    def address_string(self) -> str:
        """Return the client, which has no address on a Unix socket."""
        return "unix"

    def _answer(self, status: int, text: str, type: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
