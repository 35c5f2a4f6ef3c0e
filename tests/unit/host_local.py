"""host-local called through the dispatcher, on a folder of the test's own, and watched while it works."""

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ipam.host_local import PLUGIN
from skel.dispatch import dispatch

SEAL = 1_000_000_000 + (1 << 28) + int(Path("/proc/sys/kernel/random/boot_id").read_text()[:7], 16)
"""The modification time of a folder whose index is whole, until this machine boots again; seconds since 1970."""
DUAL_STACK = [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64"}]]


class Ran(NamedTuple):
    """The outcome of one invocation: its JSON document (or None), its log and its exit code."""

    printed: Any
    log: str
    code: int

    @property
    def addresses(self) -> list[str]:
        """The addresses of a result, without their prefixes."""
        return [ip["address"].partition("/")[0] for ip in self.printed["ips"]]


class HostLocal:
    """One network whose reservations are in `data_dir`; `ipam` are the keys of its section."""

    def __init__(self, data_dir: Path, **ipam: Any) -> None:
        self.data_dir = data_dir
        self.folder = data_dir / "net"
        if not {"ranges", "subnet"} & ipam.keys():
            ipam["ranges"] = DUAL_STACK
        self.config: dict[str, Any] = {
            "cniVersion": "1.1.0",
            "name": "net",
            "type": "bridge",
            "ipam": {"type": "host-local", "dataDir": str(data_dir), **copy.deepcopy(ipam)},
        }

    def run(self, verb: str, container_id: str = "pod", ifname: str = "eth0", args: str = "", **config: Any) -> Ran:
        """Carry out one verb; `config` are keys of the network configuration that replace others."""
        environ = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": container_id,
            "CNI_IFNAME": ifname,
            "CNI_NETNS": "/run/netns/none",
            "CNI_PATH": "/none",
            "CNI_ARGS": args,
        }
        outcome = dispatch(PLUGIN, environ, lambda: json.dumps(self.config | config).encode())
        printed = json.loads(outcome.stdout) if outcome.stdout else None
        return Ran(printed, outcome.stderr.decode(), outcome.code)

    def succeed(self, verb: str, container_id: str = "pod", ifname: str = "eth0", **more: Any) -> Ran:
        """Carry out a verb that must succeed."""
        ran = self.run(verb, container_id, ifname, **more)

        assert ran.code == 0, ran
        return ran

    def add(self, container_id: str = "pod", ifname: str = "eth0", **more: Any) -> list[str]:
        """Carry out an ADD that must succeed; return its addresses."""
        return self.succeed("ADD", container_id, ifname, **more).addresses

    def fail(self, verb: str, container_id: str = "pod", ifname: str = "eth0", **more: Any) -> tuple[int, str]:
        """Carry out a verb that must fail; return code and message."""
        ran = self.run(verb, container_id, ifname, **more)

        assert ran.code == 1, ran
        return ran.printed["code"], ran.printed["msg"]

    def reservations(self) -> dict[str, str]:
        """What lies in the folder, but for the lock, the notes of the round robin and the index."""
        return {
            path.name: path.read_bytes().decode()
            for path in self.folder.iterdir()
            if path.name != "lock" and not path.name.startswith(("last_reserved_ip.", "."))
        }

    def index(self) -> dict[str, str]:
        """The lines of the index, by owner, and whatever else is hidden."""
        hidden = {path.name: path for path in self.folder.glob(".*")}
        lines = hidden.pop(".owners").read_text().splitlines() if ".owners" in hidden else []
        lines = [line for line in lines if line]  # the rest of a bucket
        owners = dict(line.split(" ") for line in lines)
        assert len(owners) == len(lines), lines
        return owners | dict.fromkeys(hidden, "not the index")

    def is_sealed(self) -> bool:
        """Whether whoever changed the folder last vouches for the index."""
        return self.folder.stat().st_mtime_ns == SEAL * 10**9

    def names(self) -> list[str]:
        """The names of everything in the folder, in order."""
        return sorted(path.name for path in self.folder.iterdir())

    def write(self, address: str, content: str) -> None:
        """Make a reservation as another program would."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / address).write_bytes(content.encode())


def at_each_system_call(function: Callable[[], object], called: Callable[[str], None], *, after: bool = False) -> None:
    """Call `called` with its name before every system call that `function` makes on files, or `after` it succeeded."""

    def watch(_frame: FrameType, event: str, callee: Any) -> None:
        if event == ("c_return" if after else "c_call") and getattr(callee, "__module__", "") in {
            "posix",
            "fcntl",
            "io",
        }:
            name = callee.__name__
            if name not in {"fspath", "fsencode", "fsdecode"}:
                called(name)

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)


def system_calls(function: Callable[[], object]) -> list[str]:
    """Return the names of the system calls on files that `function` makes, as Python has them."""
    calls: list[str] = []
    at_each_system_call(function, calls.append)
    return calls
