"""What the agent of a node changed that it did not make: values before, and lists as it wrote them."""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from skel.state_file import write_whole

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ChangedSysctl(NamedTuple):
    """A kernel parameter: its value before, the agent's own, and others that the kernel changes along, as before."""

    before: str
    own: str
    along: dict[str, str]


class Record:
    """JSON in the agent's folder; without a folder nothing is kept. All raise OSError."""

    def __init__(self, folder: Path | None) -> None:
        """Note the folder, which is made at the first change."""
        self._path = folder / "changed.json" if folder is not None else None

    @property
    def is_kept(self) -> bool:
        """Tell whether there is a folder."""
        return self._path is not None

    def sysctls(self) -> dict[str, ChangedSysctl]:
        """Return the changed kernel parameters by their keys. None are older than the boot, which resets them."""
        told = self._read()
        return {key: ChangedSysctl(*each) for key, each in told["sysctls"].items()} if told["boot"] == _boot() else {}

    @contextmanager
    def changing(self, key: str, before: str, own: str, along: Mapping[str, str]) -> Iterator[None]:
        """Note a change that the block makes; if it fails, the note is taken back."""
        known = self.sysctls()
        self._write(boot=_boot(), sysctls={key: (before, own, dict(along)), **known})
        try:
            yield
        except OSError:
            self._write(sysctls=known)
            raise

    def has_written(self, path: Path, content: bytes) -> bool:
        """Tell whether the agent has written this content into a file."""
        return _digest(content) in self._read()["files"].get(str(path.absolute()), ())

    @contextmanager
    def writing(self, path: Path, content: bytes) -> Iterator[None]:
        """Note the content that the block writes into a file. If it is killed, the content before is known, too."""
        name, files = str(path.absolute()), self._read()["files"]
        self._write(files={**files, name: [*files.get(name, ()), _digest(content)]})
        yield
        self._write(files={**files, name: [_digest(content)]})

    def files(self) -> list[Path]:
        """Return the files that were written."""
        return [Path(name) for name in self._read()["files"]]

    def remove(self) -> None:
        """Forget all."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        known: dict[str, Any] = {"boot": "", "sysctls": {}, "files": {}}
        try:
            return known | json.loads(self._path.read_bytes()) if self._path is not None else known
        except FileNotFoundError:
            return known
        except ValueError:
            raise OSError(errno.EIO, f"{self._path} is damaged; after its removal, its changes stay") from None

    def _write(self, **changed: object) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(self._path), json.dumps(self._read() | changed).encode(), mode=0o600, durable=True)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _boot() -> str:
    return _BOOT_ID.read_text().strip()
