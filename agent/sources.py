"""Where an agent learns of Nodes: from manifests in a folder, or from an API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from agent.peers import ClusterNode, read_node
from api.documents import ManifestError, read_documents
from kube.client import NODES
from kube.config import ClusterConfig
from kube.informer import Informer

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PAGE: Final = 100
"""Nodes of one page, each of some 10 KiB: a page is decoded at once."""


class NodeSource(Protocol):
    """The Nodes of a cluster, which change."""

    def fileno(self) -> int | None:
        """Return a descriptor that is readable after a change; None if `poll` has to be called now and then."""

    def poll(self) -> bool:
        """Look for a change, and tell whether there is one since the last call."""

    def nodes(self) -> list[ClusterNode] | None:
        """Return all Nodes; None until they are known."""

    @property
    def problems(self) -> list[str]:
        """Why the Nodes may be old or incomplete, for users."""

    def close(self) -> None:
        """End; no other call may follow."""


class ApiNodes:
    """The Nodes of an API server. While it is away, they stay as they were."""

    def __init__(self, config: ClusterConfig) -> None:
        self._informer = Informer(config, NODES, read_node, page=_PAGE)
        self._informer.start()
        self._seen = (False, "")

    def fileno(self) -> int | None:
        """Return the descriptor of the informer."""
        return self._informer.fileno()

    def poll(self) -> bool:
        """Tell whether Nodes or the problem have changed, or the whole list has become known."""
        has_changed = bool(self._informer.take_changes())
        # After it, as it takes the sign that one of these has changed, too.
        before, self._seen = self._seen, (self._informer.has_synced, self._informer.problem)
        return has_changed or before != self._seen

    def nodes(self) -> list[ClusterNode] | None:
        """Return all Nodes; None until the list was read once."""
        return list(self._informer.objects().values()) if self._informer.has_synced else None

    @property
    def problems(self) -> list[str]:
        """Return why the list may be old."""
        return [self._informer.problem] if self._informer.problem else []

    def close(self) -> None:
        """End the informer."""
        self._informer.stop()


class ManifestNodes:
    """The Nodes in a file, or in the files of a folder; a file that cannot be read keeps its last good content."""

    def __init__(self, path: Path) -> None:
        """Read them. Raises OSError if there is nothing at the path."""
        path.stat()
        self._path = path
        self._is_folder = path.is_dir()
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._nodes: dict[Path, list[ClusterNode]] = {}
        self._flaws: dict[Path, str] = {}
        self._lost = ""
        self.poll()

    def fileno(self) -> int | None:
        """Return None: files are looked at."""
        return None

    def poll(self) -> bool:
        """Read the files that have changed."""
        try:
            found = {path: _mark(path) for path in self._files()}
        except OSError as error:
            before, self._lost = self._lost, f"{self._path}: {error.strerror}"
            return before != self._lost
        was_lost, self._lost = bool(self._lost), ""
        if found == self._seen:
            return was_lost
        for path in self._seen.keys() - found.keys():
            self._nodes.pop(path, None)
            self._flaws.pop(path, None)
        for path, mark in found.items():
            if self._seen.get(path) != mark:
                self._read(path)
        self._seen = found
        return True

    def nodes(self) -> list[ClusterNode] | None:
        """Return all Nodes."""
        return [node for _, nodes in sorted(self._nodes.items()) for node in nodes]

    @property
    def problems(self) -> list[str]:
        """Return the faults of files."""
        return [*filter(None, [self._lost]), *self._flaws.values()]

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _files(self) -> list[Path]:
        if not self._is_folder:
            return [self._path]
        return sorted(path for path in self._path.iterdir() if path.suffix in _SUFFIXES and path.name[0] != ".")

    def _read(self, path: Path) -> None:
        try:
            self._nodes[path] = [read_node(each) for each in _nodes_in(path.read_bytes())]
            self._flaws.pop(path, None)
        except OSError as error:
            self._flaws[path] = f"{path}: {error.strerror}"
        except ManifestError as error:
            self._flaws[path] = f"{path}: {error}"


def _mark(path: Path) -> tuple[int, int, int]:
    """Return what differs if a file was written or replaced; zeros if it went."""
    try:
        found = path.stat()
    except OSError:  # it went, or is a link to nothing: reading it tells
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _nodes_in(content: bytes) -> Iterator[dict[str, object]]:
    """Yield the Nodes of a file, also those in lists; other objects are not the agent's.

    Raises ManifestError, also for an empty file: it is being written.
    """
    documents = list(read_documents(content))
    if not documents:
        raise ManifestError("no object in it")
    for document in documents:
        if not isinstance(document, dict):
            raise ManifestError("a document that is no object")
        items = document.get("items")
        for each in items if isinstance(items, list) else [document]:
            if isinstance(each, dict) and each.get("kind", "Node") == "Node":
                name = read_node(each).name
                if not name:
                    raise ManifestError("a Node without a name")
                if not name.isprintable():
                    raise ManifestError(f"a Node of the name {name!r}")
                yield each
