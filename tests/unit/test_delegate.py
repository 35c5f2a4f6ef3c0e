"""An interface plugin and its IPAM plugin: our own in this process, anybody's as a process, with the same outcome."""

import gc
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launch.launcher import launcher_text
from skel import Args, CniError, Code, Outcome
from skel.delegate import find_in_path, ipam_add, ipam_check, ipam_delete, ipam_gc, ipam_status
from tests.unit.sample_plugin import Sample, SampleConfig, configuration

FORWARD: dict[str, Callable[[Args[SampleConfig]], Any]] = {
    "ADD": ipam_add,
    "DEL": ipam_delete,
    "CHECK": ipam_check,
    "GC": ipam_gc,
    "STATUS": ipam_status,
}

RESULT = '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16","gateway":"10.1.0.1"}]}'

# Whatever the delegate was given and answers lies in files beside it, named after the verb. /proc has the environment
# as it was passed, before the shell adds to it.
RECORDER = """#!/bin/sh
cd '{folder}'
echo "$CNI_COMMAND" >>verbs
cat "/proc/$$/environ" >"environ.$CNI_COMMAND"
cat >"stdin.$CNI_COMMAND"
cat "stderr.$CNI_COMMAND" >&2 2>/dev/null
cat "stdout.$CNI_COMMAND" 2>/dev/null
. "./end.$CNI_COMMAND" 2>/dev/null
exit 0
"""


class Foreign:
    """An IPAM plugin that is no part of this suite, and the plugin that delegates to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "recorder"
        self.bin_dir = folder / "bin"
        for made in (self.folder, self.bin_dir, folder / "sample"):
            made.mkdir()
        # dash ends where `.` finds no file.
        for verb in FORWARD:
            (self.folder / f"end.{verb}").touch()
        self.answer("ADD", RESULT)
        self.path = executable(self.bin_dir / "foreign", RECORDER.format(folder=self.folder))
        self.sample = Sample(folder / "sample", behave=lambda args: FORWARD[args.verb](args))

    def answer(self, verb: str, stdout: str = "", end: str = "", stderr: str = "") -> None:
        """Set the delegate's answer to a verb, and the shell command that it ends with."""
        (self.folder / f"stdout.{verb}").write_text(stdout)
        (self.folder / f"stderr.{verb}").write_text(stderr)
        (self.folder / f"end.{verb}").write_text(end)

    def run(self, verb: str, config: dict[str, object] | bytes | None = None, **environ: str | None) -> Outcome:
        return self.sample.run(
            verb, delegating() if config is None else config, {"CNI_PATH": str(self.bin_dir), **environ}
        )

    @property
    def verbs(self) -> list[str]:
        log = self.folder / "verbs"
        return log.read_text().split() if log.exists() else []


def executable(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o755)
    return path


def delegating(to: str = "foreign", **changes: object) -> dict[str, object]:
    return configuration(ipam={"type": to}, **changes)


def error_of(outcome: Outcome) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(outcome.stdout)
    assert outcome.code == 1
    return error


@pytest.fixture
def foreign(tmp_path: Path) -> Foreign:
    return Foreign(tmp_path)


# --- somebody else's plugin


@pytest.mark.parametrize("verb", FORWARD)
def test_delegate_gets_environment_and_stdin_unchanged(foreign: Foreign, verb: str) -> None:
    stdin = (
        b' {"name" : "net1","cniVersion":"1.1.0",\n"ipam":{"type":"foreign","x":[1e3,"\xc3\xa9\\u00e9"]}, "X":null }\n'
    )
    extra = {
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=a",
        "TRACEPARENT": "00-ab-cd-01",
        "ODD": "a=b\n\udcff",
        "EMPTY": "",
    }

    outcome = foreign.run(verb, stdin, **extra)

    given = (foreign.folder / f"environ.{verb}").read_bytes().rstrip(b"\0").split(b"\0")
    assert outcome.code == 0
    assert foreign.verbs == [verb]
    assert (foreign.folder / f"stdin.{verb}").read_bytes() == stdin
    assert dict(pair.split(b"=", 1) for pair in given) == {
        os.fsencode(name): os.fsencode(value) for name, value in foreign.sample.calls[0].environ.items()
    }


def test_delegate_gets_the_called_verb(foreign: Foreign) -> None:
    foreign.sample.behave = ipam_delete

    foreign.run("GC")

    assert foreign.verbs == ["DEL"]
    assert foreign.sample.calls[0].environ["CNI_COMMAND"] == "GC"


@pytest.mark.parametrize(
    "printed",
    [
        RESULT,
        '{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.5/16","gateway":"10.1.0.1"}}',
        '{"ips":[{"version":"4","address":"10.1.0.5/16","gateway":"10.1.0.1"}],"dns":{},"routes":null}',
        '{"ips":[{"address":"10.1.0.5/16","gateway":"10.1.0.1","interface":2}],"cniVersion":"1.1.0"}',
    ],
    ids=["1.1.0", "0.2.0", "without a version", "with an index into no interfaces"],
)
def test_result_of_the_delegate_is_read_in_any_version(foreign: Foreign, printed: str) -> None:
    foreign.answer("ADD", printed)

    assert json.loads(foreign.run("ADD").stdout) == json.loads(RESULT)


def test_log_of_the_delegate_is_passed_on(foreign: Foreign) -> None:
    foreign.answer("ADD", RESULT, stderr="first\nsecond\n")
    foreign.answer("CHECK", '{"code": 11, "msg": "later"}', "exit 1", stderr="third")

    assert foreign.run("ADD").stderr == b"sample: first containerID=pod-1\nsample: second containerID=pod-1\n"
    assert foreign.run("CHECK").stderr == b"sample: third containerID=pod-1\n"


def test_delegate_may_ignore_its_stdin(foreign: Foreign) -> None:
    executable(foreign.path, f"#!/bin/sh\necho '{RESULT}'\n")

    outcome = foreign.run("ADD", delegating(padding="x" * 2**20))

    assert outcome.code == 0


def test_the_first_folder_that_has_it_counts(foreign: Foreign, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    executable(first / "foreign", '#!/bin/sh\necho \'{"ip4":{"ip":"10.9.0.9/16"}}\'\n')

    outcome = foreign.run("ADD", CNI_PATH=f"/not/there::{first}:{foreign.bin_dir}")

    assert json.loads(outcome.stdout)["ips"] == [{"address": "10.9.0.9/16"}]
    assert foreign.verbs == []


@pytest.mark.parametrize("verb", FORWARD)
@pytest.mark.parametrize("code", [2, 7, 11, 50, 123])
def test_error_of_the_delegate_is_kept(foreign: Foreign, verb: str, code: int) -> None:
    reported = {"code": code, "msg": "no address left", "details": "10.1.0.0/16\nis full"}
    foreign.answer(verb, json.dumps({"cniVersion": "0.4.0", **reported}), "exit 1")

    outcome = foreign.run(verb)

    assert error_of(outcome) == {"cniVersion": "1.1.0", **reported}


FAILURES: dict[str, tuple[str, str, int, str]] = {
    # Its output and ending; the code, message and details that follow.
    "no-details": ('{"code":7,"msg":"no"}', "exit 1", 7, "no"),
    "null-details": ('{"code":7,"msg":"no","details":null}', "exit 1", 7, "no"),
    "other-case": ('{"Code":7,"Msg":"no","Details":"why"}', "exit 9", 7, "no; why"),
    "no-message": ('{"code":7}', "exit 1", 7, ""),
    "not-json": ("panic: nil map", "exit 2", 999, "IPAM plugin foreign failed with exit code 2; panic: nil map"),
    "nothing": ("", "exit 1", 999, "IPAM plugin foreign failed with exit code 1"),
    "killed": ("", "kill -9 $$", 999, "IPAM plugin foreign failed with signal 9"),
    "list": ("[]", "exit 1", 999, "IPAM plugin foreign failed with exit code 1; []"),
    "no-code": ('{"msg":"no"}', "exit 1", 999, 'failed with exit code 1; {"msg":"no"}'),
    "code-text": ('{"code":"seven","msg":""}', "exit 1", 999, '{"code":"seven","msg":""}'),
    "code-infinite": ('{"code":1e999,"msg":""}', "exit 1", 999, '{"code":1e999,"msg":""}'),
    "code-huge": ('{"code":' + "9" * 5000 + "}", "exit 1", 999, "failed with exit code 1"),
    "deep-error": ("[" * 100_000, "exit 1", 999, "failed with exit code 1"),
    "success-of-nothing": ("", "", 6, "IPAM plugin foreign printed no result"),
    "success-of-garbage": ("10.1.0.5/16", "", 6, "IPAM plugin foreign printed no result"),
    "success-of-two": (RESULT + RESULT, "", 6, "IPAM plugin foreign printed no result: Extra data"),
    "success-of-deep": ("[" * 100_000, "", 6, "IPAM plugin foreign printed no result"),
    "success-of-null": ("null", "", 7, "result of foreign: expected an object, got null"),
    "success-without-address": ("{}", "", 7, "IPAM plugin foreign returned no addresses"),
    "success-of-an-error": ('{"code":7,"msg":"no"}', "", 7, "IPAM plugin foreign returned no addresses"),
    "broken-address": (
        '{"ips":[{"address":"10.1.0.5"}]}',
        "",
        7,
        'result of foreign.ips[0].address: expected a CIDR, got "10.1.0.5"',
    ),
}


@pytest.mark.parametrize(("stdout", "end", "code", "text"), FAILURES.values(), ids=FAILURES)
def test_after_a_failed_add_its_del_is_called(foreign: Foreign, stdout: str, end: str, code: int, text: str) -> None:
    foreign.answer("ADD", stdout, end)

    error = error_of(foreign.run("ADD"))

    assert error["code"] == code
    assert text in f"{error['msg']}; {error.get('details', '')}"
    assert foreign.verbs == ["ADD", "DEL"]
    assert (foreign.folder / "stdin.DEL").read_bytes() == (foreign.folder / "stdin.ADD").read_bytes()


def test_error_of_a_failed_add_wins_over_the_error_of_its_del(foreign: Foreign) -> None:
    foreign.answer("ADD", '{"code":11,"msg":"busy"}', "exit 1")
    foreign.answer("DEL", '{"code":5,"msg":"disk full"}', "exit 1")

    outcome = foreign.run("ADD")

    assert error_of(outcome) == {"cniVersion": "1.1.0", "code": 11, "msg": "busy"}
    assert outcome.stderr == b"sample: DEL of foreign after its failed ADD: disk full containerID=pod-1\n"


@pytest.mark.parametrize("verb", ["DEL", "CHECK", "GC", "STATUS"])
def test_other_verbs_are_forwarded_once_and_their_output_is_dropped(foreign: Foreign, verb: str) -> None:
    foreign.answer(verb, "all is well")

    assert foreign.run(verb) == (b"", b"", 0)
    assert foreign.verbs == [verb]


# --- delegates that cannot be found or executed


@pytest.mark.parametrize("verb", FORWARD)
@pytest.mark.parametrize("name", ["absent", "../bin/foreign", "/bin/true", "a\\b", ".", "..", "", "nul\0", "\ud800"])
def test_missing_delegate_is_named(foreign: Foreign, verb: str, name: str) -> None:
    error = error_of(foreign.run(verb, delegating(name)))

    assert error["code"] == (Code.NOT_AVAILABLE if verb == "STATUS" else Code.INVALID_CONFIG)
    assert f'plugin name "{name}"' in error["msg"] or f'failed to find plugin "{name}"' in error["msg"]
    assert foreign.verbs == []


def test_error_for_a_missing_delegate_names_cni_path(foreign: Foreign) -> None:
    error = error_of(foreign.run("ADD", delegating("absent"), CNI_PATH="/opt/cni/bin:/usr/lib/cni"))

    assert error["msg"] == 'failed to find plugin "absent" in CNI_PATH "/opt/cni/bin:/usr/lib/cni"'


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL", "STATUS"])
@pytest.mark.parametrize("path", [None, "", ":"])
def test_a_missing_cni_path_is_named(foreign: Foreign, verb: str, path: str | None) -> None:
    error = error_of(foreign.run(verb, CNI_PATH=path))

    assert error["code"] == (Code.NOT_AVAILABLE if verb == "STATUS" else Code.INVALID_ENVIRONMENT)
    assert error["msg"] == "required environment variables are missing: CNI_PATH"


@pytest.mark.parametrize(
    "printed", [b'{"ips":[],"mtu":NaN}', b"\xef\xbb\xbf" + RESULT.encode(), RESULT.encode("utf-16")]
)
def test_a_result_that_go_could_not_read_is_a_decoding_failure(foreign: Foreign, printed: bytes) -> None:
    (foreign.folder / "stdout.ADD").write_bytes(printed)

    assert error_of(foreign.run("ADD"))["code"] == Code.DECODING_FAILURE


def test_only_an_executable_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("#!/bin/sh\n")
    (tmp_path / "a" / "two").mkdir()
    (tmp_path / "a" / "three").symlink_to("nowhere")

    for name in ("one", "two", "three"):
        with pytest.raises(CniError, match=f'failed to find plugin "{name}"') as raised:
            find_in_path(name, [str(tmp_path / "a")])
        assert raised.value.code == Code.INVALID_CONFIG


def test_a_link_to_an_executable_file_is_found(tmp_path: Path) -> None:
    executable(tmp_path / "real", "#!/bin/sh\n")
    (tmp_path / "ipam").symlink_to("real")

    assert find_in_path("ipam", ["/not/there", str(tmp_path)]) == str(tmp_path / "ipam")


@pytest.mark.parametrize("text", ["no first line", "#!/not/there\n"])
def test_delegate_that_cannot_be_executed_is_an_io_failure(foreign: Foreign, text: str) -> None:
    executable(foreign.path, text)

    error = error_of(foreign.run("DEL"))

    assert error["code"] == Code.IO_FAILURE
    assert str(foreign.path) in error["msg"]
    assert re.search("Exec format error|No such file", error["msg"])


# --- our own


@pytest.fixture
def host_local(tmp_path: Path) -> Callable[[str | bytes], Sample]:
    """Makes a plugin that delegates to an executable called host-local with the given content."""

    def make(text: str | bytes) -> Sample:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "calls").mkdir(parents=True)
        executable(folder / "host-local", text)
        return Sample(folder / "calls", behave=lambda args: FORWARD[args.verb](args))

    return make


def addresses(sample: Sample, verb: str = "ADD", container_id: str = "pod-1", **changes: object) -> Outcome:
    """Run a verb with addresses of a network of two, reserved in a folder beside the executable."""
    folder = sample.folder.parent
    ipam = {
        "type": "host-local",
        "dataDir": str(folder / "networks"),
        "subnet": "192.0.2.0/29",
        "rangeEnd": "192.0.2.3",
    }
    return sample.run(
        verb,
        configuration(ipam={**ipam, **changes}),
        {"CNI_PATH": str(folder), "CNI_CONTAINERID": container_id},
    )


LAUNCHER = launcher_text()
HEAD, BODY = b"".join(LAUNCHER.splitlines(keepends=True)[:2]), b"".join(LAUNCHER.splitlines(keepends=True)[2:])


def test_our_own_launcher_is_called_in_this_process(host_local: Callable[[str | bytes], Sample]) -> None:
    """As a process this one could only fail: nothing but its first lines are a launcher's."""
    sample = host_local(HEAD + b"this is no program\n")

    outcome = addresses(sample)

    assert json.loads(outcome.stdout)["ips"] == [{"address": "192.0.2.2/29", "gateway": "192.0.2.1"}]
    assert (sample.folder.parent / "networks" / "net1" / "192.0.2.2").read_bytes() == b"pod-1\r\neth0"


def test_a_launcher_of_another_installation_is_executed(
    host_local: Callable[[str | bytes], Sample], tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    lines = HEAD.splitlines(keepends=True)
    other = lines[0] + lines[1].rstrip() + b"/elsewhere\n"
    sample = host_local(other + f"open({str(witness)!r}, 'w').close()\n".encode() + BODY)

    outcome = addresses(sample)

    assert json.loads(outcome.stdout)["ips"] == [{"address": "192.0.2.2/29", "gateway": "192.0.2.1"}]
    assert witness.exists()


@pytest.mark.parametrize(
    "steps",
    [
        [("ADD", "a"), ("CHECK", "a"), ("CHECK", "b"), ("DEL", "a"), ("DEL", "a"), ("CHECK", "a")],
        [("ADD", "a"), ("ADD", "a"), ("ADD", "b"), ("ADD", "c"), ("STATUS", "x"), ("GC", "x"), ("DEL", "b")],
    ],
    ids=["one", "until none is left"],
)
def test_in_this_process_and_as_a_process_the_outcome_is_the_same(
    host_local: Callable[[str | bytes], Sample], tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    called, executed = host_local(LAUNCHER), host_local(HEAD + b"#\n")
    real = executable(tmp_path / "host-local", LAUNCHER)
    executable(executed.folder.parent / "host-local", f'#!/bin/sh\nexec "{real}"\n')

    outcomes = [
        [addresses(sample, verb, container_id) for verb, container_id in steps] for sample in (called, executed)
    ]

    folders = (str(called.folder.parent).encode(), str(executed.folder.parent).encode())
    assert [outcome.stdout.replace(folders[0], folders[1]) for outcome in outcomes[0]] == [
        outcome.stdout for outcome in outcomes[1]
    ]
    assert [(outcome.code, outcome.stderr) for outcome in outcomes[0]] == [
        (outcome.code, outcome.stderr) for outcome in outcomes[1]
    ]
    assert len({outcome.code for outcome in outcomes[0]}) == 2


def test_error_of_our_delegate_keeps_its_code(host_local: Callable[[str | bytes], Sample]) -> None:
    outcome = addresses(host_local(LAUNCHER), subnet="10.1")

    assert error_of(outcome)["code"] == Code.INVALID_CONFIG
    assert '"10.1"' in error_of(outcome)["msg"]


def test_failures_of_our_delegate_keep_no_memory_until_a_collection(
    host_local: Callable[[str | bytes], Sample],
) -> None:
    """A worker of the server collects garbage only when it rests."""
    sample = host_local(LAUNCHER)
    codes = [addresses(sample, container_id=pod).code for pod in ("a", "b", "c")]
    gc.collect()
    gc.disable()
    try:
        codes += [addresses(sample, container_id="c").code for _ in range(20)]
        assert gc.collect() == 0
        assert codes == [0, 0, *[1] * 21]  # there are two addresses
    finally:
        gc.enable()


def test_delegate_with_our_plugins_name_may_be_a_foreign_file(foreign: Foreign) -> None:
    executable(foreign.bin_dir / "host-local", foreign.path.read_text())

    foreign.run("ADD", delegating("host-local"))

    assert foreign.verbs == ["ADD"]


def test_a_delegate_that_is_being_written_is_tried_again(foreign: Foreign) -> None:
    busy = os.open(foreign.path, os.O_WRONLY)
    closing = threading.Timer(0.25, os.close, [busy])
    closing.start()

    outcome = foreign.run("ADD")
    closing.join()
    assert outcome.code == 0, outcome
