"""The executable behind every plugin's name, as a process: whatever surrounds it, one answer and an exit code."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from launch import PLUGINS, launcher
from launch.installation import ROOT
from launch.launcher import compiled_launcher, is_any_launcher, is_ours, launcher_bytes, launcher_text
from launch.plugin_list import load
from skel import SUPPORTED, dispatch
from tests.nodes import HANG
from tests.unit.sample_plugin import ENVIRON, configuration

Kind = Callable[..., bytes | None]
CANNOT_EXECUTE = 126
"""Exit code of a shell."""

NONSENSE = {
    "PYTHONPATH": "/nonsense",
    "PYTHONHOME": "/nonsense",
    "PYTHONSTARTUP": "/nonsense",
    "PYTHONWARNINGS": "error",
    "PYTHONIOENCODING": "utf-16",
    "LC_ALL": "xx_XX.nonsense",
}


def run(
    command: Sequence[str | Path],
    environ: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
    cwd: Path | str = "/",
    redirection: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run with exactly this environment; `redirection` is the shell's (`<&-` closes stdin)."""
    if redirection:
        command = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', *command]
    return subprocess.run(
        command, env=environ or {}, input=stdin, capture_output=True, cwd=cwd, timeout=HANG, check=False
    )


def stdin_of(name: str, folder: Path) -> bytes:
    ipam = {"type": "host-local", "dataDir": str(folder / "networks"), "subnet": "192.0.2.0/29"}
    return json.dumps(configuration(type=name, ipam=ipam)).encode()


def supported(ran: subprocess.CompletedProcess[bytes]) -> Any:  # JSON
    assert (ran.returncode, ran.stderr) == (0, b""), ran
    assert ran.stdout.count(b"\n") == 1
    return json.loads(ran.stdout)["supportedVersions"]


@pytest.fixture(scope="session")
def renamed(bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher under a name that is no plugin's."""
    path = tmp_path_factory.mktemp("renamed") / "unknown"
    path.write_bytes((bin_dir / "noop").read_bytes())
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", PLUGINS)
@pytest.mark.parametrize("environ", [{}, NONSENSE], ids=["empty", "nonsense"])
def test_version_needs_nothing_of_its_environment(bin_dir: Path, name: str, environ: dict[str, str]) -> None:
    ran = run([bin_dir / name], {"CNI_COMMAND": "VERSION", **environ})

    assert supported(ran) == list(SUPPORTED)


@pytest.mark.parametrize("name", PLUGINS)
def test_plugin_called_by_hand_prints_name_and_versions(bin_dir: Path, name: str) -> None:
    ran = run([bin_dir / name])

    about, versions = ran.stderr.decode().splitlines()
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert re.fullmatch(rf"CNI {name} plugin v\d+\.\d+\.\d+", about)
    assert versions.startswith("CNI protocol versions supported: 0.1.0, ")


def test_modules_in_the_current_folder_are_not_ours(bin_dir: Path, tmp_path: Path) -> None:
    """The folder is the bundle's under some runtimes, and its files are the pod's."""
    for module in ("json", "os", "re", "skel", "plugins", "ipam", "typing", "encodings", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("print('hijacked')\n")

    ran = run([bin_dir / "bridge"], {"CNI_COMMAND": "VERSION", "PYTHONPATH": str(tmp_path)}, cwd=tmp_path)

    assert supported(ran) == list(SUPPORTED)


@pytest.mark.parametrize("verb", ["", "VERSION", "ADD"])
def test_an_unknown_name_is_refused_in_one_line(renamed: Path, verb: str) -> None:
    ran = run([renamed], {"CNI_COMMAND": verb} if verb else {})

    assert (ran.returncode, ran.stdout) == (1, b"")
    assert re.fullmatch(rf"unknown: [^\n]*{', '.join(sorted(PLUGINS))}\n", ran.stderr.decode())


def test_plugin_name_comes_from_the_symbolic_link(bin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "loopback").symlink_to(bin_dir / "noop")
    (tmp_path / "other").symlink_to(bin_dir / "noop")

    assert run([tmp_path / "loopback"]).stderr.startswith(b"CNI loopback plugin v")
    assert run([tmp_path / "other"]).returncode == 1


def test_plugin_runs_by_relative_path_and_from_path(bin_dir: Path) -> None:
    for command in (["./bridge"], ["sh", "-c", "exec bridge"]):
        ran = run(command, {"CNI_COMMAND": "VERSION", "PATH": f"{bin_dir}:/usr/bin:/bin"}, cwd=bin_dir)

        assert supported(ran) == list(SUPPORTED)


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@pytest.mark.parametrize("name", PLUGINS)
def test_version_does_not_wait_for_stdin(bin_dir: Path, name: str) -> None:
    with subprocess.Popen(
        [bin_dir / name], env={"CNI_COMMAND": "VERSION"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        # Its end comes while ours of its stdin is open and has never been written to.
        assert process.wait(timeout=HANG) == 0
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["supportedVersions"] == list(SUPPORTED)


@pytest.mark.parametrize("name", PLUGINS)
def test_version_repeats_the_version_that_it_is_asked_in(bin_dir: Path, name: str) -> None:
    ran = run([bin_dir / name], {"CNI_COMMAND": "VERSION"}, stdin=b'{"cniVersion":"0.4.0"}')

    assert json.loads(ran.stdout)["cniVersion"] == "0.4.0"


@pytest.mark.parametrize("verb", ["", "VERSION", "ADD", "DEL"])
def test_a_plugin_that_cannot_be_imported_says_so_by_the_protocol(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setitem(PLUGINS, "lost", "plugins.lost")

    outcome = dispatch(load("lost"), {**ENVIRON, "CNI_COMMAND": verb}, lambda: json.dumps(configuration()).encode())

    assert outcome.code == 1
    assert json.loads(outcome.stdout) == {
        "cniVersion": "1.1.0",
        "code": 999,
        "msg": "No module named 'plugins.lost'",
    }


def test_buffered_output_of_a_plugin_is_not_lost(tmp_path: Path) -> None:
    """The process ends without the interpreter's own farewell."""
    module = tmp_path / "plugins" / "noop.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    module.write_text(
        "import sys\n"
        "from skel import Config, Plugin, Result\n"
        "def act(args):\n"
        "    sys.stdout.write('no end of line')\n"
        "    return Result()\n"
        "PLUGIN = Plugin('noop', config=Config, add=act, delete=act)\n"
    )
    noop = tmp_path / "noop"
    noop.write_bytes(launcher_text().replace(b"sys.path[:0] = [", f"sys.path[:0] = [{str(tmp_path)!r}, ".encode()))
    noop.chmod(0o755)

    ran = run([noop], {**ENVIRON, "CNI_COMMAND": "ADD"}, stdin=json.dumps(configuration()).encode())

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b'{"cniVersion": "1.1.0"}\n', b"no end of line")


# --- streams that are not there


@pytest.mark.parametrize("redirection", ["<&-", "2>&-", "<&- 2>&-", "</dev/null 2>/dev/full"])
def test_version_needs_neither_stdin_nor_stderr(bin_dir: Path, redirection: str) -> None:
    assert supported(run([bin_dir / "bridge"], {"CNI_COMMAND": "VERSION"}, redirection=redirection)) == list(SUPPORTED)


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
@pytest.mark.parametrize("redirection", ["<&-", "<&- 2>&-", "0>/dev/null"], ids=["closed", "both", "for writing"])
def test_without_stdin_an_invocation_is_an_input_output_failure(bin_dir: Path, verb: str, redirection: str) -> None:
    ran = run([bin_dir / "host-local"], {**ENVIRON, "CNI_COMMAND": verb}, redirection=redirection)

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout)["code"] == 5
    assert "stdin: [Errno 9] Bad file descriptor" in json.loads(ran.stdout)["msg"]


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize("verb", ["VERSION", "ADD"])
def test_an_answer_that_cannot_be_written_is_no_success(
    bin_dir: Path, tmp_path: Path, redirection: str, reason: str, verb: str
) -> None:
    stdin = stdin_of("host-local", tmp_path)

    ran = run([bin_dir / "host-local"], {**ENVIRON, "CNI_COMMAND": verb}, stdin=stdin, redirection=redirection)

    assert ran.returncode == 1
    assert re.fullmatch(rf"host-local: writing to stdout: \[Errno \d+\] {reason}\n", ran.stderr.decode())


def test_broken_pipe_on_stdout_is_one_error_line(bin_dir: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ran = subprocess.run(
            [bin_dir / "bridge"], env={"CNI_COMMAND": "VERSION"}, stdout=pipe, stderr=subprocess.PIPE, check=False
        )

    assert ran.returncode == 1
    assert ran.stderr == b"bridge: writing to stdout: [Errno 32] Broken pipe\n"


def test_del_without_stdout_succeeds(bin_dir: Path, tmp_path: Path) -> None:
    ran = run(
        [bin_dir / "host-local"],
        {**ENVIRON, "CNI_COMMAND": "DEL"},
        stdin=stdin_of("host-local", tmp_path),
        redirection=">&-",
    )

    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_log_that_cannot_be_written_changes_no_answer(bin_dir: Path, tmp_path: Path, redirection: str) -> None:
    """A broken prevResult is logged by DEL and is an error for ADD."""
    config = {**json.loads(stdin_of("host-local", tmp_path)), "prevResult": 5}
    stdin = json.dumps(config).encode()

    ran = run([bin_dir / "host-local"], {**ENVIRON, "CNI_COMMAND": "DEL"}, stdin=stdin, redirection=redirection)
    added = run([bin_dir / "host-local"], {**ENVIRON, "CNI_COMMAND": "ADD"}, stdin=stdin, redirection=redirection)

    assert (ran.returncode, ran.stdout) == (0, b"")
    assert (added.returncode, json.loads(added.stdout)["code"]) == (1, 7)


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from skel import Args, Config, Plugin, Result, main

def add(args: Args[Config]) -> Result:
    print("a stray line")
    sys.stdout.write("without an end")
    args.log("logged")
    return Result()

raise SystemExit(main(Plugin("stray", config=Config, add=add, delete=add)))
"""


def test_stray_output_of_a_plugin_goes_to_stderr() -> None:
    root = str(Path(__file__).parents[2])

    ran = run(
        [sys.executable, "-c", PROGRAM.format(root=root)],
        {**ENVIRON, "CNI_COMMAND": "ADD"},
        stdin=json.dumps(configuration()).encode(),
    )

    assert (ran.returncode, ran.stdout) == (0, b'{"cniVersion": "1.1.0"}\n')
    assert b"a stray line\n" in ran.stderr
    assert b"without an end" in ran.stderr
    assert b"stray: logged containerID=pod-1\n" in ran.stderr


@pytest.mark.parametrize("name", ["bridge", "host-local", "loopback"])
def test_bytes_of_the_environment_that_are_no_text_are_an_invalid_value(
    bin_dir: Path, tmp_path: Path, name: str
) -> None:
    environ = {**ENVIRON, "CNI_COMMAND": "ADD", "CNI_CONTAINERID": os.fsdecode(b"pod\xff")}

    ran = run([bin_dir / name], environ, stdin=stdin_of(name, tmp_path))

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout)["code"] == 4
    assert "CNI_CONTAINERID" in json.loads(ran.stdout)["msg"]


# --- start-up

HEAVY = {"pyroute2", "netaddr", "subprocess", "logging", "inspect", "dataclasses", "pathlib", "tempfile", "asyncio"}


@pytest.mark.mostly_slow(4, "each plugin; a part is in make test")
@pytest.mark.parametrize("name", PLUGINS)
@pytest.mark.parametrize(
    ("verb", "stdin"),
    [("", b""), ("VERSION", b"{}"), ("ADD", b"not JSON"), ("ADD", b'{"name":"net1","cniVersion":"9.9.9"}')],
    ids=["about", "version", "garbage", "unsupported"],
)
def test_calls_without_kernel_load_no_heavy_modules(python_bin_dir: Path, name: str, verb: str, stdin: bytes) -> None:
    ran = run(
        [sys.executable, "-IS", "-X", "importtime", python_bin_dir / name],
        {**ENVIRON, "CNI_COMMAND": verb},
        stdin=stdin,
    )

    imported = set(re.findall(r"^import time: .*\| +([\w.]+)$", ran.stderr.decode(), re.MULTILINE))
    assert "skel.dispatch" in imported
    # loopback alone opens the pod's namespace with its own imports.
    heavy = HEAVY if name == "loopback" else HEAVY | {"ctypes"}
    assert {module.partition(".")[0] for module in imported} & heavy == set()


# --- the file


def test_the_first_line_has_an_absolute_interpreter_that_looks_at_nothing_around_it() -> None:
    first, second, *_ = launcher_text().decode().splitlines()

    interpreter, options = first.removeprefix("#!").split(" ")
    assert Path(interpreter).is_absolute()
    assert os.access(interpreter, os.X_OK)
    assert options == "-IS"
    assert second.startswith("# cni-harness: ")
    compile(launcher_text(), "launcher", "exec")


@pytest.mark.parametrize("interpreter", ["/opt/my python/bin/python3", "/" + "p" * 250, "/" + "\u00e9" * 130])
def test_an_interpreter_that_no_first_line_can_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)

    with pytest.raises(ValueError, match="must be short and without white space"):
        launcher_text()


@pytest.mark.parametrize("folder", ["with a space", "\u00e9" * 120, "d" * 250])
def test_of_a_link_that_no_first_line_can_name_the_interpreter_behind_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    interpreter = tmp_path / folder / "python3"
    interpreter.parent.mkdir()
    interpreter.symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(interpreter))
    bridge = tmp_path / "bridge"
    bridge.write_bytes(launcher_text())
    bridge.chmod(0o755)

    ran = run([bridge], {"CNI_COMMAND": "VERSION"})

    assert supported(ran) == list(SUPPORTED)
    assert is_ours(str(bridge))


def test_the_kernel_reads_the_longest_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("d" * (200 - len(str(tmp_path))))
    folder.mkdir()
    interpreter = folder / ("p" * (248 - len(str(folder))))
    interpreter.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    bridge = tmp_path / "bridge"
    bridge.write_bytes(launcher_text())
    bridge.chmod(0o755)

    ran = run([bridge], {"CNI_COMMAND": "VERSION"})

    assert len(launcher_text().splitlines()[0]) == 255
    assert supported(ran) == list(SUPPORTED)


@pytest.mark.parametrize("kind", [compiled_launcher, launcher_text])
def test_own_launcher_is_distinguished_from_other_files(kind: Kind, tmp_path: Path) -> None:
    ours, short, other = (tmp_path / name for name in ("ours", "short", "other"))
    content = kind()
    assert content is not None
    ours.write_bytes(content)
    short.write_bytes(content[:20])
    other.write_bytes(content.replace(b" -IS\n", b" -I\n", 1))

    assert is_ours(str(ours))
    assert [is_ours(str(path)) for path in (short, other, tmp_path, tmp_path / "absent", "/bin/sh")] == [False] * 5


@pytest.mark.parametrize("kind", [compiled_launcher, launcher_text])
def test_launcher_of_another_installation_is_recognized(tmp_path: Path, kind: Kind) -> None:
    content = kind()
    assert content is not None
    other = tmp_path / "other"
    other.write_bytes(content.replace(os.fsencode(ROOT), b"/elsewhere"))

    assert (is_ours(str(other)), is_any_launcher(str(other))) == (False, True)
    assert [is_any_launcher(str(path)) for path in ("/bin/sh", tmp_path, tmp_path / "absent")] == [False] * 3


@pytest.mark.parametrize("kind", [compiled_launcher, launcher_text])
def test_launcher_with_another_socket_is_ours(kind: Kind, tmp_path: Path) -> None:
    content = kind(socket="/run/elsewhere/server.sock", timeout=1.0)
    assert content is not None
    (tmp_path / "ours").write_bytes(content)

    assert is_ours(str(tmp_path / "ours"))


@pytest.mark.parametrize("kind", [compiled_launcher, launcher_text])
@pytest.mark.parametrize("socket", ["relative", "/" + "s" * 107, "/nul\0", "/" + "\u00e9" * 60])
def test_a_path_that_no_socket_can_have_is_refused(kind: Kind, socket: str) -> None:
    with pytest.raises(ValueError, match="must be absolute and of at most 107 bytes"):
        kind(socket=socket)


# --- the compiled one


def test_compiled_launcher_is_preferred() -> None:
    assert launcher_bytes() == compiled_launcher()
    assert launcher_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize(
    "content", [None, b"\x7fELF of another machine", b"#!/bin/sh\nexit 0\n"], ids=["absent", "foreign", "other"]
)
def test_python_launcher_is_used_if_the_compiled_one_does_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "_launcher").write_bytes(content)
        (tmp_path / "_launcher").chmod(0o755)
    monkeypatch.setattr(launcher, "_COMPILED", str(tmp_path / "_launcher"))

    assert compiled_launcher() is None
    assert launcher_bytes() == launcher_text()


def test_compiled_launcher_of_other_source_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_launcher").write_bytes(b"#!/bin/sh\nexit 121\n")
    (tmp_path / "_launcher").chmod(0o755)
    monkeypatch.setattr(launcher, "_COMPILED", str(tmp_path / "_launcher"))

    with pytest.raises(ValueError, match=r"is not what launcher\.c compiles to"):
        compiled_launcher()


def test_compiled_launcher_without_settings_names_install() -> None:
    ran = run([Path(launcher.__file__).with_name("_launcher")])

    assert (ran.returncode, ran.stdout) == (121, b"")
    assert ran.stderr == b"_launcher: `cni-harness install` makes plugins of this\n"


def test_paths_beyond_the_room_of_a_launcher_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "set_path", lambda _: "d" * 4000)

    with pytest.raises(ValueError, match=r"4\d{3} bytes of paths; a launcher has room for 4092"):
        compiled_launcher()


@pytest.mark.parametrize("interpreter", ['/opt/"/python3', "/opt/\\/python3", "/opt/\n/python3", "/opt/\udcff/python3"])
def test_an_interpreter_that_no_error_can_name_is_refused(monkeypatch: pytest.MonkeyPatch, interpreter: str) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)

    with pytest.raises(ValueError, match="must be fit for an error in JSON"):
        compiled_launcher()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "no such interpreter"), (b"\x7fELF of another machine", "this does not execute")],
    ids=["absent", "foreign"],
)
def test_an_interpreter_that_is_no_longer_there_is_an_error_by_the_protocol(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    interpreter = tmp_path / "python 3\u00e9"
    monkeypatch.setattr(sys, "executable", str(interpreter))
    (tmp_path / "bridge").write_bytes(launcher_bytes(socket=""))
    (tmp_path / "bridge").chmod(0o755)
    if content is not None:
        interpreter.write_bytes(content)
        interpreter.chmod(0o755)

    ran = run([tmp_path / "bridge"], {"CNI_COMMAND": "VERSION"})
    closed = run([tmp_path / "bridge"], {"CNI_COMMAND": "VERSION"}, redirection=">&- 2>&-")

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout) == {"cniVersion": "1.1.0", "code": 999, "msg": f"{complaint}: {interpreter}"}
    assert closed.returncode == 1


def test_an_environment_without_room_for_the_program_is_an_error_by_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "bridge").write_bytes(launcher_bytes(socket=""))
    (tmp_path / "bridge").chmod(0o755)
    # Where the stack is small, the kernel takes 128 KiB: just enough for the launcher, and not for its plugin.
    shell = 'ulimit -s 256; LARGE=$(printf "%0${1}d" 0) exec "$0"'
    sizes = map(str, range(131_000, 129_000, -50))
    attempts = (run(["/bin/sh", "-c", shell, tmp_path / "bridge", size]) for size in sizes)
    ran = next(attempt for attempt in attempts if attempt.returncode != CANNOT_EXECUTE)

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert json.loads(ran.stdout)["msg"].startswith("the environment is too large for executing /")
