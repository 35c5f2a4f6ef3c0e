"""Plugins that write down their requests, and a runtime on them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor
from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.operations import Libcni, plugin_versions
from harness.libcni.request import ContainerAttachment
from tests.cli import SYSTEM_PYTHON
from tests.nodes import HANG

RECORDER = """#!{python} -IS
import json, os, sys

here, name = os.path.split(__file__)
config = json.load(sys.stdin)
verb = os.environ["CNI_COMMAND"]
call = {{"plugin": name, "verb": verb, "config": config}}
call["environ"] = {{key: value for key, value in os.environ.items() if key.startswith("CNI_")}}
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps(call) + "\\n")
result = config.get("prevResult", {{"cniVersion": config["cniVersion"], "interfaces": []}})
result.get("interfaces", []).append({{"name": name}})
versions = {{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}}
answer = {{"ADD": result, "VERSION": versions}}.get(verb)
code = 0
override = os.path.join(here, name + "." + verb)
if os.path.exists(override):
    answer = json.load(open(override))
    code = 1 if "code" in answer else 0
if answer is not None:
    print(json.dumps(answer))
sys.exit(code)
"""

POD1 = ContainerAttachment(
    "pod1",
    "/run/netns/pod1",
    "eth0",
    (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "pod1")),
    {"portMappings": [{"hostPort": 80}], "mac": "c2:11:22:33:44:55"},
)

BARE_POD1 = ContainerAttachment("pod1", "", "eth0")


class Node:
    """Folders with recording plugins, and a runtime on them."""

    def __init__(self, folder: Path) -> None:
        self.bin_dir = folder / "bin"
        self.bin_dir.mkdir()
        self.cached = folder / "cni" / "results" / "mynet-pod1-eth0"
        self.warnings: list[str] = []
        self.cache = ResultCache(folder / "cni", warn=self.warnings.append)
        executor = Executor([self.bin_dir], timeout=HANG)
        self.libcni = Libcni(executor, self.cache, warn=self.warnings.append)
        self.versions = partial(plugin_versions, executor)
        for name in ("first", "second", "third"):
            self.install(name)

    def install(self, name: str) -> None:
        """Write a recording plugin."""
        path = self.bin_dir / name
        path.write_text(RECORDER.format(python=SYSTEM_PYTHON))
        path.chmod(0o755)

    def answer(self, plugin: str, verb: str, document: object) -> None:
        """Have a plugin answer with `document`, which is a failure if it has a code."""
        (self.bin_dir / f"{plugin}.{verb}").write_text(json.dumps(document))

    def recover(self, plugin: str, verb: str) -> None:
        """Take back an answer."""
        (self.bin_dir / f"{plugin}.{verb}").unlink()

    def take_calls(self) -> list[dict[str, Any]]:
        """Return the plugins' requests since the last time."""
        try:
            lines = (self.bin_dir / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        (self.bin_dir / "calls").unlink()
        return [json.loads(line) for line in lines]

    def took(self) -> list[str]:
        """Return verb and plugin of the requests since the last time."""
        return [f"{call['verb']} {call['plugin']}" for call in self.take_calls()]


def network(
    version: str = "1.1.0", types: tuple[str, ...] = ("first", "second", "third"), **keys: object
) -> NetworkList:
    """Return a list of recording plugins; `keys` are added to it."""
    plugins = [{"type": name, "capabilities": {"portMappings": True}} for name in types]
    return parse_network_list(json.dumps({"cniVersion": version, "name": "mynet", "plugins": plugins, **keys}).encode())


def names(result: dict[str, Any]) -> list[str]:
    """Return the names of a result's interfaces."""
    return [interface["name"] for interface in result["interfaces"]]


FAILURE = {"cniVersion": "1.1.0", "code": 11, "msg": "not now", "details": "try later"}
