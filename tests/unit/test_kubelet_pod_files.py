"""The files and settings that kubelet gives a pod: resolver, hosts, environment, requests, termination messages."""

import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from api.pod import V1Pod
from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    ContainerState,
    ContainerStatus,
    Image,
    KeyValue,
    Mount,
)
from harness.cri.messages import NamespaceMode as Mode
from harness.kubelet.labels import TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY
from harness.kubelet.requests.container_config import MountedVolume, MountSources, container_config
from harness.kubelet.requests.dns import pod_dns
from harness.kubelet.requests.environment import EnvironmentSources, expanded, variables
from harness.kubelet.requests.hosts_file import hosts_file_content, pod_hostname
from harness.kubelet.requests.sandbox_config import pod_sandbox_config
from harness.kubelet.status.runtime_pod_status import new_message_file, termination_message
from harness.kubelet.status.start_errors import StartError
from tests.unit.kubelet_objects import pod

A = '(pod: "foo_new(12345678)", container: a)'
SOURCES = EnvironmentSources(("10.1.0.2",), "192.0.2.1", {"cpu": Fraction(2), "memory": Fraction(10**9)}, lambda _: {})


def mount_sources(volumes: dict[str, MountedVolume]) -> MountSources:
    return MountSources(volumes, Path("/pod/hosts"), Path("/pod/message"), lambda: True, Path("/pod/sub-paths"))


@pytest.fixture
def resolv_conf(tmp_path: Path) -> Path:
    path = tmp_path / "resolv.conf"
    path.write_text(
        "# comment\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch old.test\nsearch a.test. b.test .\n"
        "options ndots:2 rotate\n"
    )
    return path


def test_the_policy_default_is_the_nodes_file(resolv_conf: Path) -> None:
    dns = pod_dns(pod(dnsPolicy="Default"), resolv_conf)

    assert dns.config.servers == ["192.0.2.1", "192.0.2.2"]
    assert dns.config.searches == ["a.test", "b.test"]
    assert dns.config.options == ["ndots:2", "rotate"]
    assert dns.notes == ()


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        ({"dnsPolicy": "ClusterFirst"}, ["MissingClusterDNS"]),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, []),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, ["MissingClusterDNS"]),
    ],
)
def test_without_a_cluster_dns_the_nodes_file_counts(
    resolv_conf: Path, spec: dict[str, Any], reasons: list[str]
) -> None:
    dns = pod_dns(pod(**spec), resolv_conf)

    assert [note.reason for note in dns.notes] == reasons
    # kubelet names ClusterFirst for both policies.
    told = 'cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.'
    assert all(note.message.startswith('pod: "foo_') and note.message.endswith(told) for note in dns.notes)
    assert dns.config.servers == ["192.0.2.1", "192.0.2.2"]


def test_the_pods_own_settings_are_added_and_win(resolv_conf: Path) -> None:
    own = {
        "nameservers": ["192.0.2.2", "192.0.2.3"],
        "searches": ["c.test"],
        "options": [{"name": "ndots", "value": "5"}, {"name": "debug"}],
    }

    added = pod_dns(pod(dnsPolicy="Default", dnsConfig=own), resolv_conf).config
    alone = pod_dns(pod(dnsPolicy="None", dnsConfig=own), resolv_conf).config

    assert added.servers == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert added.searches == ["a.test", "b.test", "c.test"]
    assert added.options == ["ndots:5", "rotate", "debug"]
    assert (alone.servers, alone.searches) == (["192.0.2.2", "192.0.2.3"], ["c.test"])


def test_more_than_a_resolver_takes_is_cut_and_said(resolv_conf: Path) -> None:
    own = {
        "nameservers": ["192.0.2.3", "192.0.2.4"],
        "searches": [f"{number}.{'x' * 60}.{'y' * 60}.test" for number in range(31)],
    }

    dns = pod_dns(pod(dnsPolicy="Default", dnsConfig=own), resolv_conf)

    assert dns.config.servers == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert len(" ".join(dns.config.searches)) <= 2048
    assert [note.reason for note in dns.notes] == ["DNSConfigForming"] * 2
    assert dns.notes[0].message.endswith("the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("a$", "a$"),
    ],
)
def test_references_are_replaced_if_they_are_known(text: str, result: str) -> None:
    assert expanded(text, {"A": "1"}) == result


def test_a_variable_sees_earlier_ones_and_the_last_of_a_name_counts() -> None:
    words = [("A", "1"), ("B", "$(A)$(C)"), ("C", "3"), ("A", "2$(A)")]

    described = pod([{"name": "a", "env": [{"name": name, "value": value} for name, value in words]}])

    found = variables(described, described.spec.containers[0], SOURCES)

    assert found == [KeyValue(key="A", value="21"), KeyValue(key="B", value="1$(C)"), KeyValue(key="C", value="3")]


def test_the_hosts_file_has_the_pods_addresses_and_aliases() -> None:
    aliases = [{"ip": "192.0.2.9", "hostnames": ["nine", "neuf"]}]

    text = hosts_file_content(pod(hostAliases=aliases, subdomain="sub"), ["10.1.0.2", "fd00::2"], "")

    lines = text.splitlines()
    assert lines[0] == "# Kubernetes-managed hosts file."
    assert "10.1.0.2\tfoo.sub.new.svc.\tfoo" in lines
    assert "fd00::2\tfoo.sub.new.svc.\tfoo" in lines
    assert lines[-2:] == ["# Entries added by HostAliases.", "192.0.2.9\tnine\tneuf"]


def test_a_pod_of_the_nodes_network_has_the_nodes_hosts() -> None:
    text = hosts_file_content(pod(hostNetwork=True), ["192.0.2.1"], "127.0.0.1 node\n")

    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n"


def test_a_host_name_is_cut_to_63_characters_without_a_trailing_sign() -> None:
    long = V1Pod.decode({"metadata": {"name": "a" * 62 + "-" + "b" * 10}, "spec": {"containers": []}})

    assert pod_hostname(long) == "a" * 62
    assert pod_hostname(pod(hostname="own")) == "own"


def test_the_full_name_is_the_host_name_if_the_pod_wants_it() -> None:
    def hostname(**spec: Any) -> str:
        config = pod_sandbox_config(pod(**spec), 0, dns=None, log_directory="", cgroup_parent="")
        return config.hostname

    assert hostname(subdomain="sub", setHostnameAsFQDN=True) == "foo.sub.new.svc."
    assert hostname(subdomain="sub") == hostname(setHostnameAsFQDN=True) == "foo"
    too_long = f"FQDN foo.{'s' * 60}.new.svc. is too long (64 characters is the max, 73 characters requested)"
    with pytest.raises(ValueError, match=re.escape(too_long)):
        hostname(subdomain="s" * 60, setHostnameAsFQDN=True)


def test_the_request_for_a_sandbox() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080, "hostIP": "192.0.2.1"}, {"containerPort": 53, "protocol": "UDP"}]
    described = pod([{"name": "a", "ports": ports}], shareProcessNamespace=True)

    config = pod_sandbox_config(described, 2, dns=None, log_directory="/logs", cgroup_parent="/group")

    assert (config.metadata.name, config.metadata.attempt, config.hostname) == ("foo", 2, "foo")
    assert [(each.protocol, each.container_port, each.host_port, each.host_ip) for each in config.port_mappings] == [
        ("TCP", 80, 8080, "192.0.2.1"),
        ("UDP", 53, 0, ""),
    ]
    assert (config.network, config.pid, config.ipc) == (Mode.POD, Mode.POD, Mode.POD)
    of_node = pod_sandbox_config(
        pod(hostNetwork=True, hostPID=True, hostIPC=True), 0, dns=None, log_directory="", cgroup_parent=""
    )
    assert (of_node.hostname, of_node.network, of_node.pid, of_node.ipc) == ("", Mode.NODE, Mode.NODE, Mode.NODE)


def test_the_request_for_a_container(tmp_path: Path) -> None:
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "map", "mountPath": "/map"},
    ]
    env = [{"name": "WORD", "value": "hello"}]
    described = pod(
        [
            {
                "name": "a",
                "command": ["echo", "$(WORD)"],
                "args": ["$(NONE)"],
                "env": env,
                "volumeMounts": mounts,
                "terminationMessagePath": "/dev/termination-log",
            }
        ],
        securityContext={"runAsUser": 1000},
    )
    volumes = {"data": MountedVolume(tmp_path), "map": MountedVolume(Path("/maps"), readonly=True)}

    config = container_config(
        described,
        described.spec.containers[0],
        attempt=3,
        image=Image(id="sha256:1"),
        mounts=mount_sources(volumes),
        sources=SOURCES,
    )

    assert (config.command, config.args) == (["echo", "hello"], ["$(NONE)"])
    assert config.log_path == "a/3.log"
    assert config.security.run_as_user == 1000
    assert [(each.container_path, each.host_path, each.readonly) for each in config.mounts] == [
        ("/data", str(tmp_path), False),
        ("/map", "/maps", True),
        ("/etc/hosts", "/pod/hosts", False),
        ("/dev/termination-log", "/pod/message", False),
    ]


@pytest.mark.parametrize(
    ("container", "user", "words"),
    [
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "1", 'cannot find volume "x" to mount into container'),
        *(
            (
                {"securityContext": {"runAsNonRoot": True}},
                user,
                f"container has runAsNonRoot and image will run as root {A}",
            )
            for user in ("", "0", "0:5")
        ),
        (
            {"securityContext": {"runAsNonRoot": True}},
            "www",
            f"has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root {A}",
        ),
        (
            {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
            "1",
            f"container's runAsUser breaks non-root policy {A}",
        ),
    ],
)
def test_a_container_that_cannot_be_configured(container: dict[str, object], user: str, words: str) -> None:
    described = pod([{"name": "a", **container}])

    with pytest.raises(StartError, match=re.escape(words)) as raised:
        container_config(
            described,
            described.spec.containers[0],
            attempt=0,
            image=Image(id="i", user=user),
            mounts=mount_sources({}),
            sources=SOURCES,
        )

    assert raised.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("mode", "supported", "recursive"),
    [
        ("", True, False),
        ("Disabled", True, False),
        ("IfPossible", True, True),
        ("IfPossible", False, False),
        ("Enabled", True, True),
    ],
)
def test_recursive_read_only_mounts(mode: str, supported: bool, recursive: bool) -> None:  # noqa: FBT001 -- of a table
    described = pod([{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": mode}]}])

    config = configured(described, supported=supported)

    assert config.mounts[0].recursive_read_only is recursive


def test_recursive_read_only_that_the_runtime_cannot_do_is_an_error() -> None:
    mount = {"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}

    with pytest.raises(StartError, match="not supported by the runtime"):
        configured(pod([{"name": "a", "volumeMounts": [mount]}]), supported=False)


@pytest.mark.parametrize(
    ("own", "of_pod", "seccomp", "apparmor"),
    [
        ({}, {}, ("Unconfined", ""), None),
        ({}, {"seccompProfile": {"type": "RuntimeDefault"}}, ("RuntimeDefault", ""), None),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"}},
            ("Localhost", "/var/lib/kubelet/seccomp/a/b.json"),
            ("Unconfined", ""),
        ),
        (
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}},
            {},
            ("Unconfined", ""),
            ("Localhost", "mine"),
        ),
    ],
)
def test_a_containers_profile_goes_before_the_pods(
    own: dict[str, object],
    of_pod: dict[str, object],
    seccomp: tuple[str, str],
    apparmor: tuple[str, str] | None,
) -> None:
    security = configured(pod([{"name": "a", "securityContext": own}], securityContext=of_pod)).security

    assert (security.seccomp.profile_type, security.seccomp.localhost_ref) == seccomp
    found = security.apparmor
    assert (found and (found.profile_type, found.localhost_ref)) == apparmor


def configured(described: V1Pod, *, supported: bool = True) -> ContainerConfig:
    sources = mount_sources({"v": MountedVolume(Path("/v"))})._replace(makes_recursive_read_only=lambda: supported)
    return container_config(
        described, described.spec.containers[0], attempt=0, image=Image(id="i"), mounts=sources, sources=SOURCES
    )


def ended(tmp_path: Path, policy: str, *, message: str = "", code: int = 1) -> ContainerStatus:
    log = tmp_path / "0.log"
    log.write_text("".join(f"2026-01-01T00:00:00.0Z stdout F line {number}\n" for number in range(100)))
    file = new_message_file(tmp_path / "messages")
    file.write_text(message)
    return ContainerStatus(
        id="1",
        pod_sandbox_id="2",
        created_at=1,
        metadata=ContainerMetadata(name="a"),
        state=ContainerState.EXITED,
        exit_code=code,
        message="of the runtime",
        mounts=[Mount(container_path="/dev/log", host_path=str(file))],
        annotations={TERMINATION_MESSAGE_PATH: "/dev/log", TERMINATION_MESSAGE_POLICY: policy},
        log_path=str(log),
    )


def test_a_message_file_takes_precedence_over_the_log(tmp_path: Path) -> None:
    status = ended(tmp_path, "FallbackToLogsOnError", message="a" * 904 + "x" * 4096)

    assert termination_message(status) == f"of the runtime: {'x' * 4096}"


def test_fifo_of_a_container_is_an_unreadable_message(tmp_path: Path) -> None:
    status = ended(tmp_path, "File")
    file = Path(status.mounts[0].host_path)
    file.unlink()
    os.mkfifo(file)

    expected = f"of the runtime: Error on reading termination log {file}: not a regular file"
    assert termination_message(status) == expected


def test_fifo_instead_of_the_log_is_an_unreadable_message(tmp_path: Path) -> None:
    status = ended(tmp_path, "FallbackToLogsOnError")
    Path(status.log_path).unlink()
    os.mkfifo(status.log_path)

    expected = "of the runtime: Error on reading termination message from logs: not a regular file"
    assert termination_message(status) == expected


@pytest.mark.parametrize(("policy", "code"), [("File", 1), ("FallbackToLogsOnError", 0)])
def test_the_log_is_no_message_by_policy_or_after_success(tmp_path: Path, policy: str, code: int) -> None:
    assert termination_message(ended(tmp_path, policy, code=code)) == "of the runtime"


def test_the_end_of_the_log_is_the_message(tmp_path: Path) -> None:
    message = termination_message(ended(tmp_path, "FallbackToLogsOnError"))

    assert message == "of the runtime: " + "".join(f"line {number}\n" for number in range(20, 100))


def test_a_line_of_the_log_in_several_parts_is_one_line_of_the_message(tmp_path: Path) -> None:
    status = ended(tmp_path, "FallbackToLogsOnError")
    parts = (("P", "one "), ("P", "long"), ("F", " line"), ("F", "x" * 2040))
    Path(status.log_path).write_text("".join(f"2026-01-01T00:00:00.0Z stderr {tag} {text}\n" for tag, text in parts))

    assert termination_message(status) == "of the runtime: g line\n" + "x" * 2040 + "\n"
