"""A pod of a manifest on a node, in the built-in runtime or in containerd, with a record of what was done for it."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.cli import ROOT
from tests.runtime.containerd import SOCKET
from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX

PORT = 8080

# Containers run longer than a second: kubelet looks once a second, and must see each state.
MANIFEST = f"""
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {{app: web}}
  annotations: {{kubernetes.io/ingress-bandwidth: 50M}}
spec:
  terminationGracePeriodSeconds: 1
  dnsPolicy: None
  dnsConfig: {{nameservers: [192.0.2.53], searches: [a.test], options: [{{name: ndots, value: "2"}}]}}
  initContainers:
  - name: first
    image: {BUSYBOX}
    command: [sh, -c, echo first >/data/index.html; sleep 3]
    volumeMounts: [{{name: data, mountPath: /data}}]
  - name: second
    image: {BUSYBOX}
    command: [sh, -c, echo second >>/data/index.html; sleep 3]
    volumeMounts: [{{name: data, mountPath: /data}}]
  containers:
  - name: server
    image: {BUSYBOX}
    command: [httpd, -f, -p, "80", -h, /data]
    ports: [{{containerPort: 80, hostPort: {PORT}}}]
    volumeMounts: [{{name: data, mountPath: /data}}]
    readinessProbe: {{httpGet: {{path: /fetched, port: 80}}, periodSeconds: 1, failureThreshold: 1}}
    lifecycle: {{postStart: {{exec: {{command: [sh, -c, echo hook >>/data/index.html]}}}}}}
  - name: client
    image: {BUSYBOX}
    command: [sh, -c, "sleep 2; wget -q -O /data/fetched http://127.0.0.1/index.html; echo fetched; sleep 1000"]
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, emptyDir: {{}}}}]
"""

NETWORK = {
    "cniVersion": "1.0.0",
    "name": "cni-harness",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "chain0",
            "isGateway": True,
            "ipMasq": True,
            "capabilities": {"dns": True, "io.kubernetes.cri.pod-annotations": True},
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.86.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
        {"type": "firewall"},
    ],
}

_BIN_DIR = "usr/lib/cni"

# Stands for a plugin under its name, writes the execution down, and becomes the plugin.
_RECORDER = """\
    #!/usr/bin/python3 -IS
    import json, os, sys
    request = sys.stdin.buffer.read()
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    variables = {{key: value for key, value in os.environ.items() if key.startswith("CNI_")}}
    line = json.dumps({{"plugin": name, "variables": variables, "request": json.loads(request or b"null")}}) + "\\n"
    log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, line.encode())
    os.close(log)
    copy = os.memfd_create("request", 0)
    os.write(copy, request)
    os.lseek(copy, 0, os.SEEK_SET)
    os.dup2(copy, 0)
    path = os.path.join(folder, "recorded", name)
    os.execv(path, [path])
"""


class ManifestPods:
    """`cni-harness run` and the verbs beside it, on a node; an empty endpoint is the built-in runtime."""

    def __init__(self, node: RuntimeNode, *, endpoint: str = f"unix://{SOCKET}") -> None:
        """Write the manifest and the network list of the node."""
        self.node = node
        self.endpoint = endpoint
        self.state_dir = node.root / "run/kubelet-state"
        # The UID of a pod follows from this path, and the control groups of all nodes are those of the machine.
        self.manifest = f"/run/{node.name}.yaml"
        (node.root / self.manifest.removeprefix("/")).write_text(MANIFEST)
        self.log = node.root / "run/observed.jsonl"
        self.log.unlink(missing_ok=True)
        shutil.rmtree(node.var_lib_cni / "networks", ignore_errors=True)
        (path,) = node.lists.glob("*cni-harness.conflist")
        path.write_text(json.dumps(NETWORK))

    def cni_harness(self, *args: str) -> list[str]:
        """The command line, with a record of what its kubelet does."""
        folders = ["--state-dir=/run/kubelet-state", "--conf-dir=/etc/cni/net.d", f"--bin-dir=/{_BIN_DIR}"]
        words = ["env", f"PYTHONPATH={ROOT}", "LANG=C.UTF-8"]
        return [*words, sys.executable, "-m", "tests.runtime.observed", "/run/observed.jsonl", *folders, *args]

    def run(self, *args: str, stdin: str = "") -> str:
        """Run a verb; return its output."""
        return self.node.run(self.cni_harness(*args), stdin=stdin, timeout=240).stdout

    def start(self) -> None:
        """Run the pod until it is ready."""
        self.run("run", "-f", self.manifest, "--timeout", "200", "--runtime-endpoint", self.endpoint)

    def observed(self) -> list[dict[str, Any]]:
        """What was written down so far, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def record_plugins(node: RuntimeNode, log: str) -> None:
    """Put a recorder in the place of each installed plugin; it appends to the file `log` of the node."""
    folder = node.root / _BIN_DIR
    recorded = folder / "recorded"
    recorded.mkdir()
    for plugin in [path for path in folder.iterdir() if path != recorded]:
        plugin.rename(recorded / plugin.name)
        plugin.write_text(textwrap.dedent(_RECORDER).format(log=log))
        plugin.chmod(0o755)


def recorded_calls(path: Path) -> list[dict[str, Any]]:
    """The executions of plugins that a recorder wrote down, in the order of their starts."""
    return [json.loads(line) for line in path.read_text().splitlines()]
