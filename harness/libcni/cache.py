"""Results on disk, in libcni's folder and format, so that either runtime can delete the other's attachments.

`<cache_dir>/results/<network>-<container ID>-<ifname>` holds one JSON object: the arguments of the attachment, the
network list as it was (base64), and the result of its ADD.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.files import read_regular, write_atomically
from harness.libcni.networks import NetworkList
from harness.libcni.request import ContainerAttachment
from skel.decoders import choice, dict_of, list_of, raw, string
from skel.environment import check_container_id, check_ifname, check_network_name
from skel.errors import CniError
from skel.record import Record, expected, field
from skel.strict_json import decode_json

_KIND = "cniCacheV1"
_LARGEST = 1 << 26  # bytes of a cached result; one of thousands of addresses has a few hundred kilobytes


@dataclass(frozen=True)
class CachedAttachment:
    """An existing attachment: its configuration (JSON text, may be empty) and its result."""

    network: str
    attachment: ContainerAttachment
    config: bytes
    result: dict[str, object] | None


class ResultCache:
    """The results of a node. `warn` gets a line for each unreadable file."""

    def __init__(self, cache_dir: Path, *, warn: Callable[[str], object]) -> None:
        self._folder = cache_dir / "results"
        self._warn = warn

    def path(self, network: str, container_id: str, ifname: str) -> Path:
        """Return the file of an attachment. Raises CniError for names that could lead out of the folder."""
        check_network_name(network)
        check_container_id(container_id)
        check_ifname(ifname)
        return self._folder / f"{network}-{container_id}-{ifname}"

    def store(self, network: NetworkList, attachment: ContainerAttachment, result: Mapping[str, object]) -> None:
        """Write the result of an ADD durably; a crash leaves the old file or the new one. Raises OSError."""
        path = self.path(network.name, attachment.container_id, attachment.ifname)
        entry: dict[str, object] = {
            "kind": _KIND,
            "containerId": attachment.container_id,
            "config": base64.b64encode(network.raw).decode(),
            "ifName": attachment.ifname,
            "networkName": network.name,
        }
        optional = {
            "netns": attachment.netns,
            "cniArgs": attachment.cni_args,
            "capabilityArgs": attachment.capability_args,
            "result": result,
        }
        entry.update({key: value for key, value in optional.items() if value})
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, json.dumps(entry, separators=(",", ":"), allow_nan=False).encode(), mode=0o600)

    def load(self, network: str, container_id: str, ifname: str) -> CachedAttachment | None:
        """Return the cached attachment; None if there is none, or (with a warning) if it is unreadable.

        A bare result counts as one; early libcni wrote it without the other keys.
        """
        path = self.path(network, container_id, ifname)
        bare = CachedAttachment(network, ContainerAttachment(container_id, "", ifname), b"", None)
        cached = self._read(path, bare)
        if cached is None:
            return None
        found = (cached.network, cached.attachment.container_id, cached.attachment.ifname)
        if found != (network, container_id, ifname):
            # Names may hold the '-' that joins them, so two attachments can have the same file name.
            self._warn(f"result cache: ignoring {path}: it is of network {found[0]}, container {found[1]}")
            return None
        return cached

    def holds(self, network: str, container_id: str, ifname: str) -> bool:
        """Tell whether an attachment has a file, readable or not."""
        return self.path(network, container_id, ifname).exists()

    def remove(self, network: str, container_id: str, ifname: str) -> None:
        """Remove the file of an attachment; a missing one is no error. Raises OSError."""
        self.path(network, container_id, ifname).unlink(missing_ok=True)

    def attachments(self, container_id: str = "") -> list[CachedAttachment]:
        """Return the cached attachments of all containers, or of one, by file name; unreadable files warn."""
        try:
            paths = sorted(self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        named = (path for path in paths if not path.name.startswith("."))
        if container_id:
            named = (path for path in named if f"-{container_id}-" in path.name)
        found = filter(None, (self._read(path) for path in named))
        return [cached for cached in found if container_id in {"", cached.attachment.container_id}]

    def _read(self, path: Path, bare: CachedAttachment | None = None) -> CachedAttachment | None:
        """Read a file. A bare result is added to `bare`, if that is given."""
        try:
            entry = decode_json(read_regular(path, _LARGEST))
            if bare is not None and isinstance(entry, dict) and "kind" not in entry and "cniVersion" in entry:
                return CachedAttachment(bare.network, bare.attachment, b"", entry)
            return _Entry.decode(entry).cached()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"result cache: {path}: {error.strerror}")
        except (ValueError, CniError) as error:
            self._warn(f"result cache: ignoring {path}: {error}")
        return None


def _filled(value: object, path: str) -> str:
    if not string(value, path):
        raise expected("a name", value, path)
    return string(value, path)


def _base64(value: object, path: str) -> bytes:
    try:
        return base64.b64decode(string(value, path), validate=True)
    except ValueError:
        raise expected("base64", value, path) from None


def _pair(value: object, path: str) -> tuple[str, str]:
    match value:
        case [str(key), str(text)]:
            return key, text
    raise expected("a pair of strings", value, path)


class _Entry(Record):
    """A file of the cache. Keys that libcni omits when empty may be missing."""

    kind: str = field(choice(_KIND))
    container_id: str = field(_filled)
    config: bytes = field(_base64, default=b"")
    if_name: str = field(_filled)
    network_name: str = field(_filled)
    netns: str = field(string, default="")
    cni_args: list[tuple[str, str]] = field(list_of(_pair), default=list)
    capability_args: dict[str, object] = field(dict_of(raw), default=dict)
    result: dict[str, object] | None = field(dict_of(raw), default=None)

    def cached(self) -> CachedAttachment:
        attachment = ContainerAttachment(
            container_id=self.container_id,
            netns=self.netns,
            ifname=self.if_name,
            cni_args=tuple(self.cni_args),
            capability_args=self.capability_args,
        )
        return CachedAttachment(self.network_name, attachment, self.config, self.result)
