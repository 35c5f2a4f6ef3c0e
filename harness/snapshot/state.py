"""The type of snapshots: sections of named things, and its JSON form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

FORMAT: Final = 1
"""The version of the JSON form; a document of another version is refused."""

FILES: Final = "files"
"""The section, and the place, of the content of folders."""

ELSEWHERE: Final = "elsewhere"
"""The place of a link's other end that is in none of the snapshot's namespaces."""

Things: TypeAlias = dict[str, object]
"""Named things of one kind, each a JSON value. In a list of texts their order counts, as of rules in a chain."""


class SnapshotError(OSError):
    """The state of a node cannot be read, with the failed tool's message; or a document is no snapshot."""


def check_label(label: str) -> None:
    """Raise SnapshotError unless `label` can be a namespace's label in the names of sections."""
    if not label or "/" in label or label == FILES:
        raise SnapshotError(f"label {label!r}: wanted a name without '/', and not {FILES!r}")


@dataclass(frozen=True)
class Snapshot:
    """The state of network namespaces and folders at one moment.

    `sections` are named `LABEL/KIND` ("node/links", "pod/routes") and "files". A section that could not be read is
    absent, and `missing` has the reason: "tc is not installed: qdiscs, filters". `namespaces` and `folders` are its
    subjects.
    """

    sections: Mapping[str, Mapping[str, object]]
    missing: tuple[str, ...] = ()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def section(self, place: str, what: str) -> Mapping[str, object]:
        """Return the things of one kind in one place, none if the snapshot does not have the section."""
        return self.sections.get(f"{place}/{what}", {})

    def to_document(self) -> dict[str, object]:
        """Return the snapshot as a JSON object."""
        return {
            "format": FORMAT,
            "namespaces": dict(self.namespaces),
            "folders": list(self.folders),
            "missing": list(self.missing),
            "sections": {name: dict(things) for name, things in self.sections.items()},
        }

    @classmethod
    def from_document(cls, document: object) -> "Snapshot":
        """Read what `to_document` returned. Raises SnapshotError."""
        match document:
            case {"format": int(version)} if version != FORMAT:
                raise SnapshotError(f"a snapshot of format {version}: this program reads format {FORMAT}")
            case {
                "format": int(),
                "namespaces": dict(namespaces),
                "folders": list(folders),
                "missing": list(missing),
                "sections": dict(sections),
            } if all(isinstance(things, dict) for things in sections.values()):
                for label in namespaces:
                    check_label(label)
                _check_paths("namespaces", namespaces.values())
                _check_paths("folders", folders)
                return cls(sections, tuple(map(str, missing)), namespaces, tuple(folders))
            case _:
                raise SnapshotError("not a snapshot: wanted an object with format, namespaces, folders and sections")


def _check_paths(key: str, paths: Iterable[object]) -> None:
    for path in paths:
        if not isinstance(path, str) or "\0" in path:
            raise SnapshotError(f"{key}: wanted a path, not {path!r}")
