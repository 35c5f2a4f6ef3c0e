"""Users of containers: names and groups in the files of an image, by the rules of containerd's `WithUser`."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from harness.cri.messages import ContainerSecurity
from harness.cri.service import RuntimeServiceError
from harness.files import read_regular

_LIMIT: Final = 1 << 20
_PASSWD_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4


class User(NamedTuple):
    """The user of a process; `groups` are all its groups, the first one included."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def user_of(root: Path, security: ContainerSecurity, image_user: str) -> User:
    """Return the user of a container: that of the request, else that of the image, else root.

    A name must be in the image's /etc/passwd. A number may be missing there; its group is 0 then. Raises
    RuntimeServiceError.
    """
    if security.run_as_user is not None:
        wanted = str(security.run_as_user)
        if security.run_as_group is not None:
            wanted += f":{security.run_as_group}"
    elif security.run_as_group is not None:
        raise RuntimeServiceError(f'user group "{security.run_as_group}" is specified without user')
    else:
        wanted = image_user
    name, _, group = (wanted or "0").partition(":")
    entries = [line for line in _lines(root, "passwd") if len(line) == _PASSWD_FIELDS]
    entry = next((line for line in entries if name in {line[0], line[2]}), None)
    if entry is None and not name.isdecimal():
        raise RuntimeServiceError(f'failed to resolve username "{name}": no such entry in /etc/passwd of the image')
    uid = int(name) if name.isdecimal() else int((entry or [""] * 3)[2])
    groups = [line for line in _lines(root, "group") if len(line) == _GROUP_FIELDS]
    gid = _group(groups, group) if group else int(entry[3]) if entry else 0
    of_user = [int(line[2]) for line in groups if entry and entry[0] in line[3].split(",")]
    unique = dict.fromkeys((gid, *of_user, *security.supplemental_groups))
    return User(uid, gid, tuple(unique), entry[5] if entry else "/")


def _group(groups: list[list[str]], name: str) -> int:
    if name.isdecimal():
        return int(name)
    found = next((line for line in groups if line[0] == name), None)
    if found is None:
        raise RuntimeServiceError(f'failed to resolve group "{name}": no such entry in /etc/group of the image')
    return int(found[2])


def _lines(root: Path, name: str) -> list[list[str]]:
    """Return the fields of a file in /etc. A symbolic link is not followed: it could lead out of the image."""
    try:
        folder = os.open(root / "etc", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        text = read_regular(name, _LIMIT, dir_fd=folder).decode(errors="replace")
    except OSError:
        return []
    finally:
        os.close(folder)
    return [line.split(":") for line in text.splitlines()]
