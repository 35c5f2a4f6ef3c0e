"""A real control plane: etcd, kube-apiserver and kube-controller-manager as processes, and kubeconfig files for it.

The programs are those of the folder that KUBEBUILDER_ASSETS names, as with envtest; etcd may be in the PATH instead.
"""

import base64
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import trustme
import yaml

from kube.client import NAMESPACES, Client
from kube.config import from_kubeconfig
from kube.errors import KubeError
from tests.nodes import until

CLUSTER_CIDRS: Final = ("10.244.0.0/16", "fd00:10:244::/56")
"""The ranges of pods; the controller manager gives each Node a /24 and a /64 of them."""
SERVICE_CIDRS: Final = "10.96.0.0/16,fd00:10:96::/112"
_ASSETS: Final = "KUBEBUILDER_ASSETS"
_PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager")
_ETCD: Final = "unix://etcd.sock:0"
_ETCD_PEER: Final = "unix://etcd-peer.sock:0"
_SECONDS: Final = 180.0


def programs() -> dict[str, str]:
    """Return the paths of the programs by their names. Raises pytest.UsageError that tells how to get them."""
    folder = os.environ.get(_ASSETS, "")
    found = {name: shutil.which(name, path=str(Path(folder).resolve()) if folder else os.devnull) for name in _PROGRAMS}
    found["etcd"] = found["etcd"] or shutil.which("etcd")
    if missing := [name for name, path in found.items() if path is None]:
        raise pytest.UsageError(
            f"missing: {', '.join(missing)}. {_ASSETS} ({folder or 'not set'}) names a folder with kube-apiserver and "
            "kube-controller-manager of Kubernetes 1.36, as in the server archive of a release; etcd is there, or "
            "installed by Debian's etcd-server."
        )
    return {name: path for name, path in found.items() if path}


class ControlPlane:
    """A control plane whose files are in a folder, and whose API server listens on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The port stays this one's, also while no API server runs: the socket never listens.
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._port.bind(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._port.getsockname()[1]}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._authority = trustme.CA()
        self._programs = programs()

    def start(self) -> None:
        """Start all, and wait until Pods could be made."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._authority.cert_pem.write_to_path(self.folder / "ca.crt")
        server = self._authority.issue_cert("127.0.0.1", "kubernetes", "kubernetes.default.svc")
        server.private_key_and_cert_chain_pem.write_to_path(self.folder / "apiserver.pem")
        server.private_key_pem.write_to_path(self.folder / "sa.key")
        self.admin = self.kubeconfig("admin", "system:masters")
        self._run(
            "etcd",
            "--data-dir=etcd",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={_ETCD_PEER}",
            f"--initial-advertise-peer-urls={_ETCD_PEER}",
            f"--initial-cluster=default={_ETCD_PEER}",
        )
        self._await((self.folder / "etcd.sock:0").exists)
        self.start_api_server()
        self.start_controllers()

    def start_api_server(self) -> None:
        """Start the API server, and wait until it answers."""
        self._run(
            "kube-apiserver",
            f"--etcd-servers={_ETCD}",
            "--feature-gates=SizeBasedListCostEstimate=false",  # etcd 3.4 does not know its calls
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port.getsockname()[1]}",
            "--permit-port-sharing",  # SO_REUSEPORT
            "--endpoint-reconciler-type=none",  # a Service may not lead to a loopback address
            f"--service-cluster-ip-range={SERVICE_CIDRS}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--client-ca-file=ca.crt",
            "--tls-cert-file=apiserver.pem",
            "--tls-private-key-file=apiserver.pem",
            "--service-account-key-file=sa.key",
            "--service-account-signing-key-file=sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
        )
        with closing(self.client()) as client:
            self._await(lambda: _answers(client))

    def start_controllers(self) -> None:
        """Start the controller manager. It ends if the API server ends while it starts."""
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials=true",
            "--root-ca-file=ca.crt",
            "--service-account-private-key-file=sa.key",
            f"--service-cluster-ip-range={SERVICE_CIDRS}",
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={','.join(CLUSTER_CIDRS)}",
            "--node-cidr-mask-size-ipv4=24",
            "--node-cidr-mask-size-ipv6=64",
        )

    def client(self) -> Client:
        """Return a client that may do everything."""
        return Client(from_kubeconfig(self.admin), timeout=60.0)

    def kubeconfig(self, name: str, group: str = "") -> Path:
        """Write a kubeconfig file for a user with a certificate."""
        # Go refuses a certificate whose list of other names is empty.
        issued = self._authority.issue_cert("user@example.org", common_name=name, organization_name=group or None)
        user = {
            "client-certificate-data": _encoded(issued.cert_chain_pems[0].bytes()),
            "client-key-data": _encoded(issued.private_key_pem.bytes()),
        }
        return self.write_kubeconfig(name, user)

    def write_kubeconfig(self, name: str, user: dict[str, str]) -> Path:
        """Write a kubeconfig file with the credentials that the file format has for a user."""
        cluster = {"server": self.url, "certificate-authority-data": _encoded(self._authority.cert_pem.bytes())}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path = self.folder / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def stop(self) -> None:
        """End all, the last one first."""
        for name in reversed(list(self._running)):
            self.end(name)
        self._port.close()

    def end(self, name: str, *, kill: bool = False) -> None:
        """End one of the programs."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _await(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, for as long as all programs run."""

        def holds() -> bool:
            for name, process in self._running.items():
                assert process.poll() is None, f"{name} has ended: {(self.folder / f'{name}.log').read_text()[-500:]}"
            return condition()

        until(holds, within=_SECONDS)

    def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [self._programs[name], *arguments]
            self._running[name] = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def _answers(client: Client) -> bool:
    try:
        client.get(NAMESPACES, "default")
    except KubeError:
        return False
    return True


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
