"""A node for a whole runtime: its processes and mounts are its own, and end with it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.cli import ROOT
from tests.nodes import Node
from tests.servers import children

# What others mounted below /run/netns is theirs to take away: a copy of the mount would keep it alive.
_FIRST_PROCESS = """
set -e
while mountpoint -q /run/netns; do umount --recursive --lazy /run/netns; done
mount -t tmpfs -o mode=0755 tmpfs /run
# What is written here stays in memory: network lists, plugins, and what dpkg knows of them.
for folder in "$@"; do
    own=/run/layers$folder
    mkdir -p "$own/upper" "$own/work"
    # The state of other nodes on this machine is not this one's to see or to remove.
    [ "$folder" != /var/lib ] || mknod "$own/upper/cni-harness" c 0 0
    mount -t overlay -o "lowerdir=$folder,upperdir=$own/upper,workdir=$own/work" overlay "$folder"
done
rm -rf /etc/cni
mkdir -p /var/lib/containerd
mount -t tmpfs tmpfs /var/lib/containerd
echo ready
read -r _ || :
"""


class RuntimeNode(Node):
    """A node with process numbers, a /run and an /etc of its own besides; its plugins and lists are where Debian's are.

    The kernel ends whatever runs when it is closed.
    """

    def __init__(self, folder: Path, writable: Sequence[str] = ("/etc", "/usr/lib/cni", "/var/lib/dpkg")) -> None:
        """Make the node, its files below `folder`; in `writable` folders of this machine it writes for itself."""
        self._first = 0
        self._writable = writable
        super().__init__(folder)
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._hold_processes()
            on_failure.pop_all()

    @property
    def lists(self) -> Path:
        """The network lists of the node, as they are seen from outside."""
        return self.root / "etc/cni/net.d"

    @property
    def root(self) -> Path:
        """The node's files, as they are seen from outside."""
        return Path(f"/proc/{self._first}/root")

    def command(self, args: Sequence[str | os.PathLike[str]], netns: str | None = None) -> list[str]:
        """The command that runs `args` with this node's files and processes, in its network namespace or in `netns`."""
        if not self._first:
            return super().command(args, netns)
        of_first = f"/proc/{self._first}/ns"
        namespaces = [f"--net={netns or self.path}", f"--mount={of_first}/mnt", f"--pid={of_first}/pid"]
        return ["nsenter", *namespaces, "--", *[str(arg) for arg in args]]

    def start(self, args: Sequence[str | os.PathLike[str]], log: Path) -> subprocess.Popen[bytes]:
        """Start a program, stdout and stderr at the end of `log`; return its parent, which ends as it does.

        Signals are for the one child of that.
        """
        with log.open("ab") as stream:
            return subprocess.Popen(
                self.command(args),
                env=self.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    def cni_harness(self, *args: str) -> list[str]:
        """Our command line, for whoever set the node up."""
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "harness.cli.main", *args]

    def fetched(self, url: str) -> str:
        """Return the body of an HTTP answer that the node gets; AssertionError without one."""
        script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
        return self.run([sys.executable, "-c", script, url]).stdout

    def processes(self) -> list[str]:
        """The command lines of all that runs here, but for the first process and this look at them."""
        listing = self.run(["ps", "-e", "-o", "pid=,args="]).stdout.splitlines()
        found = [line.split(maxsplit=1) for line in listing]
        # In brackets are processes without a command line: it is about to end, or its parent has not noticed the end.
        return [args for pid, args in found if pid != "1" and not args.startswith(("ps -e", "["))]

    def mounts(self) -> set[str]:
        """Where something is mounted."""
        return {line.split()[4] for line in self.run(["cat", "/proc/self/mountinfo"]).stdout.splitlines()}

    def pods_namespaces(self) -> dict[str, str]:
        """The network namespaces that the runtime has made and not removed: the path here, and from outside."""
        return {path: f"{self.root}{path}" for path in self.mounts() if path.startswith("/run/netns/")}

    def _hold_processes(self) -> None:
        namespaces = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        parent = subprocess.Popen(
            self.command(["unshare", *namespaces, "bash", "-c", _FIRST_PROCESS, "bash", *self._writable]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._undo.callback(self._end, parent)
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        [self._first] = children(parent.pid)

    def _end(self, parent: subprocess.Popen[str]) -> None:
        self._first = 0
        # The first process ends with its stdin, and takes all others with it.
        parent.communicate(timeout=60)
