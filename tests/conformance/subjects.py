"""Sound plugins of every profile, and what is wrong with each plugin of the family of faulty ones."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.conformance.catalogue import Profile
from harness.conformance.subject import Subject, subjects_of
from harness.networks import NetworkList, parse_network_list

__all__ = ["FAULTY", "PLUGINS", "SOUND", "Faulty", "faulty_plugins", "install_faulty", "network", "subject"]

_HERE: Final = Path(__file__).parent
FAULTY: Final = _HERE / "faulty"
"""An executable file for each fault."""
PLUGINS: Final = _HERE / "plugins"
"""Sound plugins that are in no other folder."""

SOUND: Final[Mapping[Profile, str]] = {
    Profile.INTERFACE: "bridge",
    Profile.CHAINED: "sound-chained",
    Profile.IPAM: "host-local",
}
"""The sound plugin of each profile."""

_HEADER = re.compile(r"^# (fault|caught by|profile|says): (.*)$", re.MULTILINE)


class Faulty(NamedTuple):
    """A faulty plugin, and what its first lines say of it: `# fault:`, `# caught by:`, `# profile:`, `# says:`.

    `says` is a part of what the check says of it, so that it is caught for this fault and no other. It may be left out.
    """

    path: Path
    fault: str
    caught_by: tuple[str, ...]
    profile: Profile
    says: str = ""

    @classmethod
    def read(cls, path: Path) -> "Faulty":
        header: dict[str, str] = dict(_HEADER.findall(path.read_text()))
        caught_by = tuple(name.strip() for name in header["caught by"].split(","))
        return cls(path, header["fault"], caught_by, Profile(header["profile"]), header.get("says", ""))


def faulty_plugins() -> Sequence[Faulty]:
    return [Faulty.read(path) for path in sorted(FAULTY.iterdir()) if path.is_file()]


def network(profile: Profile, version: str = "1.1.0") -> NetworkList:
    """A network with the sound plugin of a profile, and few addresses so that they can be used up."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/27"}]]}
    bridge: dict[str, Any] = {"type": "bridge", "bridge": "cf0", "isDefaultGateway": True, "ipMasq": True, "ipam": ipam}
    bridge["dns"] = {"nameservers": ["10.66.0.1"]}
    plugins = [bridge, {"type": SOUND[Profile.CHAINED], "mtu": 1400}][: 2 if profile is Profile.CHAINED else 1]
    return parse_network_list(json.dumps({"cniVersion": version, "name": "conformance", "plugins": plugins}).encode())


def subject(profile: Profile, bin_dir: Path, version: str = "1.1.0") -> Subject:
    """The sound plugin of a profile in its place, executed from `bin_dir`, which may hold another under its name."""
    said = profile if profile is Profile.INTERFACE else None
    [found] = subjects_of(network(profile, version), [bin_dir], profile=said, only=[SOUND[profile]])
    assert found.profile is profile
    return found


def install_faulty(faulty: Faulty, sound: Path, bin_dir: Path) -> Path:
    """Make `bin_dir` a copy of the folder `sound` with the faulty plugin in it, and the one it wraps in `sound/`."""
    shutil.copytree(sound, bin_dir)
    name = SOUND[faulty.profile]
    (bin_dir / "sound").mkdir()
    (bin_dir / name).rename(bin_dir / "sound" / name)
    shutil.copy(faulty.path, bin_dir / name)
    return bin_dir
