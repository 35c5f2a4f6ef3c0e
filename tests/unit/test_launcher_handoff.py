"""The launchers, as processes, against a server that does each thing that a server may do."""

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from skel import SUPPORTED, launcher
from skel.handoff import (
    GO,
    MAX_DESCRIPTORS,
    MAX_REQUEST_BYTES,
    READY,
    Request,
    decode_environment,
    decode_request,
    encode_exit,
    encode_signal,
)
from skel.installation import build_id
from tests.nodes import until

ROOT = Path(__file__).parents[2]
DIRECT = json.dumps({"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}).encode() + b"\n"
DIED = {"cniVersion": "1.1.0", "code": 999, "msg": "the fork server's worker died while it ran the plugin"}
VERSION = {"CNI_COMMAND": "VERSION"}
SECONDS = 30


class Withdrawn(Exception):  # noqa: N818
    """The launcher has closed the connection without a request."""


class Conversation:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(SECONDS)
        self.request: Request | None = None
        self.descriptors: list[int] = []

    @property
    def pid(self) -> int:
        credentials = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], sys.byteorder)

    def read_request(self) -> Request:
        packet, self.descriptors, flags, _ = socket.recv_fds(
            self.connection, MAX_REQUEST_BYTES, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if not packet:
            raise Withdrawn
        self.request = decode_request(packet)
        return self.request

    def accept(self) -> Request:
        """Read the request and go as far as the launcher's `G`."""
        request = self.read_request()
        self.connection.send(READY)
        assert self.connection.recv(10) == GO
        return request

    def finish(self, code: int = 0) -> None:
        # As a worker's descriptors do: all of them are closed when the launcher learns of the end.
        self.forget()
        self.connection.send(encode_exit(code))

    def forget(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())

    def rest(self) -> list[bytes]:
        """What the launcher still sends, until it closes."""
        return list(iter(lambda: self.connection.recv(100), b""))


Script = Callable[[Conversation], object]


class Server:
    """Listens at `path` and runs `script` for each connection, one after the other; `talks` are those that ended."""

    def __init__(self, path: Path, script: Script, backlog: int = 1000) -> None:
        self.talks: list[Conversation] = []
        self.errors: list[BaseException] = []
        self._script = script
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(backlog)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        if self.errors:
            raise self.errors[0]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection:
                talk = Conversation(connection)
                try:
                    self._script(talk)
                except Withdrawn:
                    pass
                except BaseException as error:  # noqa: BLE001 -- raised by close
                    self.errors.append(error)
                finally:
                    talk.forget()
            self.talks.append(talk)


@contextmanager
def serving(path: Path, script: Script, backlog: int = 1000) -> Iterator[Server]:
    server = Server(path, script, backlog)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The launcher as it is built here, and as it is where freestanding.c does not compile."""
    folder = tmp_path_factory.mktemp("builds")
    strict = ("-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-Werror")
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_launcher", f"--build-lib={folder}"],
        cwd=ROOT,
        env={**os.environ, "CFLAGS": " ".join(strict)},
        check=True,
    )
    libc = folder / "libc"
    flags = ("-std=c11", "-O2", "-Wall", "-Wextra", *strict, "-static")
    subprocess.run(["cc", *flags, "skel/launcher.c", "-o", str(libc)], cwd=ROOT, check=True)
    return {"compiled": folder / "skel" / "_launcher", "libc": libc}


class Bench:
    """A folder for a launcher and the socket that it asks."""

    def __init__(self, kind: str, folder: Path, build: Path | None) -> None:
        self.kind = kind
        self.folder = folder
        self.socket = folder / "server.sock"
        self._build = build
        self.path = self.write("bridge")

    def write(self, name: str, *, patience: float = SECONDS, path: str | None = None) -> Path:
        """Write a launcher that asks the server at `path`."""
        socket_path = str(self.socket) if path is None else path
        file = self.folder / name
        file.write_bytes(self._content(socket_path, patience))
        file.chmod(0o755)
        return file

    def _content(self, socket_path: str, patience: float) -> bytes:
        if self._build is None:
            return launcher.launcher_text(socket=socket_path, patience=patience)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launcher, "_COMPILED", str(self._build))
            content = launcher.compiled_launcher(socket=socket_path, patience=patience)
        assert content is not None
        return content

    def serving(self, script: Script, backlog: int = 1000) -> AbstractContextManager[Server]:
        return serving(self.socket, script, backlog)

    def run(
        self,
        *,
        path: Path | None = None,
        command: Sequence[str | Path] = (),
        env: Mapping[str, str] = VERSION,
        stdin: bytes = b"",
        redirection: str = "",
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the launcher; `command` goes before it, `redirection` is the shell's."""
        args = [*command, path or self.path]
        if redirection:
            args = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', *args]
        return subprocess.run(args, env=env, input=stdin, capture_output=True, cwd="/", timeout=SECONDS, check=False)

    def start(self, *, command: Sequence[str | Path] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, self.path],
            env=VERSION,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )


@pytest.fixture(params=["compiled", "libc", "python"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, builds: dict[str, Path]) -> Bench:
    return Bench(request.param, tmp_path, builds.get(request.param))


@pytest.fixture(params=["compiled", "libc"])
def compiled(request: pytest.FixtureRequest, tmp_path: Path, builds: dict[str, Path]) -> Bench:
    return Bench(request.param, tmp_path, builds[request.param])


def ran_directly(ran: subprocess.CompletedProcess[bytes]) -> bool:
    return (ran.returncode, ran.stdout, ran.stderr) == (0, DIRECT, b"")


def serve(talk: Conversation) -> None:
    """Write to each stream, and end with an exit code that is nobody else's."""
    talk.accept()
    os.write(talk.descriptors[1], b"served " + os.read(talk.descriptors[0], 100))
    os.write(talk.descriptors[2], b"logged")
    talk.finish(43)


def die(talk: Conversation) -> None:
    talk.accept()


# --- what is handed over


def test_the_server_gets_the_streams_and_gives_the_exit_code(bench: Bench) -> None:
    with bench.serving(serve) as server:
        ran = bench.run(stdin=b"a configuration")

    assert (ran.returncode, ran.stdout, ran.stderr) == (43, b"served a configuration", b"logged")
    assert len(server.talks) == 1


@pytest.mark.parametrize("code", [0, 1, 127, 255])
def test_every_exit_code_arrives(bench: Bench, code: int) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        talk.finish(code)

    with bench.serving(script):
        assert bench.run().returncode == code


def test_the_server_gets_the_callers_circumstances(bench: Bench, tmp_path: Path) -> None:
    seen: list[tuple[os.stat_result, ...]] = []

    def script(talk: Conversation) -> None:
        talk.accept()
        seen.append(tuple(os.fstat(descriptor) for descriptor in talk.descriptors))
        talk.finish()

    shell = 'umask 027; trap \'\' USR1; cd "$1"; exec env -u PWD -u OLDPWD "$0"'
    env = {"CNI_COMMAND": "ADD", "EMPTY": "", "BYTES": os.fsdecode(b"\xff=\n")}
    with bench.serving(script) as server:
        subprocess.run(["/bin/sh", "-c", shell, bench.path, tmp_path], env=env, check=True, timeout=SECONDS)

    request = server.talks[0].request
    assert request is not None
    assert request._replace(environment=b"") == Request(
        build_id=build_id(),
        umask=0o027,
        closed=(),
        blocked=0,
        ignored=1 << signal.SIGUSR1 - 1,
        plugin="bridge",
        environment=b"",
    )
    assert decode_environment(request.environment) == {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
    files = ["/dev/stdin", "/dev/stdout", "/dev/stderr", str(tmp_path), "/proc/self/ns/net", "/proc/self/ns/mnt", "/"]
    for status, file in zip(seen[0], files, strict=True):
        assert os.path.samestat(status, Path(file).stat()), file


def test_the_environment_is_that_of_execve(bench: Bench) -> None:
    """Which may hold what no shell can make: a name twice, and a string that is no variable."""
    strings = [b"A=1", b"CNI_COMMAND=VERSION", b"no variable", b"A=2", b"", b"=x"]
    program = (
        "import ctypes, sys\n"
        "def array(strings): return (ctypes.c_char_p * (len(strings) + 1))(*strings)\n"
        "path = sys.argv[1].encode()\n"
        f"ctypes.CDLL(None).execve(path, array([path]), array({strings!r}))\n"
    )

    with bench.serving(serve) as server:
        subprocess.run([sys.executable, "-c", program, bench.path], capture_output=True, timeout=SECONDS, check=False)
    directly = subprocess.run([sys.executable, "-c", program, bench.path], capture_output=True, check=True)

    assert server.talks[0].request is not None
    assert server.talks[0].request.environment == b"".join(string + b"\0" for string in strings)
    assert directly.stdout == DIRECT


def test_an_empty_environment_is_handed_over(bench: Bench) -> None:
    with bench.serving(serve) as server:
        assert bench.run(env={}).returncode == 43

    assert server.talks[0].request is not None
    assert server.talks[0].request.environment == b""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_a_closed_stream_is_left_out(bench: Bench, closed: tuple[int, ...]) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        assert len(talk.descriptors) == MAX_DESCRIPTORS - len(closed)
        assert [stat.S_ISDIR(os.fstat(fd).st_mode) for fd in talk.descriptors[-4:]] == [True, False, False, True]
        talk.finish(43)

    with bench.serving(script) as server:
        ran = bench.run(redirection=" ".join(f"{stream}>&-" for stream in closed))

    assert ran.returncode == 43
    assert server.talks[0].request is not None
    assert server.talks[0].request.closed == closed


@pytest.mark.parametrize("name", ["loopback", "no-such-plugin", "0x2"])
def test_the_name_is_that_of_the_link(bench: Bench, name: str) -> None:
    (bench.folder / name).symlink_to(bench.path)

    with bench.serving(serve) as server:
        bench.run(path=bench.folder / name)
        bench.run(command=["/bin/bash", "-c", 'exec -a other "$0"'], path=bench.folder / name)

    assert [talk.request and talk.request.plugin for talk in server.talks] == [name] * 2


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC], ids=["kept", "closed"])
def test_a_file_executed_by_its_descriptor_is_named_by_its_first_argument(compiled: Bench, flags: int) -> None:
    program = (
        "import os, sys\n"
        f"fd = os.open(sys.argv[1], {flags})\n"
        "os.execve(fd, ['/somewhere/loopback'], dict(os.environ))\n"
    )
    command: list[str | Path] = [sys.executable, "-c", program, compiled.path]

    with compiled.serving(serve) as server:
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    directly = subprocess.run(command, capture_output=True, env={}, check=False)

    assert [talk.request and talk.request.plugin for talk in server.talks] == ["loopback"]
    assert directly.stderr.startswith(b"CNI loopback plugin v")


# --- refused, in every way: the plugin runs at once, in circumstances that nothing has changed


def garbage(talk: Conversation) -> None:
    talk.read_request()
    talk.connection.send(b"X\0\0\0\0")


def too_much(talk: Conversation) -> None:
    talk.read_request()
    talk.connection.send(READY * 2)


def close_unread(_: Conversation) -> None:
    """The kernel makes a reset of this one, where the others are the connection's end."""


def close_read(talk: Conversation) -> None:
    talk.read_request()


def die_when_ready(talk: Conversation) -> None:
    talk.read_request()
    # So that the connection has ended before the launcher can answer.
    os.kill(talk.pid, signal.SIGSTOP)
    until(lambda: is_stopped(talk.pid))
    talk.connection.send(READY)
    talk.connection.shutdown(socket.SHUT_RDWR)
    os.kill(talk.pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("script", [garbage, too_much, close_unread, close_read, die_when_ready])
def test_without_an_acceptance_it_runs_directly(bench: Bench, script: Script) -> None:
    with bench.serving(script) as server:
        ran = bench.run()

    assert ran_directly(ran), ran
    assert len(server.talks) == 1


def test_without_a_server_it_runs_directly(bench: Bench) -> None:
    assert ran_directly(bench.run())

    with bench.serving(serve):
        pass
    assert bench.socket.exists()
    assert ran_directly(bench.run())

    bench.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(bench.socket))
        other.listen()
        assert ran_directly(bench.run())


def test_a_launcher_that_is_to_ask_none_asks_none(bench: Bench) -> None:
    with bench.serving(serve) as server:
        ran = bench.run(path=bench.write("loopback", path=""))

    assert ran_directly(ran)
    assert server.talks == []


def test_a_server_that_hangs_is_left_after_a_while(bench: Bench) -> None:
    ended = threading.Event()

    def script(talk: Conversation) -> None:
        talk.read_request()
        assert talk.rest() == []
        ended.set()

    with bench.serving(script):
        ran = bench.run(path=bench.write("loopback", patience=0.2))
        assert ended.wait(SECONDS)

    assert ran_directly(ran)


def test_a_full_queue_is_left_after_a_while(bench: Bench) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, ExitStack() as waiting:
        listener.bind(str(bench.socket))
        listener.listen(0)
        while True:
            connection = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connection.setblocking(False)
            if connection.connect_ex(str(bench.socket)) == errno.EAGAIN:
                break

        assert ran_directly(bench.run(path=bench.write("loopback", patience=0.2)))


def test_an_environment_that_is_too_large_for_the_socket_is_not(bench: Bench) -> None:
    # 100 KB are the most that one string may have.
    env = {**VERSION, **{f"LARGE_{number}": "x" * 100_000 for number in range(3)}}

    with bench.serving(serve) as server:
        ran = bench.run(env=env)
        almost = bench.run(env={**VERSION, "LARGE": "x" * 100_000})

    assert ran_directly(ran)
    assert [talk.request is not None for talk in server.talks] == [False, True]
    assert almost.returncode == 43


def test_without_descriptors_to_spare_it_runs_directly(bench: Bench) -> None:
    with bench.serving(serve):
        ran = bench.run(command=["/bin/sh", "-c", 'ulimit -n 6; exec "$0"'])

    assert ran_directly(ran)


@pytest.mark.sudo
def test_without_proc_it_runs_directly(bench: Bench) -> None:
    shell = 'mount -t tmpfs none /proc && exec "$0"'

    with bench.serving(serve):
        ran = bench.run(command=["unshare", "--mount", "/bin/sh", "-c", shell])

    assert ran_directly(ran)


@pytest.mark.sudo
def test_a_server_of_another_user_is_not_trusted(bench: Bench) -> None:
    bench.folder.chmod(0o777)
    program = (
        "import socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"listener.bind({str(bench.socket)!r})\n"
        "listener.listen()\n"
        "print('listening', flush=True)\n"
        "print(len(listener.accept()[0].recv(1000)))\n"
    )
    with ExitStack() as parents:
        for parent in bench.folder.parents[:-2]:
            parents.callback(parent.chmod, stat.S_IMODE(parent.stat().st_mode))
            parent.chmod(0o755)
        with subprocess.Popen(
            ["setpriv", "--reuid=65534", sys.executable, "-ISc", program], stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "listening\n"

            assert ran_directly(bench.run())
            assert other.stdout.read() == "0\n"


def test_direct_execution_has_the_callers_circumstances(compiled: Bench, tmp_path: Path) -> None:
    """Also after the server was asked, and as far as `R`: umask, streams, signals and environment are as they were."""
    report = tmp_path / "report"
    interpreter = tmp_path / "python"
    interpreter.write_text(
        "#!/bin/sh\n"
        f'{{ umask; grep -E "SigBlk|SigIgn" /proc/self/status; tr "\\0" "\\n" < /proc/$$/environ; pwd;'
        f' cd /proc/$$/fd; for fd in *; do [ -e "$fd" ] && echo "$fd"; done; }} > {report}\n'
    )
    interpreter.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(interpreter))
        path = compiled.write("loopback")
    shell = 'umask 027; trap "" HUP; cd /usr; exec env -i A=1 B= "$0" <&-'
    reports = []

    for command in (interpreter, path):
        with compiled.serving(die_when_ready):
            subprocess.run(["/bin/sh", "-c", shell, command], check=True, timeout=SECONDS)
        compiled.socket.unlink()
        reports.append(report.read_text())

    assert "0027\n" in reports[0]
    assert reports[1] == reports[0]


# --- accepted: never a second time


def late_garbage(talk: Conversation) -> None:
    talk.accept()
    talk.connection.send(READY)


def late_excess(talk: Conversation) -> None:
    talk.accept()
    talk.connection.send(encode_exit(0) + b"\0")


@pytest.mark.parametrize("script", [die, late_garbage, late_excess])
def test_a_worker_that_dies_is_an_error_and_no_second_try(bench: Bench, script: Script) -> None:
    with bench.serving(script) as server:
        ran = bench.run()

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout) == DIED
    assert len(server.talks) == 1


def test_an_error_that_nobody_reads_is_no_end_by_a_signal(bench: Bench) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    with bench.serving(die), os.fdopen(writer, "wb") as pipe:
        ran = subprocess.run([bench.path], env=VERSION, stdout=pipe, timeout=SECONDS, check=False)

    assert ran.returncode == 1


def test_an_error_without_a_stdout_goes_nowhere(bench: Bench) -> None:
    with bench.serving(die):
        ran = bench.run(redirection=">&-")

    assert (ran.returncode, ran.stdout, ran.stderr) == (1, b"", b"")


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_worker_and_ends_the_launcher(bench: Bench, number: signal.Signals) -> None:
    rest = []

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, number)
        rest.extend(talk.rest())

    with bench.serving(script):
        ran = bench.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (-number, b"", b"")
    assert rest == [encode_signal(number)]


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_a_signal_that_would_not_have_ended_the_plugin_ends_nothing(bench: Bench, how: str) -> None:
    preparation = {
        "ignored": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    }[how]
    program = f"import os, signal, sys; {preparation}; os.execv(sys.argv[1], sys.argv[1:])"

    def script(talk: Conversation) -> None:
        request = talk.accept()
        assert getattr(request, how) & 1 << signal.SIGTERM - 1
        os.kill(talk.pid, signal.SIGTERM)
        talk.finish(43)

    with bench.serving(script):
        ran = bench.run(command=[sys.executable, "-c", program])

    assert ran.returncode == 43


def test_a_signal_before_the_acceptance_withdraws_the_request(bench: Bench) -> None:
    rest = []

    def script(talk: Conversation) -> None:
        talk.read_request()
        os.kill(talk.pid, signal.SIGTERM)
        rest.extend(talk.rest())

    with bench.serving(script):
        ran = bench.run()

    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGTERM, b"", b"")
    assert rest == []


def test_a_launcher_that_is_killed_ends_the_connection(bench: Bench) -> None:
    rest = []

    def script(talk: Conversation) -> None:
        talk.accept()
        os.kill(talk.pid, signal.SIGKILL)
        rest.extend(talk.rest())

    with bench.serving(script):
        assert bench.run().returncode == -signal.SIGKILL

    assert rest == []


def test_one_that_was_stopped_goes_on(bench: Bench) -> None:
    def pause(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid))
        os.kill(pid, signal.SIGCONT)

    def script(talk: Conversation) -> None:
        talk.read_request()
        pause(talk.pid)
        talk.connection.send(READY)
        assert talk.connection.recv(10) == GO
        pause(talk.pid)
        talk.finish(43)

    with bench.serving(script):
        assert bench.run().returncode == 43


# --- many


def test_two_hundred_at_once_are_all_served(bench: Bench) -> None:
    """By one who takes them one by one, with a queue that has no room for all."""
    with bench.serving(serve, backlog=20) as server:
        launchers = [bench.start() for _ in range(200)]
        outputs = [process.communicate(timeout=SECONDS * 2) for process in launchers]

    assert outputs == [(b"served ", b"logged")] * 200
    assert {process.returncode for process in launchers} == {43}
    assert len(server.talks) == 200
