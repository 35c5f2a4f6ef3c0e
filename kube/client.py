"""Requests to the Kubernetes API. Objects are JSON as the server sent it, so unknown keys are kept.

https://kubernetes.io/docs/reference/using-api/api-concepts/ describes lists in pages, watches and patches.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from http.client import HTTPResponse
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from kube.backoff import Backoff
from kube.config import ClusterConfig
from kube.connection import Connection, error_of
from kube.errors import UNAUTHORIZED, ApiError, ConnectionLostError

Object: TypeAlias = dict[str, Any]
"""An object of the API, or a list of them, as JSON has it."""

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_JSON: Final = "application/json"

PAGE: Final = 500
"""Objects of one page, as client-go has it."""

_GOOD: Final = range(200, 300)
"""Status codes; an API server sends no client elsewhere."""
_ATTEMPTS: Final = 5
_RESTARTS: Final = 3
"""How often a list is read again from its first page because a `continue` token has expired."""
_WATCH_SECONDS: Final = (240, 480)
"""A watch ends after a random time between these, as client-go's do, so that not all of a cluster end at once."""
_LONGEST_LINE: Final = 16 << 20
"""Bytes of one event; an object in etcd has at most 1.5 MiB."""
_CHUNK: Final = 1 << 16


class Resource(NamedTuple):
    """A kind of objects: `v1` or `GROUP/VERSION`, its name in paths, and whether its objects are in namespaces."""

    group_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, of those of a namespace, of one of them, or of a part of it."""
        parts = ["api" if "/" not in self.group_version else "apis", self.group_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(each, safe="") for each in (name, subresource) if each]
        return "/" + "/".join(parts)


NODES: Final = Resource("v1", "nodes", namespaced=False)
PODS: Final = Resource("v1", "pods")
NAMESPACES: Final = Resource("v1", "namespaces", namespaced=False)
EVENTS: Final = Resource("v1", "events")
LEASES: Final = Resource("coordination.k8s.io/v1", "leases")


class Selection(NamedTuple):
    """Which objects of a resource: of one namespace or all, by labels, by fields (in the API's syntax)."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """Return the parameters of a request."""
        return {key: value for key, value in (("labelSelector", self.labels), ("fieldSelector", self.fields)) if value}


EVERYTHING: Final = Selection()


class Page(NamedTuple):
    """A part of a list; each page of one list has the same resource version."""

    items: list[Object]
    resource_version: str
    restarted: bool = False
    """Whether the list begins again with this page: what earlier pages had is void."""


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object; that of a bookmark has a resource version alone."""

    type: str
    object: Object


class Client:
    """Requests of one thread, on one connection.

    `timeout` limits each wait for the server, in seconds. `sleep` waits between attempts; a stop may cut it short.
    """

    def __init__(
        self, config: ClusterConfig, *, timeout: float = 30.0, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._connection = Connection(config, timeout)
        self._sleep = sleep

    def close(self) -> None:
        """Close the connection; a further request opens it again."""
        self._connection.close()

    def interrupt(self) -> None:
        """End the request of another thread, and forbid further ones: they raise ConnectionLostError."""
        self._connection.interrupt()

    def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Object:
        """Return an object. Raises ApiError, ConnectionLostError, ConfigError, as all requests do."""
        return self._json("GET", resource.path(namespace, name, subresource))

    def create(
        self, resource: Resource, content: Object, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Object:
        """Make an object, or with a name and a subresource a part of one, and return it as the server has it.

        It is not sent again after a lost connection.
        """
        return self._json("POST", resource.path(namespace, name, subresource), content, _JSON)

    def update(self, resource: Resource, content: Object, subresource: str = "") -> Object:
        """Replace an object, which its own name and namespace tell; a 409 says that it has changed meanwhile."""
        metadata = content["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return self._json("PUT", path, content, _JSON)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: object,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: str = MERGE_PATCH,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Change an object by a patch of one of the four kinds; APPLY_PATCH wants `fieldManager` in `query`."""
        return self._json("PATCH", resource.path(namespace, name, subresource), patch, kind, query)

    def delete(self, resource: Resource, name: str, namespace: str = "", options: Object | None = None) -> Object:
        """Delete an object; the options are metav1.DeleteOptions. Returns a Status, or the object that will go."""
        return self._json("DELETE", resource.path(namespace, name), options, _JSON if options else "")

    def list_pages(self, resource: Resource, selection: Selection = EVERYTHING, limit: int = PAGE) -> Iterator[Page]:
        """Read a list in pages of at most `limit` objects, so that a long one needs little memory.

        If a `continue` token expires on the way, the list begins again, at last in one page.
        """
        path = resource.path(selection.namespace)
        restarts, token, restarted = 0, "", False
        while True:
            query = selection.query()
            if restarts < _RESTARTS:
                query["limit"] = str(limit)
            if token:
                query["continue"] = token
            try:
                answer = self._json("GET", path, query=query)
            except ApiError as error:
                if not token or not error.is_expired:
                    raise
                restarts, token, restarted = restarts + 1, "", True
                continue
            metadata, items = answer.get("metadata") or {}, answer.get("items") or []
            if not (isinstance(metadata, dict) and isinstance(items, list) and all(map(_is_object, items))):
                raise ConnectionLostError(f"the answer to {path} is no list of objects")
            yield Page(items, str(metadata.get("resourceVersion") or ""), restarted)
            restarted, token = False, metadata.get("continue") or ""
            if not token:
                return

    def list_all(self, resource: Resource, selection: Selection = EVERYTHING) -> list[Object]:
        """Return all objects of a list at once."""
        items: list[Object] = []
        for page in self.list_pages(resource, selection):
            if page.restarted:
                items.clear()
            items += page.items
        return items

    def watch(
        self, resource: Resource, resource_version: str, selection: Selection = EVERYTHING
    ) -> Generator[WatchEvent, None, None]:
        """Begin a watch, and return the events after a resource version, until the server ends the watch.

        The iterator raises ApiError for an event of the type ERROR (410 if the version is too old), and
        ConnectionLostError if the connection ends in the middle of an event, or the server is silent for longer than it
        may be. The watch occupies this client: another request ends it.
        """
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 -- no secret
        query = selection.query() | {
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        target = f"{resource.path(selection.namespace)}?{urlencode(query)}"
        response = self._checked("GET", target, None, "")
        self._connection.wait_longer(seconds)
        return self._events(response)

    def _events(self, response: HTTPResponse) -> Generator[WatchEvent, None, None]:
        try:
            for line in self._lines(response):
                yield _event(line)
        finally:
            self._connection.close()  # the rest of the stream would precede the next answer

    def _lines(self, response: HTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a stream, which may come in pieces."""
        rest = bytearray()
        while True:
            with self._connection.translated_errors():
                piece = response.read1(_CHUNK)
            if not piece:
                break
            searched = len(rest)
            rest += piece
            while (end := rest.find(b"\n", searched)) >= 0:
                line = bytes(rest[:end])
                del rest[: end + 1]
                searched = 0
                if line.strip():
                    yield line
            if len(rest) > _LONGEST_LINE:
                raise ConnectionLostError(f"an event of more than {_LONGEST_LINE} bytes")
        if rest.strip():
            raise ConnectionLostError("the connection ended in the middle of an event")

    def _json(
        self,
        method: str,
        path: str,
        content: object = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Send a request, again if the server asks for patience, and return the object of the answer.

        After a lost connection only a GET is sent again: the server may have followed any other request.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        body = None if content is None else json.dumps(content, separators=(",", ":")).encode()
        backoff = Backoff()
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._answer(method, target, body, content_type)
            except ApiError as error:
                if not (error.is_temporary and (method == "GET" or error.retry_after is not None)):
                    raise
                self._sleep(backoff.next(at_least=error.retry_after or 0.0))
            except ConnectionLostError:
                if method != "GET" or self._connection.is_interrupted:
                    raise
                self._sleep(backoff.next())
        return self._answer(method, target, body, content_type)

    def _answer(self, method: str, target: str, body: bytes | None, content_type: str) -> Object:
        response = self._checked(method, target, body, content_type)
        with self._connection.translated_errors():
            content = response.read()
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ApiError(response.status, "", f"{method} {target}: the answer is no JSON object")
        return answer

    def _checked(self, method: str, target: str, body: bytes | None, content_type: str) -> HTTPResponse:
        """Return the head of a good answer. A token in a file may have been replaced: it is read once more."""
        for attempt in range(2):
            response = self._connection.request(method, target, body=body, content_type=content_type)
            if response.status in _GOOD:
                return response
            with self._connection.translated_errors():
                error = error_of(response, response.read())
            if error.code != UNAUTHORIZED or attempt:
                raise error
            self._connection.close()  # certificates are shown when a connection begins
        raise AssertionError  # the second attempt has returned or raised


def _is_object(content: object) -> bool:
    """Tell whether JSON is an object of the API, as far as this client reads it."""
    return isinstance(content, dict) and isinstance(content.get("metadata") or {}, dict)


def _event(line: bytes) -> WatchEvent:
    try:
        event = json.loads(line)
        kind, content = event["type"], event["object"]
    except (ValueError, TypeError, KeyError):
        raise ConnectionLostError(f"a malformed event: {line[:100]!r}") from None
    if not isinstance(kind, str) or not _is_object(content):
        raise ConnectionLostError(f"a malformed event: {line[:100]!r}")
    if kind == "ERROR":
        raise ApiError.of(content)
    return WatchEvent(kind, content)
