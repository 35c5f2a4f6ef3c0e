"""Where kubelet keeps files: a folder per pod, and the containers' logs.

Layout and modes are those of /var/lib/kubelet and /var/log/pods (kubelet's kubelet_getters.go).
"""

from pathlib import Path
from typing import Final

from api.container import V1Container
from api.pod import V1Pod
from harness.files import read_end

_CRI_FIELDS: Final = 4
_END_BYTES: Final = 8192
_VOLUME_KINDS = {"empty_dir": "kubernetes.io~empty-dir", "config_map": "kubernetes.io~configmap"}


class KubeletPaths:
    """The files below a node's folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "kubelet"
        self.pods = self.root / "pods"
        self.lock = self.root / "lock"
        self.socket = self.root / "kubelet.sock"
        self.logs = self.root / "logs" / "pods"
        self.container_logs = self.root / "logs" / "containers"

    def pod(self, uid: str) -> Path:
        """Return the folder of a pod."""
        return self.pods / uid

    def volume(self, uid: str, kind: str, name: str) -> Path:
        """Return the folder of a volume; `kind` is `empty_dir` or `config_map`."""
        return self.pod(uid) / "volumes" / _VOLUME_KINDS[kind] / name

    def ready_file(self, uid: str, name: str) -> Path:
        """Return the file that exists once an emptyDir volume is set up."""
        return self.pod(uid) / "plugins" / _VOLUME_KINDS["empty_dir"] / name / "ready"

    def config_maps(self, uid: str) -> Path:
        """Return the folder of the config maps that a pod names."""
        return self.pod(uid) / "config-maps"

    def sub_paths(self, uid: str) -> Path:
        """Return the folder with the mounts of a pod's subPaths; it is no part of the pod's folder."""
        return self.root / "volume-subpaths" / uid

    def hosts_file(self, uid: str) -> Path:
        """Return the file that containers see as /etc/hosts."""
        return self.pod(uid) / "etc-hosts"

    def container(self, uid: str, container: str) -> Path:
        """Return the folder of a container's termination messages."""
        return self.pod(uid) / "containers" / container

    def log_directory(self, pod: V1Pod) -> Path:
        """Return the folder of a pod's logs."""
        metadata = pod.metadata
        return self.logs / f"{metadata.namespace}_{metadata.name}_{metadata.uid}"

    def log(self, pod: V1Pod, container: V1Container, attempt: int) -> Path:
        """Return the log of one attempt of a container."""
        return self.log_directory(pod) / container.name / f"{attempt}.log"


def log_attempts(folder: Path) -> list[Path]:
    """Return the logs of a container's attempts, the oldest first."""
    return sorted((path for path in folder.glob("*.log") if path.stem.isdecimal()), key=lambda path: int(path.stem))


def last_lines(log: Path, count: int) -> list[str]:
    """Return the texts of the last lines that are not empty, without time and stream. Raises OSError."""
    texts = []
    for line in read_end(log, _END_BYTES).decode(errors="replace").splitlines():
        fields = line.split(" ", _CRI_FIELDS - 1)
        if len(fields) == _CRI_FIELDS and fields[-1].strip():
            texts.append(fields[-1])
    return texts[-count:]
