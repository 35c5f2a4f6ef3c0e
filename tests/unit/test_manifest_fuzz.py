"""Random manifests: whatever a file holds, it gives objects and messages, and no exception."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.defaults import with_defaults
from api.manifest import parse_manifests
from api.object import V1Object
from api.pod import V1Pod
from api.validation.pod import validate_pod
from harness.kubelet.sources import static_pod
from tests.unit.pod_manifests import sound

SCALARS: list[Any] = [
    *(None, True, False, 0, 1, -1, 80, 65536, 2**31, -(2**63), 2**64, 2**70, 0.5, 1e300),
    *("", "a", "A.b", "web", "../x", "/x", "100m", "1e9", "Always", "Exists", "v1", "10.0.0.1", "::1", "$(A)", "a=b"),
    *("\x00", "\n", "é", "😀", "\ud800", "a" * 300, "=", "..", "metadata.labels['x']", "limits.cpu", "-", "999E"),
]


def random_value(random_: random.Random, depth: int = 0) -> Any:
    """Return any JSON value, with keys of the API now and then."""
    kind = random_.random()
    if depth > 4 or kind < 0.6:
        return random_.choice(SCALARS)
    size = random_.randrange(4)
    if kind < 0.8:
        return [random_value(random_, depth + 1) for _ in range(size)]
    return {random_.choice(KEYS): random_value(random_, depth + 1) for _ in range(size)}


def random_object(random_: random.Random) -> Any:
    """Return an object with a kind that this project reads, or any value."""
    value = random_value(random_)
    if not isinstance(value, dict):
        return value
    kind = random_.choice(["Pod", "ConfigMap"])
    metadata = random_.choice([{"name": "web"}, random_value(random_)])
    spec = {random_.choice(KEYS): random_value(random_, 3) for _ in range(random_.randrange(2))}
    sections = {"spec": spec} if kind == "Pod" else {"data": spec}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **sections} | (
        value if random_.random() < 0.3 else {}
    )


def keys_of(kind: type[V1Object]) -> set[str]:
    """Return the keys of all objects of the API that this project knows."""
    own = {known.key for known in kind._fields.values()} | kind._ignored | kind._refused.keys()
    return own.union(*(keys_of(each) for each in kind.__subclasses__()))


KEYS = [*sorted(keys_of(V1Object)), "x", ""]


def mutated(random_: random.Random, value: Any) -> Any:
    """Return the value with about one change."""
    if random_.random() < 0.08:
        return random_value(random_, 2)
    if isinstance(value, dict):
        changed = {key: mutated(random_, item) if random_.random() < 0.5 else item for key, item in value.items()}
        if random_.random() < 0.15:
            changed[random_.choice(KEYS)] = random_value(random_, 2)
        return changed
    if isinstance(value, list):
        return [mutated(random_, item) for item in value]
    return value


def examine(document: Any) -> str:
    """Take a document the whole way, as JSON in a file; the result says how far it came."""
    manifests = parse_manifests(json.dumps(document).encode())
    assert all(manifests.errors)
    assert len(manifests.errors) + len(manifests.pods) + len(manifests.config_maps) == 1
    if not manifests.pods:
        return "refused" if manifests.errors else "config map"
    static = static_pod(with_defaults(manifests.pods[0]), Path("/etc/manifests/pod.yaml"), "node1")
    errors = validate_pod(static)
    assert all(str(error).isprintable() for error in errors)
    assert static == V1Pod.decode(json.loads(json.dumps(static.encode())))

    return "invalid" if errors else "valid"


@pytest.mark.parametrize("seed", range(4))
def test_random_objects_give_objects_or_messages(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 -- the same manifests each time

    outcomes = {examine(random_object(random_)) for _ in range(500)}

    assert {"refused", "invalid", "config map"} <= outcomes


@pytest.mark.parametrize("seed", range(4))
def test_changed_pods_give_objects_or_messages(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 -- the same manifests each time

    outcomes = {examine(mutated(random_, sound())) for _ in range(400)}

    assert {"refused", "invalid", "valid"} <= outcomes


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_give_messages(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 -- the same manifests each time
    texts = [json.dumps(sound()).encode(), yaml.safe_dump(sound()).encode()]

    errors = 0
    for _ in range(150):
        content = bytearray(random_.choice(texts))
        for _ in range(random_.randrange(1, 6)):
            place = random_.randrange(len(content))
            junk = bytes(
                random_.choice(b"{}[],:&*!|>%@`\"'#-?\\\n\t 09azU\x00\xff") for _ in range(random_.randrange(4))
            )
            content[place : place + random_.randrange(4)] = junk
        manifests = parse_manifests(bytes(content))
        assert manifests.errors or manifests.pods

        errors += len(manifests.errors)
        for error in manifests.errors:
            error.encode()

    assert errors > 20


@pytest.mark.parametrize("seed", range(2))
def test_random_bytes_give_messages(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 -- the same manifests each time

    for _ in range(300):
        manifests = parse_manifests(random_.randbytes(random_.randrange(60)))

        assert manifests.errors
        assert manifests.pods == []


def test_fuzz_uses_keys_of_the_api() -> None:
    assert {"containers", "hostPath", "affinity", "secret", "hostIP", "httpGet", "binaryData"} <= set(KEYS)
