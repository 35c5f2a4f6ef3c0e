"""ADD and DEL of a pod, as libcni does it, in the form that can be timed."""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.bench.process import Chain, PluginFailedError, ProcessRequest, TimedExecution, run_chains, run_one
from harness.libcni.execute import Executor
from harness.libcni.networks import NetworkList
from harness.libcni.request import PROTOCOL_VARIABLES, ContainerAttachment, request_config
from harness.runtime.kubernetes import pod_cni_args
from skel.strict_json import decode_output
from skel.versions import CURRENT, VERB_SINCE, at_least

_IFNAME: Final = "eth0"


@dataclass
class Attached:
    """An attachment, the result of its ADD, and how long each plugin took: `(type, execution)` in their order."""

    attachment: ContainerAttachment
    result: Mapping[str, object] | None = None
    executions: list[tuple[str, TimedExecution]] = field(default_factory=list)


def attached_to(netns: str, capability_args: Mapping[str, object] | None = None) -> Attached:
    """Return an attachment of a new container, as containerd asks for one, before its ADD; `netns` is a path."""
    container_id = uuid.uuid4().hex + uuid.uuid4().hex
    args = pod_cni_args("default", f"pod-{container_id[:8]}", container_id, container_id[:32])
    return Attached(ContainerAttachment(container_id, netns, _IFNAME, tuple(args.items()), capability_args or {}))


class PluginCaller:
    """Calls the plugins in some folders for one network, each for at most `timeout` seconds."""

    def __init__(self, bin_dirs: Sequence[Path], network: NetworkList, *, timeout: float) -> None:
        """Find the plugins. Raises PluginNotFoundError."""
        self.network = network
        self.timeout = timeout
        executor = Executor(tuple(bin_dirs))
        self._paths = {plugin.type: str(executor.find(plugin.type)) for plugin in network.plugins}
        inherited = {key: value for key, value in os.environ.items() if key not in PROTOCOL_VARIABLES}
        self._environ = inherited | {"CNI_PATH": executor.cni_path}

    def run(self, verb: str, pods: Sequence[Attached]) -> tuple[float, Sequence[Attached]]:
        """ADD or DEL pods, all at once; return the seconds of wall time, and the pods with their new results.

        Raises PluginFailedError.
        """
        for pod in pods:
            pod.executions.clear()
        chain = self.add if verb == "ADD" else self.delete
        return run_chains([chain(pod) for pod in pods], timeout=self.timeout), pods

    def run_each(self, verb: str, pods: Sequence[Attached]) -> Sequence[Attached]:
        """ADD or DEL pods, one after the other; return them. Raises PluginFailedError."""
        for pod in pods:
            self.run(verb, [pod])
        return pods

    def add(self, attached: Attached) -> Chain:
        """ADD; the result is noted."""
        for plugin in self.network.plugins:
            config = request_config(self.network, plugin, prev_result=attached.result, attachment=attached.attachment)
            ended = yield self._request(plugin.type, "ADD", attached.attachment.environment(), config)
            attached.result = _printed(ended, plugin.type)
            attached.executions.append((plugin.type, ended))

    def delete(self, attached: Attached) -> Chain:
        """DEL, with the noted result if the network's version sends one."""
        result = attached.result if at_least(self.network.cni_version, VERB_SINCE["CHECK"]) else None
        for plugin in reversed(self.network.plugins):
            config = request_config(self.network, plugin, prev_result=result, attachment=attached.attachment)
            ended = yield self._request(plugin.type, "DEL", attached.attachment.environment(), config)
            attached.executions.append((plugin.type, ended))

    def version(self) -> TimedExecution:
        """Ask the first plugin for its versions. Raises PluginFailedError."""
        dummies = {"CNI_NETNS": "dummy", "CNI_IFNAME": "dummy", "CNI_CONTAINERID": "", "CNI_ARGS": ""}
        config = json.dumps({"cniVersion": CURRENT}).encode()
        return run_one(self._request(self.network.plugins[0].type, "VERSION", dummies, config), timeout=self.timeout)

    def has_status(self) -> bool:
        """Tell whether the first plugin speaks a version that has STATUS. Raises PluginFailedError."""
        printed = _printed(self.version(), self.network.plugins[0].type)
        return VERB_SINCE["STATUS"] in printed.get("supportedVersions", ())

    def status(self) -> TimedExecution:
        """Ask the first plugin for its STATUS, in the version that introduced the verb. Raises PluginFailedError."""
        plugin = self.network.plugins[0]
        config = request_config(replace(self.network, cni_version=VERB_SINCE["STATUS"]), plugin)
        environ = ContainerAttachment(container_id="", netns="", ifname="").environment()
        return run_one(self._request(plugin.type, "STATUS", environ, config), timeout=self.timeout)

    def _request(self, type: str, verb: str, environ: Mapping[str, str], stdin: bytes) -> ProcessRequest:
        return ProcessRequest(self._paths[type], {**self._environ, **environ, "CNI_COMMAND": verb}, stdin)


def _printed(ended: TimedExecution, name: str) -> dict[str, Any]:
    """Return the JSON object that a plugin has printed. Raises PluginFailedError."""
    try:
        document = decode_output(ended.stdout)
    except ValueError as error:
        raise PluginFailedError(f"{name}: its output is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PluginFailedError(f"{name}: its output is no JSON object")
    return document
