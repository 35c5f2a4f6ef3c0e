"""A worker serves many requests: nothing of one is left for the next, or the worker ends."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyroute2
import pytest

from tests.installations import build_id_of, copied, evaluated
from tests.nodes import HANG, Node, until
from tests.server_client import Client, client, request_for
from tests.servers import Server, open_files, running_server, served_only, write_launchers

pytestmark = pytest.mark.sudo

# ADD, DEL and STATUS do whatever the caller says.
PLUGIN_THAT_OBEYS = """
import os, signal, socket, subprocess, threading, time
from skel import CniError, Code, Config, Plugin, RawAnswer
def obey(args):
    names = {**globals(), "args": args}
    exec(args.environ["CODE"], names)
    return RawAnswer(str(names.get("answer", "")))
PLUGIN = Plugin("noop", config=Config, add=obey, delete=obey, gc=obey, status=obey)
"""
CONFIG = '{"cniVersion": "1.1.0", "name": "n", "type": "noop"}'
MY_PID = "answer = os.getpid()"


class Obedient(NamedTuple):
    """A server whose plugin obeys the test, with one worker at a time."""

    server: Server
    root: Path
    build_id: bytes

    @contextmanager
    def caller(self, stdin: str | None = CONFIG) -> Iterator[Client]:
        with client(self.server.socket, stdin) as launcher:
            yield launcher

    def begin(self, launcher: Client, code: str, environ: Mapping[str, str] | None = None) -> None:
        environ = {"CNI_COMMAND": "STATUS", "CODE": code, **(environ or {})}
        launcher.ask(request_for("noop", environ, build_id=self.build_id))

    def call(self, code: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Have the plugin do something; return the exit code and the answer."""
        with self.caller() as launcher:
            self.begin(launcher, code, environ)
            return launcher.end(), launcher.stdout.decode()

    def answer(self, code: str, environ: Mapping[str, str] | None = None) -> str:
        status, stdout = self.call(code, environ)
        assert status == 0, stdout
        return stdout

    def worker(self) -> int:
        """The worker that serves the next call."""
        return int(self.answer(MY_PID))

    def launcher(self, folder: Path) -> Path:
        """One that cannot execute the plugin by itself."""
        content = evaluated(self.root, f"launcher_bytes(socket={str(self.server.socket)!r}, timeout={HANG})")
        return write_launchers(folder, served_only(content)) / "noop"


@contextmanager
def obedient(folder: Path, *options: str) -> Iterator[Obedient]:
    root = copied(folder / "installation")
    (root / "plugins" / "noop.py").write_text(PLUGIN_THAT_OBEYS)
    with running_server(folder, *options, root=root) as server:
        yield Obedient(server, root, build_id_of(root))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Obedient]:
    with obedient(tmp_path_factory.mktemp("server"), "--workers", "1", "--most", "1") as made:
        yield made


def own_files(place: Obedient, pid: int) -> list[str]:
    """Of the server, or of a worker that has no work any more, without those of the code.

    After a call the server lists the folders of its installation and of its packages, to notice an upgrade.
    """
    code = {place.root, Path(pyroute2.__file__).parents[1]}  # site-packages
    until(lambda: Path(f"/proc/{pid}/comm").read_text() in {"cni-worker\n", "cni-serve\n"})
    return sorted(str(path) for path in open_files(pid) if not any(path.is_relative_to(each) for each in code))


def namespaces(pid: int) -> list[str]:
    return [str(Path(f"/proc/{pid}/ns/{name}").readlink()) for name in ("net", "mnt")]


def test_one_worker_serves_two_hundred_requests_with_the_same_files(tmp_path: Path) -> None:
    with obedient(tmp_path, "--workers", "1", "--most", "1") as place:
        first = [place.worker() for _ in range(10)]
        files = own_files(place, first[0]), own_files(place, place.server.pid)
        more = [place.worker() for _ in range(189)]

        assert (own_files(place, first[0]), own_files(place, place.server.pid)) == files
        assert place.worker() == first[0]
        assert {*first, *more} == {first[0]}
        assert place.worker() != first[0]
        assert place.server.log().count("\n") == 1, place.server.log()  # that it listens: this is no fault


def test_environment_is_the_callers_and_the_processes_own_stays_empty(place: Obedient) -> None:
    code = "answer = [args.environ['SURPRISE'], dict(os.environ)]"

    assert place.answer(code, {"SURPRISE": "\udcff=x"}) == "['\\udcff=x', {}]"
    assert place.answer("answer = args.environ.get('SURPRISE')") == "None"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("os.open('/', os.O_RDONLY)", "the open files"),
        ("os.close(0)", "the open files"),
        ("threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()", "the threads"),
        ("os.chdir('/proc')", "the working directory"),
        ("os.umask(0)", "the umask"),
        ("os.environ['A'] = 'b'", "the environment"),
        ("os.fork() or os._exit(0)", "the child processes"),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", "the blocked signals"),
        ("import ctypes; assert ctypes.CDLL(None).unshare(0x40000000) == 0", "the namespaces"),
        ("import ctypes; assert ctypes.CDLL(None).unshare(0x04000000) == 0", "the UTS namespace"),
        ("import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0", "the capabilities, the user"),
        ("import ctypes; assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0", "the capabilities"),
        ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", "the resource limits"),
        ("signal.signal(signal.SIGALRM, signal.SIG_IGN)", "the signal handlers"),
        ("signal.setitimer(signal.ITIMER_VIRTUAL, 3600)", "the timers"),
        ("os.nice(1)", "the nice value"),
        ("len(b'x' * (100 << 20))", "the memory"),
    ],
)
def test_worker_that_a_call_has_changed_answers_and_ends(place: Obedient, code: str, why: str) -> None:
    worker = place.worker()

    assert place.answer(f"{code}; answer = os.getpid()") == str(worker)

    assert place.worker() != worker
    assert f"worker {worker} ends: a call has changed {why}\n" in place.server.log()


def test_worker_ends_after_an_unforeseen_exception_and_not_after_an_error(place: Obedient) -> None:
    worker = place.worker()

    assert place.call("raise CniError(Code.TRY_AGAIN_LATER, 'busy')")[0] == 1
    assert place.call("os.rmdir('/proc')")[0] == 1
    assert place.worker() == worker
    assert place.call("[][0]")[0] == 1

    assert place.worker() != worker
    assert f"worker {worker} ends: after an unforeseen exception" in place.server.log()


def test_worker_ends_after_a_call_that_was_ended(place: Obedient) -> None:
    worker = place.worker()
    with place.caller(stdin=None) as launcher:
        place.begin(launcher, "")
        assert launcher.is_begun(), place.server.log()
        launcher.send(b"T%c" % signal.SIGTERM)

        assert launcher.end() == 1
        assert b"ended by signal 15" in launcher.stdout

    assert place.worker() != worker
    assert f"worker {worker} ends: a call was ended before its time" in place.server.log()


def test_worker_returns_from_its_callers_namespaces_and_folder(place: Obedient, node: Node, tmp_path: Path) -> None:
    launcher = place.launcher(tmp_path / "bin")
    worker = place.worker()
    code = "answer = [os.getpid(), os.getcwd(), os.listdir('/mnt'), os.readlink('/proc/self/ns/net')]"
    script = 'mount -t tmpfs none /mnt && touch /mnt/inside && cd /mnt && readlink /proc/self/ns/net && exec "$@"'
    home = namespaces(place.server.pid)

    for _ in range(3):
        run = node.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", launcher],
            env={"CNI_COMMAND": "STATUS", "CODE": code},
            stdin=CONFIG,
        )

        theirs, answer = run.stdout.splitlines()
        assert answer == str([worker, "/mnt", ["inside"], theirs])
        assert theirs not in home
        assert place.answer(code) == str(
            [worker, str(Path.cwd()), [path.name for path in Path("/mnt").iterdir()], home[0]]
        )
        until(lambda: Path(f"/proc/{worker}/cwd").readlink() == Path("/"))
        assert namespaces(worker) == home


def test_sockets_are_kept_for_calls_from_the_servers_network_namespace_alone(
    place: Obedient, node: Node, tmp_path: Path
) -> None:
    code = (
        "answer = [os.getpid(), os.readlink(f'/proc/self/fd/{args.open_sockets.get(\"it\", socket.socket).fileno()}')]"
    )
    kept = place.answer(code)
    launcher = place.launcher(tmp_path / "bin")

    elsewhere = node.run([launcher], env={"CNI_COMMAND": "STATUS", "CODE": code}, stdin=CONFIG).stdout

    assert place.answer(code) == kept
    assert elsewhere.partition(",")[0] == kept.partition(",")[0]
    assert elsewhere != kept
    assert elsewhere.rpartition(" ")[2] not in str(own_files(place, place.worker()))


def test_answer_comes_before_deferred_work_and_a_drain_waits_for_it(tmp_path: Path) -> None:
    with obedient(tmp_path, "--workers", "1", "--most", "2") as place:
        over = tmp_path / "over"
        waits = f"while not os.path.exists({str(over)!r}): time.sleep(0.01)"
        busy = place.answer(f"args.context.afterwards(lambda: exec({waits!r})); {MY_PID}")

        assert place.answer(MY_PID) != busy  # another worker, since that one is busy
        place.server.process.terminate()
        until(lambda: place.server.workers() == {int(busy)})
        assert place.server.process.poll() is None
        over.touch()
        assert place.server.process.wait(HANG) == 0


ATTACHMENT = {"CNI_CONTAINERID": "pod-1", "CNI_IFNAME": "eth0", "CNI_NETNS": "/run/netns/none", "CNI_PATH": "/none"}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("verb", ["DEL", "GC"])
def test_del_and_gc_wait_for_the_add_of_a_killed_launcher(tmp_path: Path, verb: str) -> None:
    code = f"answer = [pid for pid in os.listdir('/proc') if pid == open({str(tmp_path / 'pid')!r}).read()]"
    with obedient(tmp_path, "--workers", "2", "--most", "2") as place:
        with place.caller() as killed:
            stop = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); os.kill(os.getpid(), signal.SIGSTOP)"
            place.begin(killed, stop, {"CNI_COMMAND": "ADD", **ATTACHMENT})
            until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        stopped = int((tmp_path / "pid").read_text())
        with place.caller() as launcher:
            place.begin(launcher, code, {"CNI_COMMAND": verb, **ATTACHMENT})
            (other,) = until(lambda: place.server.workers() - {stopped})
            until(lambda: "nanosleep" in Path(f"/proc/{other}/wchan").read_text())
            os.kill(stopped, signal.SIGCONT)

            assert launcher.end() == 0, launcher.stdout
            assert launcher.stdout == b"[]"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with obedient(tmp_path, "--workers", "1", "--limit", "1") as place:
        code, stdout = place.call("with args.interruption.waiting():\n  time.sleep(3600)")

        assert code == 1
        assert "took too long, and was ended by the server" in stdout


def test_nothing_of_a_caller_is_held_by_an_idle_worker(place: Obedient, tmp_path: Path) -> None:
    worker = place.worker()
    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", mount], check=True)
    try:
        run = subprocess.run(
            [place.launcher(tmp_path / "bin")],
            env={"CNI_COMMAND": "STATUS", "CODE": MY_PID},
            input=CONFIG,
            cwd=mount,
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout == str(worker)
        until(lambda: Path(f"/proc/{worker}/comm").read_text() == "cni-worker\n")
    finally:
        subprocess.run(["umount", mount], check=True)
