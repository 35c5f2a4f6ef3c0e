"""The client of a runtime behind a socket: its generated modules, its requests, and errors without a runtime.

tests/runtime has it talk to containerd.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import grpc
import pytest

import fast_stdlib
from api.container import V1Container
from harness.cli.kubelet_node import choose_endpoint, forget_endpoint, keep_endpoint
from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    ContainerSecurity,
    ContainerStatus,
    ContainerUser,
    DNSConfig,
    KeyValue,
    Mount,
    NamespaceMode,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
    ProfileType,
    Resources,
    SecurityProfile,
)
from harness.cri.remote import api_pb2
from harness.cri.remote.client import RemoteRuntime, container_config, sandbox_config
from harness.cri.remote.exec_stream import exit_code
from harness.cri.remote.grpc_calls import go_name
from harness.cri.remote.wire import from_wire
from harness.cri.service import RuntimeServiceError
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.sync.backoff import Backoff
from harness.kubelet.sync.container_images import ContainerImages
from harness.trace_recorder import TraceRecorder
from tools import stubs

SANDBOX = PodSandboxConfig(
    metadata=PodSandboxMetadata(name="web", uid="uid-1", namespace="tests", attempt=2),
    hostname="host",
    log_directory="/logs",
    dns_config=DNSConfig(servers=["192.0.2.53"], searches=["a.test"], options=["ndots:2"]),
    port_mappings=[PortMapping(protocol="SCTP", container_port=80, host_port=8080, host_ip="192.0.2.1")],
    labels={"app": "web"},
    annotations={"note": "1"},
    cgroup_parent="/kubepods/pod1",
    sysctls={"net.core.somaxconn": "500"},
    network=NamespaceMode.NODE,
    pid=NamespaceMode.CONTAINER,
    ipc=NamespaceMode.POD,
    privileged=True,
)
CONTAINER = ContainerConfig(
    metadata=ContainerMetadata(name="main", attempt=3),
    image="sha256:1",
    command=["sh"],
    args=["-c", "true"],
    working_dir="/work",
    envs=[KeyValue(key="NAME", value="wert äß")],
    mounts=[
        Mount(
            container_path="/data", host_path="/on/node", readonly=True, propagation="rslave", recursive_read_only=True
        )
    ],
    labels={"one": "1"},
    annotations={"two": "2"},
    log_path="main/3.log",
    tty=True,
    resources=Resources(cpu_shares=2, memory_limit_in_bytes=1 << 40, oom_score_adj=-997),
    security=ContainerSecurity(
        run_as_user=0,
        supplemental_groups=[7],
        add_capabilities=["NET_ADMIN"],
        drop_capabilities=["ALL"],
        seccomp=SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref="/profiles/mine.json"),
        apparmor=SecurityProfile(profile_type=ProfileType.RUNTIME_DEFAULT),
    ),
)


def test_generated_modules_match_the_proto_file(tmp_path: Path) -> None:
    stubs.generate(tmp_path)

    for name in stubs.NAMES:
        path = stubs.PROTO.parent / name
        assert (tmp_path / path).read_text() == (stubs.ROOT / path).read_text(), "run `python -m tools.stubs`"


def test_a_sandboxs_request_has_all_that_its_config_says() -> None:
    sent = api_pb2.PodSandboxConfig.FromString(sandbox_config(SANDBOX).SerializeToString())

    assert [(each.name, each.uid, each.namespace, each.attempt) for each in [sent.metadata]] == [
        ("web", "uid-1", "tests", 2)
    ]
    assert (sent.hostname, sent.log_directory) == ("host", "/logs")
    assert [list(sent.dns_config.servers), list(sent.dns_config.searches), list(sent.dns_config.options)] == [
        ["192.0.2.53"],
        ["a.test"],
        ["ndots:2"],
    ]
    [port] = sent.port_mappings
    assert (port.protocol, port.container_port, port.host_port, port.host_ip) == (api_pb2.SCTP, 80, 8080, "192.0.2.1")
    assert (dict(sent.labels), dict(sent.annotations)) == ({"app": "web"}, {"note": "1"})
    assert (sent.linux.cgroup_parent, dict(sent.linux.sysctls)) == ("/kubepods/pod1", {"net.core.somaxconn": "500"})
    security = sent.linux.security_context
    options = security.namespace_options
    assert (options.network, options.pid, options.ipc) == (api_pb2.NODE, api_pb2.CONTAINER, api_pb2.POD)
    assert security.privileged
    assert security.HasField("seccomp")
    assert security.seccomp.profile_type == api_pb2.SecurityProfile.RuntimeDefault


def test_a_sandbox_without_dns_config_gets_the_nodes() -> None:
    config = PodSandboxConfig(metadata=SANDBOX.metadata)

    assert not sandbox_config(config).HasField("dns_config")
    assert sandbox_config(SANDBOX).HasField("dns_config")


def test_a_containers_request_has_all_that_its_config_says() -> None:
    sent = api_pb2.ContainerConfig.FromString(container_config(CONTAINER, SANDBOX).SerializeToString())

    assert (sent.metadata.name, sent.metadata.attempt, sent.image.image) == ("main", 3, "sha256:1")
    assert (list(sent.command), list(sent.args), sent.working_dir) == (["sh"], ["-c", "true"], "/work")
    assert [(each.key, each.value) for each in sent.envs] == [("NAME", "wert äß")]
    [mount] = sent.mounts
    assert (mount.container_path, mount.host_path, mount.readonly) == ("/data", "/on/node", True)
    assert mount.recursive_read_only
    assert mount.propagation == api_pb2.PROPAGATION_HOST_TO_CONTAINER
    assert (dict(sent.labels), dict(sent.annotations), sent.log_path) == ({"one": "1"}, {"two": "2"}, "main/3.log")
    assert (sent.tty, sent.stdin, sent.stdin_once) == (True, False, False)
    limits, security = sent.linux.resources, sent.linux.security_context
    assert (limits.cpu_shares, limits.memory_limit_in_bytes, limits.oom_score_adj) == (2, 1 << 40, -997)
    assert list(security.capabilities.add_capabilities) == ["NET_ADMIN"]
    assert list(security.capabilities.drop_capabilities) == ["ALL"]
    assert list(security.supplemental_groups) == [7]
    # User 0 is said, and is not the same as no user.
    assert security.HasField("run_as_user")
    assert not security.HasField("run_as_group")
    assert security.namespace_options.network == api_pb2.NODE
    assert {"/proc/kcore", "/sys/firmware"} <= set(security.masked_paths)
    assert "/proc/sys" in security.readonly_paths
    profiles = [(each.profile_type, each.localhost_ref) for each in (security.seccomp, security.apparmor)]
    assert profiles == [
        (api_pb2.SecurityProfile.Localhost, "/profiles/mine.json"),
        (api_pb2.SecurityProfile.RuntimeDefault, ""),
    ]


def test_without_profiles_seccomp_is_off_and_apparmor_is_the_runtimes() -> None:
    config = ContainerConfig(metadata=CONTAINER.metadata, image="i")

    security = container_config(config, SANDBOX).linux.security_context

    assert security.seccomp.profile_type == api_pb2.SecurityProfile.Unconfined
    assert not security.HasField("apparmor")


def test_codes_have_the_names_of_go() -> None:
    names = "OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied "
    names += "ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss "
    expected = [*names.split(), "Unauthenticated"]
    expected[0] = "Ok"  # never an error

    assert expected == [go_name(code) for code in sorted(grpc.StatusCode, key=lambda code: code.value[0])]


def test_an_absent_runtime_is_named(tmp_path: Path) -> None:
    socket = tmp_path / "absent.sock"

    with RemoteRuntime(f"unix://{socket}") as runtime, pytest.raises(RuntimeServiceError) as failure:
        runtime.version()

    assert re.match(r"rpc error: code = Unavailable desc = .*" + re.escape(str(socket)), str(failure.value))


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[str, list[dict[str, str | bytes]]]]:
    """A server that answers Version and ListImages: its endpoint, and the metadata of the calls that it got."""
    seen: list[dict[str, str | bytes]] = []
    answers = {"RuntimeService": api_pb2.VersionResponse(version="0.1.0"), "ImageService": api_pb2.ListImagesResponse()}

    class Calls(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            answer = answers[details.method.split("/")[1].rpartition(".")[2]]
            seen.append(dict(details.invocation_metadata))
            return grpc.unary_unary_rpc_method_handler(lambda *_: answer.SerializeToString())

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Calls()])
    endpoint = f"unix://{tmp_path}/runtime.sock"
    server.add_insecure_port(endpoint)
    server.start()
    yield endpoint, seen
    server.stop(None).wait()


def test_calls_of_a_trace_carry_its_context(listening: tuple[str, list[dict[str, str | bytes]]]) -> None:
    endpoint, seen = listening
    recorder = TraceRecorder(None, lambda _: None, keep=True)

    with RemoteRuntime(endpoint) as runtime:
        runtime.version()
        with fast_stdlib.recorded_by(recorder), fast_stdlib.span("step"):
            runtime.version()
            runtime.images.list_images()

    (step,) = recorder.spans
    assert "traceparent" not in seen[0]
    assert [each["traceparent"] for each in seen[1:]] == [f"00-{step.trace_id}-{step.span_id}-01"] * 2


@pytest.mark.parametrize("endpoint", ["tcp://192.0.2.1:1", "run/containerd.sock", "npipe:////./pipe/x"])
def test_an_endpoint_is_a_unix_socket(endpoint: str) -> None:
    with pytest.raises(RuntimeServiceError, match=re.escape(endpoint)):
        RemoteRuntime(endpoint)


def test_the_exit_code_is_in_the_status() -> None:
    causes = [{"reason": "Other", "message": "x"}, {"reason": "ExitCode", "message": "7"}]

    assert exit_code({"status": "Success"}) == 0
    assert exit_code({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}) == 7
    with pytest.raises(RuntimeServiceError, match="no such file"):
        exit_code({"status": "Failure", "message": "no such file"})


def test_a_missing_package_is_named_with_its_extra() -> None:
    script = """
import contextlib, sys
sys.modules["grpc"] = None
from harness.cli import kubelet_node
from harness.cli.options import Settings
import click
try:
    kubelet_node._remote_runtime(Settings(), "unix:///absent", contextlib.ExitStack())
except click.ClickException as error:
    print(error.format_message())
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "--runtime-endpoint needs the Python package grpc: pip install 'cni-harness[cri]'\n"


def test_a_container_without_an_image_is_refused_before_the_runtime_is_asked(tmp_path: Path) -> None:
    events = []
    with RemoteRuntime(f"unix://{tmp_path}/absent.sock") as runtime:
        images = ContainerImages(runtime.images, Backoff())
        with pytest.raises(StartError, match="names no image") as refusal:
            images.ensure(V1Container(name="main"), "uid-1", lambda *event: events.append(event))

    assert refusal.value.reason == "InvalidImageName"
    assert [event[:2] for event in events] == [("Warning", "InspectFailed")]


def test_a_node_keeps_to_the_runtime_that_has_its_pods(tmp_path: Path) -> None:
    folder = tmp_path / "node"

    assert [choose_endpoint(folder, given) for given in ("", "unix:///one")] == ["", "unix:///one"]
    keep_endpoint(folder, "unix:///one")
    assert [choose_endpoint(folder, given) for given in ("", "unix:///one")] == ["unix:///one", "unix:///one"]
    with pytest.raises(click.ClickException, match="pods of manifests are in unix:///one"):
        choose_endpoint(folder, "unix:///two")
    forget_endpoint(folder)
    assert choose_endpoint(folder, "unix:///two") == "unix:///two"
    keep_endpoint(folder, "")
    with pytest.raises(click.ClickException, match="pods of manifests are in the runtime of cni-harness"):
        choose_endpoint(folder, "unix:///two")


def test_container_user_comes_from_linux_and_is_absent_in_older_runtimes() -> None:
    linux = api_pb2.LinuxContainerUser(uid=1000, gid=2000, supplemental_groups=[2000, 3000])
    user = api_pb2.ContainerUser(linux=linux)

    told = from_wire(api_pb2.ContainerStatus(user=user), ContainerStatus, pod_sandbox_id="")

    assert told.user == ContainerUser(uid=1000, gid=2000, supplemental_groups=[2000, 3000])
    assert from_wire(api_pb2.ContainerStatus(), ContainerStatus, pod_sandbox_id="").user is None
