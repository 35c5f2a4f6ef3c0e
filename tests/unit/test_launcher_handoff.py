"""A launcher's request to the server, and the direct execution if none takes it."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from launch.installation import build_id
from launch.server.protocol import GO, LauncherRequest, decode_environment
from tests.cli import SYSTEM_PYTHON
from tests.launchers import (
    DIRECT,
    VERSION,
    Conversation,
    Installed,
    Script,
    close_while_it_waits,
    ran_directly,
    serve,
)
from tests.nodes import HANG

# --- the request


def test_the_server_gets_stdin_and_gives_the_answer(installed: Installed) -> None:
    with installed.serving(serve) as server:
        ran = installed.run(stdin=b"a configuration")

    assert (ran.returncode, ran.stdout, ran.stderr) == (43, b"served a configuration", b"logged")
    assert len(server.talks) == 1


@pytest.mark.parametrize("code", [0, 1, 127, 255])
def test_every_exit_code_arrives(installed: Installed, code: int) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        talk.finish(code)

    with installed.serving(script):
        assert installed.run().returncode == code


def test_the_server_gets_the_callers_place(installed: Installed, tmp_path: Path) -> None:
    seen: list[tuple[os.stat_result, ...]] = []

    def script(talk: Conversation) -> None:
        talk.accept()
        seen.append(tuple(os.fstat(descriptor) for descriptor in [*talk.stdin, *talk.files]))
        talk.finish()

    shell = 'umask 027; cd "$1"; exec env -u PWD -u OLDPWD "$0"'
    env = {"CNI_COMMAND": "ADD", "EMPTY": "", "BYTES": os.fsdecode(b"\xff=\n")}
    with installed.serving(script) as server:
        subprocess.run(["/bin/sh", "-c", shell, installed.path, tmp_path], env=env, check=True, timeout=HANG)

    request = server.talks[0].request
    assert request is not None
    assert request._replace(environment=b"") == LauncherRequest(
        build_id=build_id(),
        umask=0o027,
        plugin="bridge",
        environment=b"",
    )
    assert decode_environment(request.environment) == env
    files = ["/dev/stdin", str(tmp_path), "/proc/self/ns/net", "/proc/self/ns/mnt"]
    for status, file in zip(seen[0], files, strict=True):
        assert os.path.samestat(status, Path(file).stat()), file


def test_environment_is_sent_as_given_to_execve(installed: Installed) -> None:
    """Which no shell may be able to make: a name twice, and a string that is no variable."""
    strings = [b"A=1", b"CNI_COMMAND=VERSION", b"no variable", b"A=2", b"", b"=x"]
    program = (
        "import ctypes, sys\n"
        "def array(strings): return (ctypes.c_char_p * (len(strings) + 1))(*strings)\n"
        "path = sys.argv[1].encode()\n"
        f"ctypes.CDLL(None).execve(path, array([path]), array({strings!r}))\n"
    )

    with installed.serving(serve) as server:
        subprocess.run([sys.executable, "-c", program, installed.path], capture_output=True, timeout=HANG, check=False)
    directly = subprocess.run([sys.executable, "-c", program, installed.path], capture_output=True, check=True)

    assert server.talks[0].request is not None
    assert server.talks[0].request.environment == b"".join(string + b"\0" for string in strings)
    assert directly.stdout == DIRECT


def test_an_empty_environment_is_handed_over(installed: Installed) -> None:
    with installed.serving(serve) as server:
        assert installed.run(env={}).returncode == 43

    assert server.talks[0].request is not None
    assert server.talks[0].request.environment == b""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_a_closed_stream_is_replaced_by_nothing(installed: Installed, closed: tuple[int, ...]) -> None:
    def script(talk: Conversation) -> None:
        talk.accept()
        assert len(talk.stdin) == (0 not in closed)
        assert [stat.S_ISDIR(os.fstat(fd).st_mode) for fd in talk.files] == [True, False, False]
        talk.finish(43, b"logged", b"answered" if 1 not in closed else b"")

    with installed.serving(script):
        ran = installed.run(redirection=" ".join(f"{stream}>&-" for stream in closed))

    assert ran.returncode == 43
    assert ran.stdout == (b"answered" if 1 not in closed else b"")
    assert ran.stderr == (b"logged" if 2 not in closed else b"")


@pytest.mark.parametrize("name", ["loopback", "no-such-plugin", "0x2"])
def test_plugin_name_comes_from_the_symbolic_link(installed: Installed, name: str) -> None:
    (installed.folder / name).symlink_to(installed.path)

    with installed.serving(serve) as server:
        installed.run(path=installed.folder / name)
        installed.run(command=["/bin/bash", "-c", 'exec -a other "$0"'], path=installed.folder / name)

    assert [talk.request and talk.request.plugin for talk in server.talks] == [name] * 2


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC], ids=["kept", "closed"])
def test_a_file_executed_by_its_descriptor_is_named_by_its_first_argument(compiled: Installed, flags: int) -> None:
    program = (
        "import os, sys\n"
        f"fd = os.open(sys.argv[1], {flags})\n"
        "os.execve(fd, ['/somewhere/loopback'], dict(os.environ))\n"
    )
    command: list[str | Path] = [sys.executable, "-c", program, compiled.path]

    with compiled.serving(serve) as server:
        subprocess.run(command, capture_output=True, timeout=HANG, check=False)
    directly = subprocess.run(command, capture_output=True, env={}, check=False)

    assert [talk.request and talk.request.plugin for talk in server.talks] == ["loopback"]
    assert directly.stderr.startswith(b"CNI loopback plugin v")


# --- refused, in every way: the plugin runs at once, in circumstances that nothing has changed


def garbage(talk: Conversation) -> None:
    talk.read_request()
    talk.connection.send(b"X\0\0\0\0")
    assert talk.rest() == []


def something_else(talk: Conversation) -> None:
    talk.read_request()
    talk.connection.send(GO)
    assert talk.rest() == []


def close_unread(_: Conversation) -> None:
    """The kernel makes a reset of this one, where the others are the connection's end."""


def close_read(talk: Conversation) -> None:
    talk.read_request()


@pytest.mark.parametrize("script", [garbage, something_else, close_unread, close_read, close_while_it_waits])
def test_without_an_acceptance_it_runs_directly(installed: Installed, script: Script) -> None:
    with installed.serving(script) as server:
        ran = installed.run()

    assert ran_directly(ran), ran
    assert len(server.talks) == 1


def test_without_a_server_it_runs_directly(installed: Installed) -> None:
    assert ran_directly(installed.run())

    with installed.serving(serve):
        pass
    assert installed.socket.exists()
    assert ran_directly(installed.run())

    installed.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(installed.socket))
        other.listen()
        assert ran_directly(installed.run())


def test_launcher_without_socket_path_asks_no_server(installed: Installed) -> None:
    with installed.serving(serve) as server:
        ran = installed.run(path=installed.write("loopback", path=""))

    assert ran_directly(ran)
    assert server.talks == []


def test_a_server_that_hangs_is_left_after_a_while(installed: Installed) -> None:
    ended = threading.Event()

    def script(talk: Conversation) -> None:
        talk.read_request()
        assert talk.rest() == []
        assert not talk.take()
        ended.set()

    with installed.serving(script):
        ran = installed.run(path=installed.write("loopback", timeout=0.2))
        assert ended.wait(HANG)

    assert ran_directly(ran)


def test_a_full_queue_is_left_after_a_while(installed: Installed) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, ExitStack() as waiting:
        listener.bind(str(installed.socket))
        listener.listen(0)
        while True:
            connection = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connection.setblocking(False)
            if connection.connect_ex(str(installed.socket)) == errno.EAGAIN:
                break

        assert ran_directly(installed.run(path=installed.write("loopback", timeout=0.2)))


def test_unread_request_does_not_keep_the_callers_output_open(installed: Installed) -> None:
    """Who reads it to its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(installed.socket))
        listener.listen()

        assert ran_directly(installed.run(path=installed.write("loopback", timeout=0.2)))


def test_too_large_environment_is_executed_directly(installed: Installed) -> None:
    # 100 KB are the most that one string may have.
    env = {**VERSION, **{f"LARGE_{number}": "x" * 100_000 for number in range(3)}}

    with installed.serving(serve) as server:
        ran = installed.run(env=env)
        almost = installed.run(env={**VERSION, "LARGE": "x" * 100_000})

    assert ran_directly(ran)
    assert [talk.request is not None for talk in server.talks] == [False, True]
    assert almost.returncode == 43


def test_without_descriptors_to_spare_it_runs_directly(installed: Installed) -> None:
    with installed.serving(serve):
        ran = installed.run(command=["/bin/sh", "-c", 'ulimit -n 6; exec "$0"'])

    assert ran_directly(ran)


@pytest.mark.sudo
def test_without_proc_it_runs_directly(installed: Installed) -> None:
    shell = 'mount -t tmpfs none /proc && exec "$0"'

    with installed.serving(serve):
        ran = installed.run(command=["unshare", "--mount", "/bin/sh", "-c", shell])

    assert ran_directly(ran)


@pytest.mark.sudo
def test_a_server_of_another_user_is_not_trusted(installed: Installed) -> None:
    with TemporaryDirectory() as folder:  # which everybody may reach, unlike pytest's
        Path(folder).chmod(0o777)
        path = f"{folder}/server.sock"
        program = (
            "import socket\n"
            "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            f"listener.bind({path!r})\n"
            "listener.listen()\n"
            "print('listening', flush=True)\n"
            "print(len(listener.accept()[0].recv(1000)))\n"
        )
        command = ["setpriv", "--reuid=65534", SYSTEM_PYTHON, "-ISc", program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "listening\n"

            assert ran_directly(installed.run(path=installed.write("loopback", path=path)))
            assert other.stdout.read() == "0\n"


def test_direct_execution_has_the_callers_circumstances(compiled: Installed, tmp_path: Path) -> None:
    """Also after the server was asked, and has said `R`: umask, streams, signals and environment are as they were."""
    report = tmp_path / "report"
    interpreter = tmp_path / "python"
    interpreter.write_text(
        f"#!{SYSTEM_PYTHON} -IS\n"
        "import os, sys\n"
        "files = sorted((int(fd), os.path.realpath(f'/proc/self/fd/{fd}')) for fd in os.listdir('/proc/self/fd'))\n"
        f"with open({str(report)!r}, 'w') as report:\n"
        "    print(oct(os.umask(0)), os.getcwd(), files[1:], open('/proc/self/environ').read(), file=report)\n"
        "    report.writelines(line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn')))\n"
    )
    interpreter.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(interpreter))
        path = compiled.write("loopback")
    shell = 'umask 027; trap "" HUP; cd /usr; exec env -i A=1 B= "$0" <&-'
    reports = []

    for command in (interpreter, path):
        with compiled.serving(close_while_it_waits):
            subprocess.run(["/bin/sh", "-c", shell, command], check=True, timeout=HANG, stdout=subprocess.DEVNULL)
        compiled.socket.unlink()
        reports.append(report.read_text())

    # There is no stdin: 0 was what listed the files.
    assert reports[0].startswith("0o27 /usr [(1, '/dev/null'), (2, ")
    assert reports[1] == reports[0]


def test_python_launcher_restores_signals_umask_and_files(tmp_path: Path) -> None:
    installed = Installed("python", tmp_path, None)
    report = (
        "import signal",
        "handlers = [signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)]",
        "assert handlers == [signal.SIG_DFL] * 3, handlers",
        "assert os.umask(0) == 0o027",
        # The last is what lists them.
        "assert os.listdir('/proc/self/fd') == ['0', '1', '2', '3'], os.listdir('/proc/self/fd')",
        "from launch.launcher import main\n",
    )
    text = installed.path.read_bytes()
    installed.path.write_bytes(text.replace(b"from launch.launcher import main\n", "\n    ".join(report).encode()))

    with installed.serving(close_while_it_waits) as server:
        ran = installed.run(command=["/bin/sh", "-c", 'umask 027; exec "$0"'])

    assert ran_directly(ran), ran
    assert len(server.talks) == 1
