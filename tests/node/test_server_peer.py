"""Whom the server acts for, and whom it leaves to execute the plugin by themselves.

The kernel's two ways to tell which process connected are tested on every kernel: an option that no kernel knows stands
for SO_PEERPIDFD where this must be missing.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from launch.launcher import launcher_bytes
from launch.server.peer import (
    CREDENTIALS_BYTES,
    SO_PEERPIDFD,
    Identity,
    PeerError,
    judge,
    own_identity,
    want_credentials,
)
from skel import SUPPORTED
from tests.attachments import Network, bridge_config
from tests.cli import ROOT
from tests.nodes import HANG, Node, until
from tests.server_client import encode_request, request_for
from tests.servers import Server, running_server, write_launchers

VERSION = {"CNI_COMMAND": "VERSION"}
VERSIONS = {"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}

UNKNOWN_OPTION = 0x7FFE
SO_PEERNAME = 28
WAYS = ("pidfd", "folder")
WITHOUT_PIDFD = f"import launch.server.peer; launch.server.peer.judge.__wrapped__.__defaults__ = ({UNKNOWN_OPTION},)"

pytestmark = pytest.mark.sudo


@pytest.fixture(params=[SO_PEERPIDFD, UNKNOWN_OPTION], ids=WAYS)
def option(request: pytest.FixtureRequest) -> int:
    """The socket option that gives a descriptor of a process, or one that gives nothing."""
    number: int = request.param
    return number


@pytest.fixture(scope="module", params=["", WITHOUT_PIDFD], ids=WAYS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), prelude=request.param) as running:
        yield running


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.bind(str(tmp_path / "socket"))
        made.listen()
        want_credentials(made)
        made.settimeout(HANG)
        yield made


# Connects, then obeys each word on stdin; a child has the connection, too.
CALLER = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
to_child, child_reads = os.pipe()[::-1]
if os.fork() == 0:
    os.close(to_child)
    while os.read(child_reads, 1):
        connection.send(b"child")
    os._exit(0)
for word in sys.stdin:
    if word == "say\\n":
        connection.send(b"parent")
    elif word == "child\\n":
        os.write(to_child, b"x")
    elif word == "exec\\n":
        os.set_inheritable(to_child, True)  # the child lives on
        os.execvp("sleep", ["sleep", "1000"])
"""


class Caller:
    """A process that has connected; and its child, which has the connection and ends with it."""

    def __init__(self, path: str, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-IS", "-c", CALLER, path], stdin=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = self.process.pid

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")

    def has_ended(self) -> bool:
        """Tell whether it has, without taking its PID from it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.fixture
def connected(listening: socket.socket) -> Iterator[Callable[..., tuple[Caller, socket.socket]]]:
    """Starts a caller at each call, and accepts its connection."""
    opened: list[tuple[Caller, socket.socket]] = []

    def start(*prefix: str) -> tuple[Caller, socket.socket]:
        caller = Caller(str(listening.getsockname()), prefix)
        connection, _ = listening.accept()
        connection.settimeout(HANG)
        opened.append((caller, connection))
        return opened[-1]

    yield start
    for caller, connection in opened:
        connection.close()
        caller.process.kill()
        caller.process.communicate()


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def received(connection: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    packet, ancillary, flags, _ = connection.recvmsg(100, CREDENTIALS_BYTES)
    assert not flags & socket.MSG_CTRUNC
    return packet, ancillary


def test_caller_with_our_identity_is_judged_so(connected: Callable[..., Any], option: int) -> None:
    caller, connection = connected()
    before = open_files()

    with judge(connection, own_identity(), option) as peer:
        caller.tell("say")
        packet, request = received(connection)
        peer.check_credentials(request)
        peer.check_silence()
        caller.tell("say")
        peer.check_credentials(received(connection)[1])

        assert (peer.pid, packet) == (caller.pid, b"parent")
        assert peer.root_inode == (Path("/").stat().st_dev, Path("/").stat().st_ino)
    assert open_files() == before


def test_caller_that_has_ended_is_not_taken_for_its_child(connected: Callable[..., Any], option: int) -> None:
    caller, connection = connected()
    caller.process.kill()
    until(caller.has_ended)
    before = open_files()

    with pytest.raises(PeerError, match="gone"), judge(connection, own_identity(), option):  # not waited for yet
        pass
    caller.process.wait()
    with pytest.raises(PeerError, match="gone"), judge(connection, own_identity(), option):
        pass

    assert open_files() == before


@pytest.mark.parametrize("waited_for", [False, True])
def test_end_of_a_caller_that_was_judged_is_noticed(
    connected: Callable[..., Any], option: int, *, waited_for: bool
) -> None:
    caller, connection = connected()
    with judge(connection, own_identity(), option) as peer:
        caller.tell("say")
        _, ancillary = received(connection)
        caller.process.kill()
        until(caller.has_ended)
        if waited_for:
            caller.process.wait()

        with pytest.raises(PeerError, match="gone"):
            peer.still_there()
        with pytest.raises(PeerError, match="gone"):
            peer.check_credentials(ancillary)


@pytest.mark.parametrize("word", ["say", "exec"])
def test_messages_of_a_child_are_not_its_parents(connected: Callable[..., Any], option: int, word: str) -> None:
    """One with a security label may execute a program that has none, and let its child go on."""
    caller, connection = connected()
    with judge(connection, own_identity(), option) as peer:
        caller.tell("child")
        packet, ancillary = received(connection)
        caller.tell(word)

        assert packet == b"child"
        with pytest.raises(PeerError, match="another process has sent a message"):
            peer.check_credentials(ancillary)


def test_go_that_comes_before_the_answer_is_refused(connected: Callable[..., Any], option: int) -> None:
    """The process that sent both may have ended before the folder of its PID was opened."""
    caller, connection = connected()
    with judge(connection, own_identity(), option) as peer:
        caller.tell("say")
        _, ancillary = received(connection)
        caller.tell("say")

        assert until(lambda: connection.recv(10, socket.MSG_PEEK)) == b"parent"
        peer.check_credentials(ancillary)
        with pytest.raises(PeerError, match="did not wait for an answer"):
            peer.check_silence()


@pytest.mark.parametrize("label", [None, b"unconfined\n"])
def test_caller_must_confirm_if_its_identity_may_have_changed(
    connected: Callable[..., Any], option: int, monkeypatch: pytest.MonkeyPatch, label: bytes | None
) -> None:
    """Without a descriptor of the process, another one; with security labels, another program."""
    monkeypatch.setattr("launch.server.peer._label", lambda _: label)
    _, connection = connected()

    with judge(connection, own_identity(), option) as peer:
        assert peer.must_confirm == (label is not None or option != SO_PEERPIDFD)


def test_message_without_credentials_is_refused(connected: Callable[..., Any], option: int) -> None:
    _, connection = connected()

    with judge(connection, own_identity(), option) as peer, pytest.raises(PeerError, match="another process"):
        peer.check_credentials([])


def test_caller_that_connected_before_the_server_came_can_be_judged(tmp_path: Path, option: int) -> None:
    """To a socket of systemd's, which has not been told that credentials are wanted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.bind(str(tmp_path / "socket"))
        made.listen()
        caller = Caller(str(tmp_path / "socket"))
        connection, _ = made.accept()
    with connection, judge(connection, own_identity(), option) as peer:
        caller.tell("say")
        _, ancillary = received(connection)

        peer.check_credentials(ancillary)
    caller.process.communicate()


def test_process_that_the_kernel_has_no_descriptor_of_any_more_has_ended(connected: Callable[..., Any]) -> None:
    """Before Linux 6.16 SO_PEERPIDFD fails then, which must not lead to the way without it."""
    _, connection = connected()
    with pytest.raises(OSError, match="Invalid argument"):
        connection.getsockopt(socket.SOL_SOCKET, SO_PEERNAME, 4)

    with pytest.raises(PeerError, match="gone"), judge(connection, own_identity(), SO_PEERNAME):
        pass


def with_label(own: Identity) -> Identity:
    return own._replace(label=b"cni-serve (enforce)\n")


def with_a_filter(own: Identity) -> Identity:
    return own._replace(restrictions=b"\nNoNewPrivs:\t0\nSeccomp:\t2")


def with_groups(own: Identity) -> Identity:
    return own._replace(groups=b"\nGroups:\t4 24 ")


def with_another_root(own: Identity) -> Identity:
    return own._replace(root_inode=(0, 1))


def without_a_capability(own: Identity) -> Identity:
    return own._replace(capabilities=own.capabilities.replace(b"CapEff:\t0", b"CapEff:\t8"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_label, "another security label"),
        (with_a_filter, "other privileges: Seccomp: 0"),
        (with_groups, "in other groups"),
        (with_another_root, "another root folder: '/'"),
        (without_a_capability, "other privileges: CapEff"),
    ],
)
def test_server_with_another_identity_refuses_callers(
    connected: Callable[..., Any], option: int, change: Callable[[Identity], Identity], why: str
) -> None:
    _, connection = connected()

    with pytest.raises(PeerError, match=why), judge(connection, change(own_identity()), option):
        pass


OWN_GROUPS = "from launch.server.peer import own_identity; print(own_identity().groups)"


@pytest.mark.parametrize(
    ("without", "groups"), [("", "b''"), ("-dac_override", r"b'\nGroups:\t4 24 '"), ("-chown", r"b'\nGroups:\t4 24 '")]
)
def test_supplementary_groups_count_if_the_capabilities_do_not_make_them_irrelevant(without: str, groups: str) -> None:
    bounding = [f"--bounding-set={without}"] if without else []

    run = subprocess.run(
        ["setpriv", "--groups=4,24", *bounding, sys.executable, "-c", OWN_GROUPS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == f"{groups}\n"


def test_server_in_another_pid_namespace_than_its_proc_does_not_start() -> None:
    run = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", OWN_GROUPS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "/proc is of another PID namespace" in run.stderr


# A launcher's request, handed in as hexadecimal digits, with files that are no more than that.
STRANGER = """
import socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
try:
    socket.send_fds(connection, [bytes.fromhex(sys.argv[2])], [0, 0, 0, 0])
    print(connection.recv(10))
except ConnectionError:
    print(b"")
"""


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(("user", "group"), [(65534, 65534), (65534, 0), (0, 65534)])
def test_other_users_are_refused_after_connecting(user: int, group: int) -> None:
    with TemporaryDirectory(prefix="cni-harness-test-") as folder, running_server(Path(folder)) as server:
        Path(folder).chmod(0o755)
        server.socket.chmod(0o666)

        run = subprocess.run(
            ["/usr/bin/python3", "-IS", "-c", STRANGER, server.socket, encode_request(request_for("noop", {})).hex()],
            user=user,
            group=group,
            extra_groups=[],
            capture_output=True,
            text=True,
            cwd="/",
            check=True,
        )

        assert run.stdout == "b''\n"
        until(lambda: f"not root: user {user}, group {group}" in server.log())


# Executes its arguments under a filter of system calls (seccomp(2)) that lets all of them through.
UNDER_A_FILTER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))  # BPF_RET, SECCOMP_RET_ALLOW
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]
program = Program(1, ctypes.addressof(allow))
assert libc.prctl(22, 2, ctypes.byref(program)) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execv(sys.argv[1], sys.argv[1:])
"""
FILTERED = [sys.executable, "-I", "-c", UNDER_A_FILTER]

# The name of its root is to be no line of the log.
CHROOT = 'mount -t tmpfs none /mnt && mkdir "$0" && mount --rbind / "$0" && exec chroot "$0" "$@"'
CHROOTED = ["unshare", "--mount", "sh", "-c", CHROOT, "/mnt/a\nb"]


def limited(name: str, value: int) -> list[str]:
    return ["prlimit", f"--{name}={value}", "--"]


@pytest.mark.mostly_slow(4, "each identity; a part is in make test")
@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        (["unshare", "--user", "--map-root-user"], "in another user namespace: user:["),
        (["unshare", "--pid", "--fork"], "in another PID namespace: pid:["),
        (["setpriv", "--bounding-set=-all"], "with other privileges: CapPrm: 0000000000000000"),
        (["setpriv", "--bounding-set=-net_admin"], "with other privileges: CapPrm:"),
        (["setpriv", "--inh-caps=+net_raw"], "with other privileges: CapInh: 0000000000002000"),
        (["setpriv", "--no-new-privs"], "with other privileges: NoNewPrivs: 1"),
        (FILTERED, "under a filter of system calls"),
        (CHROOTED, r"with another root folder: '/mnt/a\nb'"),
        (["setpriv", "--ruid=65534"], "not root: user IDs 65534 0 0 0"),
        (["setpriv", "--rgid=65534", "--keep-groups"], "not root: user IDs 0 0 0 0, group IDs 65534 0 0 0"),
        (limited("as", 1 << 40), "with a lower RLIMIT_AS: 1099511627776"),
        (limited("data", 1 << 40), "with a lower RLIMIT_DATA: 1099511627776"),
        (limited("fsize", 1 << 40), "with a lower RLIMIT_FSIZE: 1099511627776"),
        (limited("cpu", 10_000), "with a lower RLIMIT_CPU: 10000"),
    ],
)
def test_callers_with_another_identity_execute_by_themselves(
    server: Server, tmp_path: Path, prefix: list[str], why: str
) -> None:
    before = server.log()
    bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))

    run = subprocess.run([*prefix, bin_dir / "noop"], env=VERSION, capture_output=True, timeout=HANG, check=False)

    assert (run.returncode, run.stdout and json.loads(run.stdout), run.stderr) == (0, VERSIONS, b"")
    assert why in server.log().removeprefix(before)


def test_callers_under_a_filter_execute_by_themselves_even_if_the_server_is_under_one(tmp_path: Path) -> None:
    """Nobody can tell whether it is the same."""
    with running_server(tmp_path, prefix=FILTERED) as server:
        bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))

        run = subprocess.run([*FILTERED, bin_dir / "noop"], env=VERSION, capture_output=True, check=True)

        assert json.loads(run.stdout) == VERSIONS
        assert "left to the launcher: under a filter of system calls" in server.log()


@pytest.mark.parametrize("name", ["as", "data"])
def test_add_with_little_memory_ends(node: Node, server: Server, tmp_path: Path, name: str) -> None:
    """It fails as it would without a server, and leaves nothing."""
    bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    network.add("first")
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "limited",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": node.pod_namespace("limited"),
        "CNI_PATH": str(bin_dir),
    }
    before = node.state()
    log = server.log()

    runs = [
        node.run(
            [*limited(name, mebibytes << 20), bin_dir / "bridge"],
            env=environ,
            stdin=json.dumps(network.config),
            check=False,
        )
        for mebibytes in (1, 4)
    ]

    assert 0 not in [run.returncode for run in runs]
    assert server.log().removeprefix(log).count(f"with a lower RLIMIT_{name.upper()}: ") == len(runs)
    node.assert_same_state(before, ignore=["files/*/last_reserved_ip*"])


IN_A_PID_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.mostly_slow(3, "each launcher; a part is in make test")
@pytest.mark.parametrize(
    ("prelude", "attack", "why"),
    [
        ("", "child goes on", "left to the launcher: gone"),
        ("", "all was said before", "left to the launcher: gone"),
        ("", "child says all", "left to the launcher: gone"),
        (WITHOUT_PIDFD, "child goes on", "left to the launcher: another process has sent a message"),
        (WITHOUT_PIDFD, "all was said before", "left to the launcher: it did not wait for an answer"),
        (WITHOUT_PIDFD, "child says all", "left to the launcher: another process has sent a message"),
    ],
)
def test_process_with_a_reused_pid_is_not_taken_for_the_caller(
    tmp_path: Path, prelude: str, attack: str, why: str
) -> None:
    """A root process without a capability connects and ends; then its PID is that of one with all of them."""
    run = subprocess.run(
        [*IN_A_PID_NAMESPACE, sys.executable, "-m", "tests.reused_pid", str(tmp_path), attack, prelude],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["output"] == ""
    assert why in seen["log"]
    assert json.loads(seen["output of another"]) == VERSIONS


# Connects, gives up privileges when the server has judged it, and only then sends its request.
LATE = """
import ctypes, os, struct, sys, time
from pathlib import Path
from tests.server_client import client, request_for
libc = ctypes.CDLL(None)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))  # BPF_RET, SECCOMP_RET_ALLOW
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]
program = Program(1, ctypes.addressof(allow))
with client(Path(sys.argv[1])) as launcher:
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    exec(sys.argv[3])
    launcher.ask(request_for("noop", {"CNI_COMMAND": "VERSION"}))
    print("refused" if launcher.is_refused() else "served")
"""
# The worker waits for a request only after it has judged the caller.
TELLS_THAT_IT_WAITS = """
from launch.server.handoff import Handoff
def wait(self, wait=Handoff._wait):
    open({path!r}, "w").close()
    wait(self)
Handoff._wait = wait
"""


@pytest.mark.mostly_slow(4, "each launcher and privilege; a part is in make test")
@pytest.mark.parametrize("way", ["", WITHOUT_PIDFD], ids=WAYS)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("assert libc.prctl(22, 2, ctypes.byref(program)) == 0", "under a filter of system calls"),
        ("assert libc.prctl(24, 25, 0, 0, 0) == 0", "with other privileges: CapBnd:"),
        ("assert libc.prctl(38, 1, 0, 0, 0) == 0", "with other privileges: NoNewPrivs: 1"),
        ("os.setuid(65534)", "not root: user IDs 65534"),
    ],
    ids=["seccomp", "capability", "no_new_privs", "user"],
)
def test_caller_that_gives_up_privileges_before_its_request_executes_by_itself(
    tmp_path: Path, way: str, change: str, why: str
) -> None:
    waits = tmp_path / "waits"
    prelude = f"{way}\n{TELLS_THAT_IT_WAITS.format(path=str(waits))}"
    with running_server(tmp_path, "--workers", "1", "--most", "1", prelude=prelude) as server:
        run = subprocess.run(
            [sys.executable, "-c", LATE, server.socket, waits, change],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )

        assert run.stdout == "refused\n", run
        assert why in server.log()
