"""Manifest files: YAML and JSON as Kubernetes reads them, strict keys, and one error for each faulty document."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api.documents import ManifestError, read_documents
from api.manifest import parse_manifests, pod_of
from harness.kubelet.sources import LARGEST, read_manifests
from tests.unit.pod_manifests import changed, sound

INT32 = "expected a whole number from -2147483648 to 2147483647"
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NO_SUCH_PROBE = "Forbidden: this node has probes of the types exec, httpGet and tcpSocket"
BOTH_KINDS = 'data[b]: Invalid value: "b": duplicate of key present in binaryData'
DOTS = "data[..]: Invalid value: \"..\": must not be '..'"


def test_a_file_has_pods_and_config_maps_in_several_documents() -> None:
    content = b"""
---
# only a comment
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: server}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: blue}
data: {greeting: hello}
binaryData: {logo: AAH/}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""

    manifests = parse_manifests(content)

    assert manifests.errors == []
    assert [pod.metadata.name for pod in manifests.pods] == ["web"]
    assert {("blue", "settings"), ("default", "settings")} == manifests.config_maps.keys()
    assert manifests.config_maps["blue", "settings"].files() == {"greeting": b"hello", "logo": b"\x00\x01\xff"}


def test_json_objects_may_follow_each_other() -> None:
    content = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}\n {"apiVersion":"v1","kind":"Pod"}'

    assert [pod.metadata.name for pod in parse_manifests(content).pods] == ["a", ""]


def test_yaml_may_begin_with_a_brace() -> None:
    assert list(read_documents(b"{a: 1} # no JSON\n---\n{b: 2}")) == [{"a": 1}, {"b": 2}]


def test_a_faulty_document_does_not_hide_the_others() -> None:
    content = b"{kind: Pod}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: web}}\n---\n- 1"

    manifests = parse_manifests(content)

    assert [pod.metadata.name for pod in manifests.pods] == ["web"]
    assert manifests.errors == ["apiVersion: Required value", "expected an object with apiVersion and kind"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-7", -7),
        ("1.0", 1),
        ("1e3", 1000),
        (".5", 0.5),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("1:30", "1:30"),
        ("2026-11-23", "2026-11-23"),
        ("2026-11-23T03:00:00Z", "2026-11-23T03:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("=", "="),
        ("!!str 12", "12"),
        ('"12"', "12"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)
def test_plain_scalars_of_yaml_have_the_types_of_gos_library(text: str, value: object) -> None:
    assert [{"key": value, "end": 1}] == list(read_documents(f"key: {text}\nend: 1".encode()))


def test_keys_are_strings_and_merges_are_followed() -> None:
    content = b"1: a\ntrue: b\nbase: &base {x: 1, y: 2}\nmore: {<<: *base, y: 3}\nboth: {<<: [{x: 5}, *base]}"

    assert list(read_documents(content)) == [
        {"1": "a", "true": "b", "base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}, "both": {"x": 5, "y": 2}}
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b"a: [", "not YAML: line 1, column 5: expected the node content, but found '<stream end>'"),
        (b"a: 1\n  b: 2\n", "not YAML: line 2, column 4: mapping values are not allowed here"),
        (b"a:\n\tb: 2\n", "not YAML: line 2, column 1: found character '\\t' that cannot start any token"),
        (b"a: 1\nb: \0\n", "not YAML: line 2: the character U+0000 is not allowed"),
        (b'a: "\\UFFFFFFFF"', "not YAML: "),
        (b'{"a": 1]', "not JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (b'{"spec": {"a": [{"b": 1, "b": 2}]}}', 'duplicate field "spec.a[0].b"'),
        (b"spec:\n  containers:\n  - name: a\n    name: b\n", 'duplicate field "spec.containers[0].name"'),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": 1e999}', "1e999 is not a number of JSON"),
        (b"a: .inf", "a: .inf is not a number of JSON"),
        (b"a: 99999999999999999999", "a: 99999999999999999999 is beyond a 64-bit number"),
        (b'{"a": 99999999999999999999}', "99999999999999999999 is beyond a 64-bit number"),
        (b"a: !!binary AAAA", "a: tag:yaml.org,2002:binary is no type of JSON"),
        (b"a: !!bool maybe", "a: tag:yaml.org,2002:bool is no type of JSON"),
        (b"a: {<<: 1}", "a.<<: expected an object to merge"),
        (b"? [1]\n: 2", "manifest: expected a string as key"),
        (b"a: &a [*a]", "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_unreadable_document_is_an_error(content: bytes, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        list(read_documents(content))

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("how", ["*{0}, *{0}", "{{<<: [*{0}, *{0}]}}"])
def test_aliases_cannot_make_a_document_of_billions_of_values(how: str) -> None:
    lines = ["a0: &a0 {}"]
    for level in range(40):
        inner = how.format(f"a{level}")
        lines.append(f"a{level + 1}: &a{level + 1} {inner if inner[0] == '{' else f'[{inner}]'}")

    with pytest.raises(ManifestError, match="more than 200000 values in one document"):
        list(read_documents("\n".join(lines).encode()))


def test_halves_of_characters_become_replacement_characters() -> None:
    assert list(read_documents(rb'{"a": "\ud800-\u00e9-\ud83d\ude00"}')) == [{"a": "\ufffd-é-😀"}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"apiVersion": ""}, "apiVersion: Required value"),
        ({"apiVersion": "v2"}, 'apiVersion: Unsupported value: "v2": supported values: "v1"'),
        ({"apiVersion": 1}, "apiVersion: Invalid value: 1: must be a string"),
        ({"kind": None}, "kind: Required value"),
        ({"kind": "Service"}, 'kind: Unsupported value: "Service": supported values: "ConfigMap", "Pod"'),
        ({"spec.containers[0].imagee": "x"}, 'unknown field "spec.containers[0].imagee"'),
        ({"spec.containers[0].Image": "x"}, 'unknown field "spec.containers[0].Image"'),
        ({"spec.Containers": "x"}, 'unknown field "spec.Containers"'),
        ({"spec.containers[1].imagee": None}, 'unknown field "spec.containers[1].imagee"'),
        ({"spec.volume": 1, "specs": {}}, 'unknown field "specs", unknown field "spec.volume"'),
        ({"spec.dnsConfig": {"options": [{"n": 1}]}}, 'unknown field "spec.dnsConfig.options[0].n"'),
        ({"spec.volumes[0].emptyDirr": {}}, 'unknown field "spec.volumes[0].emptyDirr"'),
        ({"spec.securityContext.privileged": True}, 'unknown field "spec.securityContext.privileged"'),
        ({"spec": []}, "spec: expected an object, got []"),
        ({"spec.containers": {}}, "spec.containers: expected a list, got {}"),
        ({"spec.containers[0]": "server"}, 'spec.containers[0]: expected an object, got "server"'),
        ({"spec.containers[0].command": "sleep 1"}, 'spec.containers[0].command: expected a list, got "sleep 1"'),
        ({"spec.containers[0].command[0]": 1}, "spec.containers[0].command[0]: expected a string, got 1"),
        ({"spec.containers[0].env[0].value": 8080}, "spec.containers[0].env[0].value: expected a string, got 8080"),
        ({"spec.containers[0].env[0].value": True}, "spec.containers[0].env[0].value: expected a string, got true"),
        (
            {"spec.containers[0].ports[0].containerPort": "80"},
            f'spec.containers[0].ports[0].containerPort: {INT32}, got "80"',
        ),
        (
            {"spec.containers[0].ports[0].hostPort": 2**31},
            f"spec.containers[0].ports[0].hostPort: {INT32}, got 2147483648",
        ),
        ({"spec.hostNetwork": "true"}, 'spec.hostNetwork: expected true or false, got "true"'),
        ({"metadata.labels": {"a": 1}}, "metadata.labels.a: expected a string, got 1"),
        (
            {"spec.containers[0].resources.limits.cpu": "1 core"},
            f'spec.containers[0].resources.limits.cpu: Invalid value: "1 core": {QUANTITY}',
        ),
        (
            {"spec.volumes[0]": {"name": "tls", "secret": {"secretName": "tls"}}},
            "spec.volumes[0].secret: Forbidden: static pods may not reference secrets (via secret volumes)",
        ),
        (
            {"spec.volumes[0]": {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}},
            "spec.volumes[0].persistentVolumeClaim: Forbidden: static pods may not reference persistentvolumeclaims",
        ),
        (
            {"spec.volumes[0]": {"name": "data", "nfs": {"server": "a"}}},
            "spec.volumes[0].nfs: Forbidden: this node has volumes of the types emptyDir, hostPath and configMap",
        ),
        (
            {"spec.containers[0].env[0]": {"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}},
            "spec.containers[0].env[0].valueFrom.secretKeyRef: Forbidden: static pods may not reference secrets",
        ),
        (
            {"spec.containers[0].livenessProbe": {"grpc": {"port": 1}}},
            f"spec.containers[0].livenessProbe.grpc: {NO_SUCH_PROBE}",
        ),
    ],
)
def test_keys_and_types_are_strict(changes: dict[str, Any], message: str) -> None:
    manifests = parse_manifests(yaml.safe_dump(changed(changes)).encode())

    assert [message] == manifests.errors
    assert manifests.pods == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{metadata: {}}", "invalid config map: metadata.name: Required value: name or generateName is required"),
        ("{metadata: {name: a}, datas: {}}", 'unknown field "datas"'),
        ("{metadata: {name: a}, data: {b: 1}}", "data.b: expected a string, got 1"),
        ("{metadata: {name: a}, binaryData: {b: '?'}}", 'binaryData.b: expected base64, got "?"'),
        (
            "{metadata: {name: a}, data: {b: c, ..: d}, binaryData: {b: AA==}}",
            f"invalid config map: [{BOTH_KINDS}, {DOTS}]",
        ),
    ],
)
def test_config_maps_are_validated(text: str, message: str) -> None:
    assert [message] == parse_manifests(f"{{apiVersion: v1, kind: ConfigMap, {text[1:]}".encode()).errors


def test_items_of_a_list_are_read_each_by_itself() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    untyped = {key: value for key, value in sound().items() if key not in {"apiVersion", "kind"}}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [untyped, changed({"spec.hots": 1})]}

    read = parse_manifests(yaml.safe_dump(listed | {"items": [settings, pods, {"kind": "Service"}]}).encode())

    assert [pod.metadata.name for pod in read.pods] == [sound()["metadata"]["name"]]
    assert list(read.config_maps) == [("default", "settings")]
    assert read.errors == [
        'items[1].items[1]: unknown field "spec.hots"',
        "items[2]: apiVersion: Required value",
    ]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("", "items: Required value"),
        (", items: []", "items: Required value"),
        (", items: 5", "items: Invalid value: 5: "),
    ],
)
def test_a_list_without_items_is_an_error(items: str, message: str) -> None:
    (error,) = parse_manifests(f"{{apiVersion: v1, kind: List{items}}}".encode()).errors

    assert error.startswith(message)


@pytest.mark.parametrize(
    ("kind", "place"),
    [("Deployment", "spec.template"), ("DaemonSet", "spec.template"), ("CronJob", "spec.jobTemplate.spec.template")],
)
def test_kinds_of_controllers_are_refused_with_the_place_of_their_pod(kind: str, place: str) -> None:
    (error,) = parse_manifests(f"{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: web}}}}".encode()).errors

    assert error.startswith(f"kind: {kind}: only Pods and ConfigMaps are read")
    assert f"Write its {place} as a document of its own, with `apiVersion: v1`, `kind: Pod`" in error


def test_keys_of_manifests_for_an_api_server_are_accepted() -> None:
    manifest = changed(
        {
            "status": {"phase": "Running"},
            "metadata.ownerReferences": [{"kind": "Node"}],
            "metadata.creationTimestamp": None,
            "metadata.managedFields": [],
            "metadata.resourceVersion": "5",
            "spec.affinity": {"nodeAffinity": {}},
            "spec.automountServiceAccountToken": False,
            "spec.enableServiceLinks": True,
            "spec.imagePullSecrets": [{"name": "registry"}],
            "spec.os": {"name": "linux"},
            "spec.preemptionPolicy": "Never",
            "spec.priority": 2000001000,
            "spec.priorityClassName": "system-node-critical",
            "spec.readinessGates": [],
            "spec.schedulerName": "default-scheduler",
            "spec.securityContext": {"fsGroup": 1, "seccompProfile": {"type": "RuntimeDefault"}},
            "spec.serviceAccount": "web",
            "spec.serviceAccountName": "web",
            "spec.tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}],
            "spec.topologySpreadConstraints": [{"maxSkew": 1}],
            "spec.containers[0].resizePolicy": [],
            "spec.containers[0].securityContext": {"seLinuxOptions": {}, "procMount": "Default"},
        }
    )

    pod = pod_of(manifest)

    assert (pod.spec.service_account_name, pod.spec.priority) == ("web", 2000001000)
    assert [toleration.toleration_seconds for toleration in pod.spec.tolerations] == [5]


def test_a_pod_is_the_same_after_writing_and_reading() -> None:
    pod = pod_of(sound())

    assert pod == pod_of(pod.encode())


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(b"#" * (LARGEST + 1))

    assert [f"more than {LARGEST} bytes"] == read_manifests(file).errors


def test_an_empty_file_is_an_error() -> None:
    assert parse_manifests(b"# nothing\n").errors == ["no object: the file is empty"]
