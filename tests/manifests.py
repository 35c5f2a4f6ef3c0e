"""Pods of manifests for tests: written as JSON, run by the command line, and looked for in the kernel afterwards."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.snapshot import Snapshot, differences, take
from netlink.namespace import remove_namespace
from tests.cli import Cli
from tests.nodes import until

FOREVER = ["sh", "-c", "trap 'exit 0' TERM USR1; while :; do sleep 0.1; done"]
"""A command that runs until its stop signal: the first process of a PID namespace ignores signals without a handler."""

WIRES = {
    "cniVersion": "1.0.0",
    "name": "wires",
    "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.78.0.0/24"}]]}}],
}
"""A network list of which nothing remains on the node when its pods are gone."""


def container(name: str, command: Sequence[str] = FOREVER, *, image: str = "", **keys: object) -> dict[str, Any]:
    """Return a container; one of an image is never pulled."""
    own = {"image": image, "imagePullPolicy": "Never"} if image else {}
    return {"name": name, "command": list(command), **own, **keys}


def pod(name: str, *containers: Mapping[str, Any], **spec: object) -> dict[str, Any]:
    """Return the manifest of a pod, which has one container that runs for good if none is given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "dnsPolicy": "Default",
            "containers": list(containers) or [container("app")],
            **spec,
        },
    }


def condition(document: Mapping[str, Any], type: str) -> str:
    """Return the status of a condition of a pod's document."""
    return next((str(each["status"]) for each in document["status"].get("conditions", []) if each["type"] == type), "")


class KubeletNode(Cli):
    """A command line on a node of its own, with pods of manifests."""

    def __init__(self, folder: Path, bin_dir: Path) -> None:
        super().__init__(folder, bin_dir)
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        self._is_warm = False
        self._uids: set[str] = set()

    def close(self) -> None:
        """End all pods; kill and remove what is left of them, since the test has failed then."""
        with suppress(Exception):
            self.run("delete", "--all", "--grace-period", "0", check=False)
        for process in self._processes():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for record in self.node_dir.glob("pods/*/pod.json"):
            with suppress(OSError, ValueError):
                remove_namespace(json.loads(record.read_text()).get("netns") or "/run/netns/none")
        super().close()

    def write(self, manifest: Mapping[str, Any], file: str = "") -> Path:
        """Write a manifest into the folder of manifests."""
        path = self.manifests / (file or f"{manifest['metadata']['name']}.json")
        path.write_text(json.dumps(manifest))
        return path

    def start(self, manifest: Mapping[str, Any], *args: str) -> dict[str, Any]:
        """Run one pod until it is ready, and return its document."""
        given = args if "--min-ready" in args else ("--min-ready", "0", *args)
        (document,) = self.json("run", "-f", str(self.write(manifest)), *given)["pods"]
        self._uids.add(document["metadata"]["uid"])
        return dict(document)

    def refused(self, manifest: Mapping[str, Any], *args: str) -> str:
        """Run one pod that fails; return what is said of it."""
        run = self.run("run", "-f", str(self.write(manifest)), *args, check=False)
        assert run.returncode == 1, run.stdout
        return run.stderr

    def on_record(self) -> list[dict[str, Any]]:
        """Return the documents of all pods."""
        found: list[dict[str, Any]] = self.json("get", "pods")["items"]
        return found

    def one(self, name: str) -> dict[str, Any]:
        """Return the document of a pod, from its files."""
        for folder in (self.node_dir / "kubelet/pods").glob("*"):
            with suppress(OSError, ValueError):
                document: dict[str, Any] = json.loads((folder / "pod.json").read_text())
                if document["metadata"]["name"] == name:
                    self._uids.add(folder.name)
                    status = folder / "status.json"
                    return document | {"status": json.loads(status.read_text()) if status.exists() else {}}
        return {}

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a pod in their order."""
        found: list[dict[str, Any]] = self.json("describe", name)["events"]
        return found

    @contextmanager
    def kubelet(self, *args: str) -> Iterator[Any]:
        """Run the kubelet on the folder of manifests for as long as the block lasts."""
        with self.background("kubelet", "--manifests", str(self.manifests), *args) as process:
            until(lambda: self._listens() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            yield process
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
            assert process.returncode in {0, -signal.SIGTERM, 143}, said

    def connected(self) -> socket.socket:
        """Return a socket connected to the kubelet's, by a path that is not too long for an address. Raises OSError."""
        with ExitStack() as on_failure:
            folder = os.open(self.node_dir / "kubelet", os.O_PATH)
            on_failure.callback(os.close, folder)
            client = on_failure.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(f"/proc/self/fd/{folder}/kubelet.sock")
            on_failure.pop_all()
            os.close(folder)
        return client

    def _listens(self) -> bool:
        """Tell whether a kubelet listens: the socket of one that has ended, or has just begun, refuses."""
        with suppress(FileNotFoundError, ConnectionRefusedError), self.connected():
            return True
        return False

    @contextmanager
    def watched(self, name: str) -> Iterator[list[dict[str, Any]]]:
        """Collect each status of a pod that is told while the block lasts."""
        seen: list[dict[str, Any]] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.005):
                status = self.one(name).get("status")
                if status and (not seen or seen[-1] != status):
                    seen.append(status)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join()

    def until_no_pods(self) -> None:
        """Wait until the kubelet has removed the last file of all pods."""
        until(lambda: not list((self.node_dir / "kubelet/pods").glob("*")), within=120)

    def snapshot(self) -> Snapshot:
        """Return the state of the node and of its files, after a first pod has made what stays, such as a bridge."""
        if not self._is_warm:
            self.start(pod("first", container("app", ports=[{"containerPort": 1, "hostPort": 18099}])))
            self.run("delete", "first")
            self._is_warm = True
        return take({"node": f"/run/netns/{self.node}"}, [self.node_dir])

    def assert_nothing_left(self, before: Snapshot, *expected: str) -> None:
        """Raise AssertionError for files, links, rules, processes, mounts and control groups of pods.

        `expected` are patterns of differences that stay.
        """
        # The last address that host-local has given, and runc's folder of containers, which is empty.
        ignore = ["files/*/last_reserved_ip*", "files/*/runc", *expected]
        deadline = time.monotonic() + 20
        while found := [each.in_words() for each in differences(before, self.snapshot(), ignore=ignore)]:
            assert time.monotonic() < deadline, "\n".join(found)
            time.sleep(0.05)
        runc = self.node_dir / "runc"
        assert not runc.exists() or not list(runc.iterdir())
        left = self._leftovers()
        assert not left, "\n".join(left)

    def _leftovers(self) -> list[str]:
        """Return processes and mounts that name this node's files, and control groups of its pods."""
        found = [f"process {pid}: {_text(pid, 'cmdline')}" for pid in self._processes()]
        found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.node_dir) in line]
        # os.walk: other tests' groups vanish meanwhile, and rglob raises for them.
        groups = [
            Path(folder, name)
            for folder, names, _ in os.walk("/sys/fs/cgroup")
            for name in names
            if name.removeprefix("pod") in self._uids
        ]
        return found + [f"control group {path}" for path in groups]

    def _processes(self) -> list[int]:
        """Return the processes of containers and shims, whose command line or control group names the node's files."""
        groups = tuple(f"/pod{uid}" for uid in self._uids)
        found = []
        for path in Path("/proc").iterdir():
            if path.name.isdecimal() and int(path.name) != os.getpid():
                pid = int(path.name)
                group = _text(pid, "cgroup")
                if str(self.node_dir) in _text(pid, "cmdline") or any(each in group for each in groups):
                    found.append(pid)
        return found


def _text(pid: int, part: str) -> str:
    try:
        return Path(f"/proc/{pid}/{part}").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""
