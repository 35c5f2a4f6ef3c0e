"""containerd as Debian configures it, on a node of its own."""

import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.snapshot import Snapshot
from tests.nodes import BARE_PATH, until
from tests.runtime.cri import SECONDS, Cri, Pod
from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX, PAUSE
from tests.servers import children

if TYPE_CHECKING:
    import subprocess

SOCKET = "/run/containerd/containerd.sock"
CGROUPS = Path("/sys/fs/cgroup")

# runc, but that it leaves the score as it is: not every machine that tests run on lets root make it lower.
_RUNC = """#!/bin/sh
previous=
for word; do
    [ "$previous" != --bundle ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$word/config.json"
    previous=$word
done
exec {runc} "$@"
"""

# Of pods that are gone, a network keeps where to go on reserving, and an index that is checked whenever it is read.
KEPT = ["files/*/last_reserved_ip.*", "files/*/.owners"]


GOES_BY_ITSELF = 20
"""Seconds that what ends without being asked may take: shims, and the workers of a server."""


class State(NamedTuple):
    """What there is on a node, but for what containerd keeps in folders of its own."""

    snapshot: Snapshot
    things: dict[str, Counter[str]]
    """Processes and the like, by kind."""


class Containerd:
    """containerd with the plugins and the lists of a node; `close` ends it, the node, and all that was on it."""

    def __init__(self, node: RuntimeNode, log: Path) -> None:
        """Prepare; nothing runs before `start`."""
        self.node = node
        self._log = log
        programs = node.folder / "programs"
        programs.mkdir()
        runc = programs / "runc"
        runc.write_text(_RUNC.format(runc=shutil.which("runc", path=BARE_PATH)), encoding="utf-8")
        runc.chmod(0o755)
        # "container": who is in one does not ask for AppArmor, which this machine's kernel need not know.
        self._environment = ["env", f"PATH={programs}:{BARE_PATH}", "container=test"]
        self._parent: subprocess.Popen[bytes] | None = None
        self._cri: Cri | None = None

    @property
    def cri(self) -> Cri:
        """What to ask it with."""
        assert self._cri is not None, "not started"
        return self._cri

    def start(self) -> None:
        """Start it, and wait until it does as asked."""
        self._parent = self.node.start([*self._environment, "containerd"], self._log)
        self._cri = Cri(self.node.root / SOCKET.removeprefix("/"), cgroup_parent=f"/{self.node.name}")
        assert self._cri.version().startswith("containerd ")
        until(self._cri.is_ready, within=SECONDS)

    def import_images(self, archives: Sequence[Path]) -> None:
        """Give it images, and wait until pods can be made of them."""
        for archive in archives:
            importing = ["--address", SOCKET, "--namespace", "k8s.io", "images", "import"]
            self.node.run(["ctr", *importing, archive], timeout=SECONDS)
        # By its own name, which a registry would be asked for.
        wanted = self._sandbox_image()
        tagging = ["--address", SOCKET, "--namespace", "k8s.io", "images", "tag", "--force"]
        self.node.run(["ctr", *tagging, PAUSE, wanted], timeout=SECONDS)
        until(lambda: all(self.cri.has_image(name) for name in (wanted, BUSYBOX)), within=SECONDS)

    def _sandbox_image(self) -> str:
        """The image of a pod's first process, by the configuration in use."""
        whole = self.node.run(["containerd", "config", "dump"]).stdout
        [found] = re.findall(r"""^ *sandbox(?:_image)? = ["'](.+)["']$""", whole, re.MULTILINE)
        return str(found)

    def kill(self) -> None:
        """End it as SIGKILL does; its shims and the plugins that it executes go on."""
        assert self._parent is not None
        for process in children(self._parent.pid):
            os.kill(process, signal.SIGKILL)
        self._parent.wait(SECONDS)
        self.cri.close()

    def close(self) -> None:
        """End it with all that runs on the node, and take back its control groups."""
        if self._cri is not None:
            self._cri.close()
        self.node.close()
        if self._parent is not None:
            self._parent.wait(SECONDS)
        until(self._remove_control_groups, within=SECONDS)

    def remove(self, *pods: str) -> None:
        """Stop and remove pods, all at once."""

        def stop_and_remove(pod: str) -> None:
            self.cri.stop_pod(pod)
            self.cri.remove_pod(pod)

        at_once(stop_and_remove, pods)

    def addresses_in(self, pod: Pod) -> dict[str, list[str]]:
        """The addresses that the kernel shows in a pod, but for link-local ones, by interface."""
        # By name: /var/run is a symbolic link, and leads out of the node when followed from here.
        netns = self.node.root / "run/netns" / Path(self.cri.namespace(pod)).name
        return {
            link["ifname"]: [each["local"] for each in link["addr_info"] if each["scope"] != "link"]
            for link in self.node.ip("address", netns=str(netns))
        }

    def reservations(self) -> dict[str, str]:
        """Which pod has which address of the network, by the files of host-local."""
        folder = self.node.var_lib_cni / "networks" / "cni-harness"
        return {path.name: path.read_text().split()[0] for path in folder.glob("[0-9a-f]*")}

    def results(self) -> list[Path]:
        """The files in which libcni keeps what plugins returned, each of one pod and one network."""
        return sorted((self.node.var_lib_cni / "results").iterdir())

    def state(self) -> State:
        """The node's network, plugins' files, processes, mounts and control groups."""
        return State(self.node.state(), self._things())

    def warm_up(self) -> None:
        """Have a first pod make what all pods share, and what containerd keeps from its first one."""
        self.remove(self.cri.run_pod("first").id)

    def assert_same_state(self, before: State, *, but_for: Collection[str] = ()) -> None:
        """Raise AssertionError that lists differences which stay; `but_for` kinds of things."""
        self.node.assert_same_state(before.snapshot, ignore=KEPT, within=GOES_BY_ITSELF)

        def differing() -> list[str]:
            now = {kind: there for kind, there in self._things().items() if kind not in but_for}
            changes = ((kind, there - before.things[kind], before.things[kind] - there) for kind, there in now.items())
            return [f"{kind}: {dict(come)}, {dict(gone)}" for kind, come, gone in changes if come or gone]

        with suppress(AssertionError):  # the error below lists the differences
            until(lambda: not differing(), within=GOES_BY_ITSELF)
        assert not (found := differing()), f"come, gone: {found}"

    def end_shims(self) -> None:
        """End all shims. The next containerd forgets a container that one was about to start at the kill."""
        listing = self.node.run(["ps", "-e", "-o", "pid=,comm="]).stdout.splitlines()
        shims = [pid for pid, name in map(str.split, listing) if name.startswith("containerd-shim")]
        if shims:
            self.node.run(["kill", "-KILL", *shims], check=False)

    def _things(self) -> dict[str, Counter[str]]:
        groups = (path.name for path in self._control_groups())
        return {
            "processes": Counter(self.node.processes()),
            "mounts": Counter(self.node.mounts()),
            "control groups": Counter(groups),
        }

    def _control_groups(self) -> list[Path]:
        """Those of the node's pods in whichever hierarchies there are, the innermost first."""
        name = self.node.name
        tops = [path for pattern in (name, f"*/{name}") for path in CGROUPS.glob(pattern)]
        # `walk` goes past groups that end meanwhile.
        found = [Path(folder) for top in tops for folder, _, _ in os.walk(top)]
        return sorted(found, reverse=True)

    def _remove_control_groups(self) -> bool:
        """Whether all are gone; the kernel lets go of one some time after its last process."""
        for group in self._control_groups():
            try:
                group.rmdir()
            except OSError:
                return False
        return True


def at_once(function: Callable[[str], object], names: Sequence[str]) -> None:
    """Call a function with each of the names, all at the same time; raise the error of one of them."""
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        for _ in pool.map(function, names):
            pass
