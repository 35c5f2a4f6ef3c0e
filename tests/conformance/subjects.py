"""Sound plugins of every profile, and for each stand-in its fault or its unusual habit."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.attempt import attempt
from harness.conformance.finding import Finding
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import NetworkList, parse_network_list

_HERE: Final = Path(__file__).parent
FAULTY: Final = _HERE / "faulty"
"""An executable file for each fault."""
UNUSUAL: Final = _HERE / "unusual"
"""An executable file for each way of doing things that is no fault."""
PLUGINS: Final = _HERE / "plugins"
"""Sound plugins that are in no other folder."""

SOUND: Final[Mapping[Profile, Sequence[str]]] = {
    Profile.INTERFACE: ("bridge",),
    Profile.CHAINED: ("sound-chained", "sound-capable"),
    Profile.IPAM: ("host-local",),
}
"""The sound plugins of each profile; a fault is one of the first unless it says of which."""

_CAPABLE: Final = ("portMappings", "bandwidth", "dns")

_HEADER = re.compile(r"^# ([a-z ]+): (.*)$", re.MULTILINE)


class Faulty(NamedTuple):
    """A faulty plugin, with the words of its first lines: `# fault:`, `# caught by:`, `# profile:` and so on.

    `plugin` is the sound one that it stands for, the first of its profile if nothing is said. `says` is a part of what
    the check says of it, so that it is caught for this fault and no other. It may be left out. `hangs` is for a fault
    that only a time limit ends.
    """

    path: Path
    fault: str
    caught_by: tuple[str, ...]
    profile: Profile
    plugin: str
    says: str = ""
    hangs: bool = False

    @classmethod
    def read(cls, path: Path) -> "Faulty":
        header = _header(path)
        profile = Profile(header["profile"])
        plugin = header.get("plugin", SOUND[profile][0])
        says, hangs = header.get("says", ""), "hangs" in header
        return cls(path, header["fault"], _names(header["caught by"]), profile, plugin, says, hangs)


class Unusual(NamedTuple):
    """A plugin that does things in its own way, or has another such one before it, and no check may blame it for that.

    Some checks do not apply to it then; `because` is a part of the reason. `plugin` is the type of its file: the
    first sound one of its profile, which is also the one that is examined, unless another is named. `prepared_by` is
    the shell command that prepares its nodes, if they need one.
    """

    path: Path
    way: str
    passes: tuple[str, ...]
    does_not_apply: tuple[str, ...]
    profile: Profile
    plugin: str
    because: str
    prepared_by: str

    @classmethod
    def read(cls, path: Path) -> "Unusual":
        header = _header(path)
        profile = Profile(header["profile"])
        passes, not_for = (_names(header.get(key, "")) for key in ("passes", "does not apply"))
        plugin = header.get("plugin", SOUND[profile][0])
        because, prepared_by = header.get("because", ""), header.get("prepared by", "")
        return cls(path, header["way"], passes, not_for, profile, plugin, because, prepared_by)


def run_check(check: Check, subject: Subject, *, state_dir: Path, options: CheckOptions) -> Finding:
    """Run one check once, and judge it by itself: no other check is its cause."""
    return attempt(check, subject, state_dir=state_dir, options=options)


def _header(path: Path) -> dict[str, str]:
    return dict(_HEADER.findall(path.read_text()))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name)


def faulty_plugins() -> Sequence[Faulty]:
    return [Faulty.read(path) for path in sorted(FAULTY.iterdir()) if path.is_file()]


def unusual_plugins() -> Sequence[Unusual]:
    return [Unusual.read(path) for path in sorted(UNUSUAL.iterdir()) if path.is_file()]


def network(profile: Profile, version: str = "1.1.0", plugin: str = "") -> NetworkList:
    """A network with a sound plugin of a profile, and few addresses so that they can be used up."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/27"}]], "statusFailsWhenFull": True}
    bridge: dict[str, Any] = {"type": "bridge", "bridge": "cf0", "isDefaultGateway": True, "ipMasq": True, "ipam": ipam}
    bridge |= {"dns": {"nameservers": ["10.66.0.1"]}, "capabilities": dict.fromkeys(("ips", "ipRanges", "mac"), True)}
    chained: dict[str, Any] = {"type": plugin or SOUND[profile][0], "mtu": 1400}
    if plugin == "sound-capable":
        chained = {"type": plugin, "capabilities": dict.fromkeys(_CAPABLE, True)}
    plugins = [bridge, chained] if profile is Profile.CHAINED else [bridge]
    return parse_network_list(json.dumps({"cniVersion": version, "name": "conformance", "plugins": plugins}).encode())


def subject(profile: Profile, bin_dir: Path, version: str = "1.1.0", plugin: str = "") -> Subject:
    """A sound plugin of the profile in its place, executed from `bin_dir`, which may hold another under its name."""
    said = profile if profile is Profile.INTERFACE else None
    only = [plugin or SOUND[profile][0]]
    [found] = subjects_of(network(profile, version, plugin), [bin_dir], profile=said, only=only)
    assert found.profile is profile
    return found


def install(odd: Faulty | Unusual, sound: Path, bin_dir: Path) -> Path:
    """Make `bin_dir` a copy of the folder `sound` with the odd plugin in it, and the one it wraps in `sound/`."""
    shutil.copytree(sound, bin_dir)
    (bin_dir / "sound").mkdir()
    (bin_dir / odd.plugin).rename(bin_dir / "sound" / odd.plugin)
    shutil.copy(odd.path, bin_dir / odd.plugin)
    return bin_dir
