"""Plugins are run to their end, whatever they do, and their output is read whole and understood."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.libcni.execute import Execution, Executor, PluginError, PluginNotFoundError
from harness.libcni.outcome import decode_result, decode_versions, require_success
from tests.cli import SYSTEM_PYTHON
from tests.launchers import is_running
from tests.nodes import HANG, until, with_enough_time

REQUEST = b'{"cniVersion":"1.0.0","name":"mynet","type":"plugin"}'


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def plugin(bin_dir: Path) -> Callable[[str], Path]:
    def write(script: str, name: str = "plugin") -> Path:
        path = bin_dir / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def run(bin_dir: Path) -> Callable[..., Execution]:
    def run(verb: str = "ADD", stdin: bytes = REQUEST, timeout: float = HANG, linger: float = HANG) -> Execution:
        return Executor([bin_dir], timeout=timeout, linger=linger).run("plugin", verb, stdin, {})

    return run


def ends(process_id: int) -> bool:
    """Wait for a process to be gone or a zombie."""
    return until(lambda: not is_running(process_id))


# --- finding


def test_the_first_folder_with_an_executable_of_that_name_counts(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("gone", "folder", "plain", "right", "later")]
    for folder in folders[1:]:
        folder.mkdir()
    (tmp_path / "folder" / "bridge").mkdir()
    (tmp_path / "plain" / "bridge").write_text("not executable")
    for folder in folders[3:]:
        shutil.copy("/bin/true", folder / "bridge")

    assert Executor(folders).find("bridge") == tmp_path / "right" / "bridge"


def test_missing_plugin_is_an_error_that_names_the_folders(tmp_path: Path) -> None:
    executor = Executor([tmp_path / "one", tmp_path / "two"])

    with pytest.raises(PluginNotFoundError) as raised:
        executor.find("bridge", "ADD")

    assert str(raised.value) == (
        f'plugin bridge: ADD failed: no executable "bridge" (searched: {tmp_path}/one, {tmp_path}/two)'
    )


@pytest.mark.parametrize("name", ["", ".", "..", "../bin/sh", "/bin/sh", "a\\b", "a\0b"])
def test_a_type_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(PluginNotFoundError, match="is not the name of an executable"):
        Executor([Path("/bin")]).find(name)


def test_empty_folders_are_left_out_and_relative_ones_made_absolute(
    bin_dir: Path, plugin: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugin("exit 0")
    monkeypatch.chdir(bin_dir.parent)

    executor = Executor([Path(), Path("bin")])
    monkeypatch.chdir("/")

    assert executor.find("plugin") == path
    assert executor.cni_path == str(bin_dir)
    assert Executor([]).cni_path == ""


# --- a plugin's input


def test_a_plugin_gets_the_harnesss_environment_with_the_protocols_variables_replaced(
    bin_dir: Path, plugin: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin('cat /proc/$$/environ > "$RECORD.env"; cat > "$RECORD.stdin"')
    record = bin_dir.parent / "record"
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("CNI_IFNAME", "stray0")
    monkeypatch.setenv("CNI_NETNS_OVERRIDE", "1")

    execution = Executor([bin_dir]).run("plugin", "ADD", REQUEST, {"CNI_CONTAINERID": "pod1", "CNI_ARGS": ""})

    written = record.with_suffix(".env").read_text().removesuffix("\0")
    seen = dict(variable.partition("=")[::2] for variable in written.split("\0"))
    assert {key: value for key, value in seen.items() if key.startswith("CNI_")} == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "pod1",
        "CNI_ARGS": "",
        "CNI_PATH": str(bin_dir),
        "CNI_NETNS_OVERRIDE": "1",
    }
    assert seen["RECORD"] == str(record)
    assert execution.environ == seen
    assert record.with_suffix(".stdin").read_bytes() == execution.stdin == REQUEST


def test_empty_verb_leaves_cni_command_unset(plugin: Callable[[str], Path], run: Callable[..., Execution]) -> None:
    plugin('echo "${CNI_COMMAND-unset}"')

    assert run(verb="").stdout == b"unset\n"


def test_an_execution_is_described_and_observed(bin_dir: Path, plugin: Callable[[str], Path]) -> None:
    path = plugin("echo out; echo err >&2; exit 3")
    observed: list[Execution] = []

    execution = Executor([bin_dir], observe=observed.append).run("plugin", "DEL", REQUEST, {})

    assert observed == [execution]
    assert (execution.plugin, execution.path, execution.verb) == ("plugin", str(path), "DEL")
    assert (execution.stdout, execution.stderr, execution.exit_code) == (b"out\n", b"err\n", 3)
    assert 0 < execution.seconds < 60
    assert (execution.timed_out, execution.flooded, execution.output_held) == (False, False, False)


# --- input, output and time


def test_a_megabyte_each_way_at_once_is_no_deadlock(
    plugin: Callable[[str], Path], run: Callable[..., Execution]
) -> None:
    plugin(
        "head -c 1000000 /dev/zero >&2; dd bs=8192 count=1 status=none; head -c 1000000 /dev/zero; cat;"
        "head -c 1000000 /dev/zero >&2"
    )
    request = b"x" * 3_000_000

    execution = run(stdin=request, timeout=HANG)

    assert execution.stdout == request[:8192] + bytes(1_000_000) + request[8192:]
    assert execution.stderr == bytes(2_000_000)


def test_unread_stdin_is_no_error(plugin: Callable[[str], Path], run: Callable[..., Execution]) -> None:
    plugin("exec <&-; echo done")

    execution = run(stdin=b"x" * 3_000_000)

    assert (execution.stdout, execution.exit_code) == (b"done\n", 0)


def test_a_plugin_that_takes_too_long_is_killed_with_its_children(
    plugin: Callable[[str], Path], run: Callable[..., Execution]
) -> None:
    plugin("sleep 1000 & echo $!; echo working >&2; wait")

    def said_enough(timeout: float) -> Execution | None:
        execution = run(timeout=timeout)
        return execution if execution.stderr else None

    execution = with_enough_time(said_enough)

    assert execution.timed_out
    assert execution.exit_code == -signal.SIGKILL
    assert ends(int(execution.stdout))
    with pytest.raises(PluginError, match=r"gave no answer and was killed after \d+\.\d s; stderr: working"):
        require_success(execution)


def test_output_of_a_process_left_behind_is_read_to_its_end(
    plugin: Callable[[str], Path], run: Callable[..., Execution]
) -> None:
    plugin("(until grep -q ') Z ' /proc/$$/stat; do :; done; echo late) & exit 0")

    execution = run(linger=HANG)

    assert (execution.stdout, execution.exit_code) == (b"late\n", 0)
    assert not execution.output_held


def test_output_that_is_held_open_for_ever_is_given_up(
    plugin: Callable[[str], Path], run: Callable[..., Execution]
) -> None:
    plugin("sleep 1000 & echo $!; exit 0")

    execution = run(linger=0.2)

    left_behind = int(execution.stdout)
    os.kill(left_behind, signal.SIGKILL)  # and it was still there
    assert (execution.exit_code, execution.output_held, execution.timed_out) == (0, True, False)
    assert execution.seconds >= 0.2


def test_output_without_end_is_cut_off(plugin: Callable[[str], Path], run: Callable[..., Execution]) -> None:
    plugin("exec cat /dev/zero")

    execution = run()

    assert execution.flooded
    assert len(execution.stdout) < 70 << 20
    with pytest.raises(PluginError, match="printed without end and was killed"):
        require_success(execution)


def test_no_descriptor_is_left_open(plugin: Callable[[str], Path], run: Callable[..., Execution]) -> None:
    plugin("cat >/dev/null; sleep 1000 & [ $CNI_COMMAND = ADD ] || wait; echo $!")
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())

    held = run(linger=0.05)
    run(verb="DEL", timeout=0.05)

    os.kill(int(held.stdout), signal.SIGKILL)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_an_interrupt_kills_the_plugin_and_is_passed_on(
    bin_dir: Path, plugin: Callable[[str], Path], run: Callable[..., Execution]
) -> None:
    os.mkfifo(bin_dir / "gate")
    plugin(f"cat >/dev/null; echo $$ > {bin_dir}/gate; exec sleep 1000")
    process_ids: list[int] = []

    def interrupt() -> None:
        process_ids.append(int((bin_dir / "gate").read_text()))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        run()
    interrupter.join()

    assert ends(process_ids[0])


# --- a file that is being written


@pytest.fixture
def busy(bin_dir: Path) -> int:
    path = bin_dir / "plugin"
    shutil.copy("/bin/true", path)
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def test_a_file_that_is_being_written_is_tried_again(bin_dir: Path, busy: int) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            os.close(busy)

    execution = Executor([bin_dir], pause=pause).run("plugin", "ADD", REQUEST, {})

    assert execution.exit_code == 0
    assert len(pauses) == 5
    assert sum(pauses) > 3


def test_a_file_that_stays_busy_is_an_error(bin_dir: Path, busy: int) -> None:
    pauses: list[float] = []

    with pytest.raises(PluginError, match=r"cannot execute .*/plugin: Text file busy"):
        Executor([bin_dir], pause=pauses.append).run("plugin", "ADD", REQUEST, {})

    os.close(busy)
    assert len(pauses) == 5


@pytest.mark.parametrize("content", ["#!/no/such/interpreter\n", "no format at all"])
def test_file_that_cannot_be_executed_is_an_error_with_the_reason(bin_dir: Path, content: str) -> None:
    (bin_dir / "plugin").write_text(content)
    (bin_dir / "plugin").chmod(0o755)

    with pytest.raises(
        PluginError, match=r"plugin plugin: ADD failed: cannot execute .*/plugin: (No such|Exec format)"
    ):
        Executor([bin_dir]).run("plugin", "ADD", REQUEST, {})


def test_a_variable_that_no_environment_can_hold_is_an_error(bin_dir: Path, plugin: Callable[[str], Path]) -> None:
    plugin("exit 0")

    with pytest.raises(PluginError, match="embedded null byte"):
        Executor([bin_dir]).run("plugin", "ADD", REQUEST, {"CNI_NETNS": "a\0b"})


# --- the meaning of an ending


def test_a_plugins_own_error_is_raised(plugin: Callable[[str], Path], run: Callable[..., Execution]) -> None:
    plugin("""echo '{"cniVersion":"1.0.0","code":7,"msg":"bad subnet","details":"10.1"}'; echo noise >&2; exit 1""")

    with pytest.raises(PluginError) as raised:
        require_success(run())

    error = raised.value
    assert (error.plugin, error.verb, error.code, error.msg, error.details) == (
        "plugin",
        "ADD",
        7,
        "bad subnet",
        "10.1",
    )
    assert str(error) == "plugin plugin: ADD failed with code 7: bad subnet; 10.1"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 1", "no error message (exit code 1)"),
        ("echo 'cannot open' >&2; exit 2", "cannot open (exit code 2)"),
        ("kill -TERM $$", "no error message (signal SIGTERM)"),
        ("kill -40 $$", "no error message (signal 40)"),
        ("echo panic >&2; kill -SEGV $$", "panic (signal SIGSEGV)"),
        ("echo 'plain text'; echo more >&2; exit 1", "is no error object; stdout: plain text; stderr: more"),
        ("echo '[1]'; exit 1", "exit code 1, and what it printed is no error object; stdout: [1]"),
        ("""echo '{"code": 7}'; exit 1""", 'no error object; stdout: {"code": 7}'),
        ("""echo '{"Code": 11, "Msg": "later"}'; exit 1""", "with code 11: later"),
        ("""echo '{"code": "x", "msg": "odd"}'; exit 1""", "ADD failed: odd"),
        ("head -c 5000 /dev/zero | tr '\\0' x; exit 1", "x" * 1000 + "…"),
    ],
)
def test_a_failure_without_an_error_object_is_described(
    plugin: Callable[[str], Path], run: Callable[..., Execution], script: str, message: str
) -> None:
    plugin(script)

    with pytest.raises(PluginError) as raised:
        require_success(run())

    assert message in str(raised.value)
    assert len(str(raised.value)) < 2500


@pytest.mark.parametrize(
    ("printed", "version", "result"),
    [
        ('{"cniVersion":"1.0.0","x":1}', "1.0.0", {"cniVersion": "1.0.0", "x": 1}),
        ("{}", "0.4.0", {"cniVersion": "0.4.0"}),
        ('{"cniVersion":""}', "0.4.0", {"cniVersion": "0.4.0"}),
        ('{"cniVersion":null}', "1.1.0", {"cniVersion": "1.1.0"}),
        (
            '{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.5/16"}}',
            "1.0.0",
            {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]},
        ),
        (
            '{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}',
            "0.3.1",
            {"cniVersion": "0.3.1", "ips": [{"version": "4", "address": "10.1.0.5/16"}]},
        ),
        # libcni looks at no index, so plugins that get theirs wrong work everywhere else.
        (
            '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16","interface":2}]}',
            "1.1.0",
            {"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.5/16", "interface": 2}]},
        ),
        (
            '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16","interface":-1}]}',
            "0.4.0",
            {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.5/16", "interface": -1}]},
        ),
    ],
)
def test_a_result_is_read_in_the_configurations_version(
    plugin: Callable[[str], Path],
    run: Callable[..., Execution],
    printed: str,
    version: str,
    result: dict[str, object],
) -> None:
    plugin(f"echo '{printed}'")

    assert decode_result(run(), version) == result


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo oops >&2", "ADD failed: it printed no result; stderr: oops"),
        ("echo 'hello'", "what it printed is no result; stdout: hello"),
        ("echo null", "what it printed is no result; stdout: null"),
        ("echo '{} {}'", "what it printed is no result; stdout: {} {}"),
        ("""echo '{"x":NaN}'""", 'what it printed is no result; stdout: {"x":NaN}'),
        ("""echo '{"x":-1e999}'""", 'what it printed is no result; stdout: {"x":-1e999}'),
        ("""echo '{"code":11,"msg":"later"}'""", "with code 11: later (an error, though its exit code is 0)"),
        ("""echo '{"ips":"10.1.0.5"}'""", 'with code 7: result of plugin.ips: expected a list, got "10.1.0.5"'),
        ("""echo '{"ips":[{"address":"10.1"}]}'""", 'result of plugin.ips[0].address: expected a CIDR, got "10.1"'),
        ("""echo '{"cniVersion":1}'""", "result of plugin.cniVersion: expected a string, got 1"),
        ("""echo '{"cniVersion":"one"}'""", 'got "one"'),
        ("exit 4", "exit code 4"),
    ],
)
def test_output_that_is_no_result_is_an_error(
    plugin: Callable[[str], Path], run: Callable[..., Execution], script: str, message: str
) -> None:
    plugin(script)

    with pytest.raises(PluginError) as raised:
        decode_result(run(), "1.0.0")

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("script", "versions"),
    [
        ("""echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0"]}'""", ["0.4.0", "1.0.0"]),
        ("""echo '{"cniVersion":"0.2.0"}'""", ["0.1.0", "0.2.0"]),
        ("""echo '{"code":4,"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1""", ["0.1.0"]),
    ],
)
def test_versions_of_plugins_of_every_age(
    plugin: Callable[[str], Path], run: Callable[..., Execution], script: str, versions: list[str]
) -> None:
    plugin(script)

    assert decode_versions(run(verb="VERSION")) == versions


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        '{"cniVersion":"1.0.0"}',
        '{"supportedVersions":["1.0.0"]}',
        '{"cniVersion":"1","supportedVersions":[1]}',
    ],
)
def test_an_answer_without_versions_is_an_error(
    plugin: Callable[[str], Path], run: Callable[..., Execution], answer: str
) -> None:
    plugin(f"echo '{answer}'")

    with pytest.raises(PluginError, match="VERSION failed: what it printed is no answer"):
        decode_versions(run(verb="VERSION"))


def test_a_python_plugin_and_many_at_once(bin_dir: Path) -> None:
    """Each gets its own input, though they start and end in any order."""
    path = bin_dir / "plugin"
    path.write_text(f"#!{SYSTEM_PYTHON} -IS\nimport sys\nsys.stdout.write(sys.stdin.read() * 1000)\n")
    path.chmod(0o755)
    executor = Executor([bin_dir])
    outputs: dict[int, bytes] = {}

    def work(number: int) -> None:
        outputs[number] = executor.run("plugin", "ADD", json.dumps(number).encode(), {}).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outputs == {number: str(number).encode() * 1000 for number in range(10, 30)}
