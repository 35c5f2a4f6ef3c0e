"""The ADDs whose cost `tools.bench.tracing` measures, in a process of their own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import fast_stdlib
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor
from harness.libcni.networks import parse_network_list
from harness.libcni.operations import Libcni
from harness.libcni.request import ContainerAttachment
from harness.trace_recorder import TraceRecorder
from harness.views.call_tree import TreePrinter


def own_seconds() -> float:
    """Return the processor time of this process."""
    return time.process_time()


def _libcni(bin_dir: str, var_lib_cni: str) -> Libcni:
    return Libcni(Executor([Path(bin_dir)]), ResultCache(Path(var_lib_cni), warn=print), warn=print)


_IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
_PLUGIN = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": _IPAM}
NETWORK = parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [_PLUGIN]}).encode())


def _attachment(netns: str) -> ContainerAttachment:
    return ContainerAttachment(f"c{Path(netns).name}", netns, "eth0")


def add(bin_dir: str, var_lib_cni: str, pods: list[str], traced: bool) -> None:  # noqa: FBT001 -- pickled
    """Add an attachment for each namespace; `traced` as with --trace and --trace-file."""
    libcni = _libcni(bin_dir, var_lib_cni)
    if not traced:
        for netns in pods:
            libcni.add(NETWORK, _attachment(netns))
        return
    with Path(os.devnull).open("w") as nowhere:
        recorder = TraceRecorder(None, TreePrinter(nowhere.write, colour=False), keep=True)
        with fast_stdlib.recorded_by(recorder), fast_stdlib.span("cni-harness add", waits=True):
            for netns in pods:
                libcni.add(NETWORK, _attachment(netns))


def delete(bin_dir: str, var_lib_cni: str, pods: list[str]) -> None:
    """Delete the attachments."""
    libcni = _libcni(bin_dir, var_lib_cni)
    for netns in pods:
        libcni.delete(NETWORK, _attachment(netns))


def verb(arguments: list[str]) -> None:
    """Run a verb of cni-harness, which must succeed."""
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    root = Path(__file__).resolve().parents[2]
    subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
