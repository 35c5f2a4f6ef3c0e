"""Pods for tests of the kubelet part: a sound one, and changes of it."""

import copy
import re
from typing import Any

from api.defaults import with_defaults
from api.manifest import pod_of
from api.pod import V1Pod

ABSENT = object()
"""As a value in `changed`: the key is taken away."""

_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


def sound() -> dict[str, Any]:
    """Return a manifest without faults: two containers, an init container, a volume of each type."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": "/srv"}},
                {"name": "settings", "configMap": {"name": "settings"}},
            ],
            "initContainers": [{"name": "prepare", "image": "busybox:1.36", "command": ["true"]}],
            "containers": [
                {
                    "name": "server",
                    "image": "busybox:1.36",
                    "command": ["httpd"],
                    "ports": [{"name": "http", "containerPort": 80}],
                    "env": [{"name": "MODE", "value": "production"}],
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                    "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                },
                {"name": "helper", "image": "busybox:1.36"},
            ],
        },
    }


def changed(changes: dict[str, Any], manifest: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the sound manifest with values at paths such as `spec.containers[0].name`; missing parents are made."""
    manifest = copy.deepcopy(sound() if manifest is None else manifest)
    for path, value in changes.items():
        *parents, last = [int(step[1:-1]) if step[0] == "[" else step for step in _STEP.findall(path)]
        place: Any = manifest
        for step in parents:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        if value is ABSENT:
            del place[last]
        elif isinstance(last, int) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return manifest


def defaulted(changes: dict[str, Any]) -> V1Pod:
    """Return the changed manifest as a pod with defaults."""
    return with_defaults(pod_of(changed(changes)))
