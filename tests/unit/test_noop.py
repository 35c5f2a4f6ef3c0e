"""noop: the plain one of a node without networks, and the test double that a debug file makes of it."""

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plugins.noop import PLUGIN
from skel import SUPPORTED, Outcome, dispatch

ATTACHMENT = {
    "CNI_CONTAINERID": "some-container",
    "CNI_NETNS": "/some/netns",
    "CNI_IFNAME": "eth0",
    "CNI_PATH": "/some/bin",
}
PREV_RESULT = {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.2.15/24"}]}


def call(verb: str, config: Mapping[str, object] | str, *, args: str = "", **environ: str) -> Outcome:
    stdin = config if isinstance(config, str) else json.dumps(config)
    variables = {"CNI_COMMAND": verb, **ATTACHMENT, "CNI_ARGS": args, **environ}
    return dispatch(PLUGIN, variables, stdin.encode)


def printed(outcome: Outcome) -> Any:
    return json.loads(outcome.stdout)


def conf(version: str = "1.1.0", **keys: object) -> dict[str, object]:
    return {"cniVersion": version, "name": "noop-test", "type": "noop", **keys}


@pytest.fixture
def debug_file(tmp_path: Path) -> Path:
    return tmp_path / "debug"


class TestPlain:
    @pytest.mark.parametrize("version", SUPPORTED)
    def test_add_answers_with_an_empty_result_of_the_version(self, version: str) -> None:
        outcome = call("ADD", conf(version))

        assert outcome.code == 0
        assert printed(outcome) == {"cniVersion": version}

    def test_add_without_a_version_answers_as_the_first_one(self) -> None:
        assert printed(call("ADD", {"name": "noop-test"})) == {"cniVersion": "0.1.0"}

    @pytest.mark.parametrize("version", ["0.3.1", "0.4.0"])
    def test_add_in_a_chain_hands_the_previous_result_on(self, version: str) -> None:
        outcome = call("ADD", conf(version, prevResult=PREV_RESULT))

        assert printed(outcome) == {**PREV_RESULT, "cniVersion": version}

    @pytest.mark.parametrize("verb", ["DEL", "CHECK", "GC", "STATUS"])
    def test_other_verbs_succeed_in_silence(self, verb: str) -> None:
        assert call(verb, conf()) == (b"", b"", 0)

    def test_add_says_on_stderr_why_nothing_happens(self) -> None:
        outcome = call("ADD", conf())

        assert b"no debug file" in outcome.stderr

    def test_cni_args_of_a_runtime_are_accepted(self) -> None:
        outcome = call("ADD", conf(), args="K8S_POD_NAME=pod1;K8S_POD_UID=7")

        assert outcome.code == 0

    def test_an_empty_debug_means_none(self, debug_file: Path) -> None:
        outcome = call("ADD", conf(debugFile=str(debug_file)), args="DEBUG=")

        assert printed(outcome) == {"cniVersion": "1.1.0"}

    @pytest.mark.parametrize("args", ["", "K8S_POD_NAME=pod1"])
    def test_version_lists_all_versions_and_reads_no_configuration(self, args: str) -> None:
        stdin = json.dumps(conf(debugFile="/nowhere")).encode()
        outcome = dispatch(PLUGIN, {"CNI_COMMAND": "VERSION", "CNI_ARGS": args}, lambda: stdin)

        assert printed(outcome)["supportedVersions"] == list(SUPPORTED)

    def test_a_version_that_does_not_exist_is_refused(self) -> None:
        outcome = call("ADD", conf("0.123.0"))

        assert (outcome.code, printed(outcome)["code"]) == (1, 1)

    def test_plugin_called_by_hand_prints_name_and_versions(self) -> None:
        outcome = dispatch(PLUGIN, {"CNI_ARGS": "DEBUG=/nowhere"}, lambda: b"")

        assert outcome.code == 0
        assert outcome.stderr.startswith(b"CNI noop plugin v0.7.0\n")


class TestReport:
    def test_the_result_is_printed_byte_by_byte(self, debug_file: Path) -> None:
        report = '{ "ips": [{ "version": "4", "address": "10.1.2.3/24" }], "dns": {} }'
        debug_file.write_text(json.dumps({"ReportResult": report}))

        assert call("ADD", conf(), args=f"DEBUG={debug_file};FOO=BAR") == (report.encode(), b"", 0)

    @pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
    def test_every_verb_reports(self, debug_file: Path, verb: str) -> None:
        debug_file.write_text('{"ReportResult": "{\\"some\\": \\"value\\"}"}')

        assert printed(call(verb, conf(), args=f"DEBUG={debug_file}")) == {"some": "value"}

    def test_a_file_without_a_result_prints_none(self, debug_file: Path) -> None:
        debug_file.write_text("{}")

        assert call("ADD", conf(), args=f"DEBUG={debug_file}") == (b"", b"", 0)

    @pytest.mark.parametrize(("asked", "given"), [({}, 999), ({"ReportErrorCode": 11}, 11)])
    def test_an_error_and_its_code(self, debug_file: Path, asked: dict[str, object], given: int) -> None:
        debug_file.write_text(json.dumps({"ReportError": "banana", "ReportResult": "{}", "ExitWithCode": 3, **asked}))

        outcome = call("ADD", conf(), args=f"DEBUG={debug_file}")

        assert outcome.code == 1
        assert printed(outcome) == {"cniVersion": "1.1.0", "code": given, "msg": "banana"}

    @pytest.mark.parametrize(("asked", "given"), [(3, 3), (0, 0), (-1, 0)])
    def test_the_exit_code_comes_with_the_result(self, debug_file: Path, asked: int, given: int) -> None:
        debug_file.write_text(json.dumps({"ReportResult": "half a resu", "ExitWithCode": asked}))

        assert call("ADD", conf(), args=f"DEBUG={debug_file}") == (b"half a resu", b"", given)

    def test_stderr(self, debug_file: Path) -> None:
        debug_file.write_text(json.dumps({"ReportStderr": "some stderr message", "ReportError": "banana"}))

        outcome = call("ADD", conf(), args=f"DEBUG={debug_file}")

        assert outcome.stderr == b"some stderr message"
        assert printed(outcome)["msg"] == "banana"

    @pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0"])
    def test_passthrough_prints_the_previous_result_in_the_configurations_version(
        self, debug_file: Path, version: str
    ) -> None:
        debug_file.write_text('{"ReportResult": "PASSTHROUGH"}')

        outcome = call("ADD", conf(version, prevResult=PREV_RESULT), args=f"DEBUG={debug_file}")

        ip = {"address": "10.1.2.15/24"} | ({"version": "4"} if version < "1" else {})
        assert printed(outcome) == {"cniVersion": version, "ips": [ip]}

    def test_inject_dns_adds_a_name_server(self, debug_file: Path) -> None:
        debug_file.write_text('{"ReportResult": "INJECT-DNS"}')
        prev_result = {**PREV_RESULT, "dns": {"nameservers": ["192.0.2.53"], "domain": "example.org"}}

        outcome = call("DEL", conf("0.4.0", prevResult=prev_result), args=f"DEBUG={debug_file}")

        dns = {"nameservers": ["1.2.3.4"], "domain": "example.org"}
        assert printed(outcome) == {**PREV_RESULT, "dns": dns}

    @pytest.mark.parametrize("report", ["PASSTHROUGH", "INJECT-DNS"])
    def test_missing_prev_result_is_an_error_of_add_and_check_alone(self, debug_file: Path, report: str) -> None:
        debug_file.write_text(json.dumps({"ReportResult": report}))

        outcomes = {
            verb: call(verb, conf(), args=f"DEBUG={debug_file}") for verb in ("ADD", "CHECK", "DEL", "GC", "STATUS")
        }

        assert [verb for verb, outcome in outcomes.items() if outcome.code] == ["ADD", "CHECK"]
        assert printed(outcomes["ADD"])["msg"].startswith("prevResult: required key is missing")
        assert outcomes["GC"].stdout == b""

    def test_cni_args_come_before_the_configuration(self, tmp_path: Path, debug_file: Path) -> None:
        debug_file.write_text('{"ReportResult": "by variable"}')
        (tmp_path / "other").write_text('{"ReportResult": "by configuration"}')
        config = conf(debugFile=str(tmp_path / "other"))

        assert call("ADD", config, args=f"DEBUG={debug_file}").stdout == b"by variable"
        assert call("ADD", config, args="FOO=BAR").stdout == b"by configuration"

    def test_keys_are_read_without_regard_to_case(self, debug_file: Path) -> None:
        debug_file.write_text('{"reportresult": "R", "EXITWITHCODE": 4, "reportError": null}')

        assert call("ADD", conf(), args=f"DEBUG={debug_file}") == (b"R", b"", 4)


class TestVersions:
    def test_version_lists_the_versions_of_the_debug_file(self, debug_file: Path) -> None:
        debug_file.write_text('{"ReportVersionSupport": ["0.123.0", "0.2.0"]}')

        outcome = call("VERSION", "", args=f"DEBUG={debug_file}")

        assert printed(outcome)["supportedVersions"] == ["0.123.0", "0.2.0"]

    @pytest.mark.parametrize(("listed", "code"), [(["0.2.0"], 1), (["0.4.0"], 0), ([], 1), (None, 0)])
    @pytest.mark.parametrize("by_args", [True, False])
    def test_other_verbs_accept_only_the_versions_of_the_debug_file(
        self, debug_file: Path, listed: list[str] | None, code: int, *, by_args: bool
    ) -> None:
        debug_file.write_text(json.dumps({"ReportVersionSupport": listed}))
        config = conf("0.4.0", **({} if by_args else {"debugFile": str(debug_file)}))

        outcome = call("ADD", config, args=f"DEBUG={debug_file}" if by_args else "")

        assert outcome.code == code
        assert not code or printed(outcome)["code"] == 1


class TestRecord:
    def test_call_is_recorded_beside_the_debug_settings(self, debug_file: Path) -> None:
        asked = {
            "ReportResult": " { } ",
            "ReportError": "",
            "ReportErrorCode": 0,
            "ReportStderr": "s",
            "ReportVersionSupport": ["1.1.0"],
            "ExitWithCode": 2,
        }
        debug_file.write_text(json.dumps({**asked, "Command": "old", "CmdArgs": None}))
        stdin = '{"name": "noop-test", "cniVersion": "1.1.0", "some": "stdin-json"}'
        args = f"DEBUG={debug_file};FOO=BAR"

        call("CHECK", stdin, args=args, CNI_NETNS_OVERRIDE="1")

        expected = {
            "ContainerID": "some-container",
            "Netns": "/some/netns",
            "IfName": "eth0",
            "Args": args,
            "Path": "/some/bin",
            "NetnsOverride": "1",
            "StdinData": base64.b64encode(stdin.encode()).decode(),
        }
        written = json.loads(debug_file.read_text())
        assert written == {**asked, "Command": "CHECK", "CmdArgs": expected}
        assert list(written) == [*asked, "Command", "CmdArgs"]

    def test_missing_debug_settings_are_recorded_as_in_go(self, debug_file: Path) -> None:
        debug_file.write_text("{}")

        call("ADD", conf(), args=f"DEBUG={debug_file}")

        written = json.loads(debug_file.read_text())
        assert {key: written[key] for key in list(written)[:6]} == {
            "ReportResult": "",
            "ReportError": "",
            "ReportErrorCode": 0,
            "ReportStderr": "",
            "ReportVersionSupport": None,
            "ExitWithCode": 0,
        }

    def test_call_is_recorded_before_a_requested_failure(self, debug_file: Path) -> None:
        debug_file.write_text('{"ReportError": "banana"}')

        call("DEL", conf(), args=f"DEBUG={debug_file}")

        assert json.loads(debug_file.read_text())["Command"] == "DEL"

    def test_the_file_keeps_its_mode_and_its_place_behind_a_link(self, tmp_path: Path, debug_file: Path) -> None:
        debug_file.write_text("{}")
        debug_file.chmod(0o664)
        link = tmp_path / "link"
        link.symlink_to(debug_file)

        call("ADD", conf(), args=f"DEBUG={link}")

        assert link.is_symlink()
        assert debug_file.stat().st_mode & 0o777 == 0o664
        assert json.loads(debug_file.read_text())["Command"] == "ADD"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["debug", "link"]

    @pytest.mark.sudo
    def test_run_by_root_it_leaves_the_file_to_its_owner(self, debug_file: Path) -> None:
        debug_file.write_text("{}")
        os.chown(debug_file, 12345, 23456)

        call("ADD", conf(), args=f"DEBUG={debug_file}")

        status = debug_file.stat()
        assert (status.st_uid, status.st_gid) == (12345, 23456)

    def test_symbolic_link_at_the_temporary_name_is_not_followed(self, tmp_path: Path, debug_file: Path) -> None:
        debug_file.write_text("{}")
        victim = tmp_path / "victim"
        victim.write_text("precious")
        (tmp_path / ".debug.new").symlink_to(victim)

        call("ADD", conf(), args=f"DEBUG={debug_file}")

        assert victim.read_text() == "precious"
        assert json.loads(debug_file.read_text())["Command"] == "ADD"


class TestCommandLog:
    @pytest.mark.parametrize("before", [None, ""])
    def test_calls_are_appended(self, tmp_path: Path, debug_file: Path, before: str | None) -> None:
        log = tmp_path / "log"
        if before is not None:
            log.write_text(before)
        debug_file.write_text("{}")
        config = conf(debugFile=str(debug_file), commandLog=str(log))

        for verb in ("ADD", "CHECK", "DEL"):
            call(verb, config)

        calls = json.loads(log.read_text())
        assert [entry["Command"] for entry in calls] == ["ADD", "CHECK", "DEL"]
        assert json.loads(base64.b64decode(calls[0]["CmdArgs"]["StdinData"])) == config

    def test_plugins_that_run_at_once_lose_no_entry(self, tmp_path: Path, debug_file: Path, bin_dir: Path) -> None:
        debug_file.write_text('{"ReportResult": "{}"}')
        config = json.dumps(conf(debugFile=str(debug_file), commandLog=str(tmp_path / "log")))

        def add(number: int) -> int:
            environ = {**ATTACHMENT, "CNI_COMMAND": "ADD", "CNI_CONTAINERID": f"c{number}"}
            return subprocess.run([bin_dir / "noop"], env=environ, input=config.encode(), check=False).returncode

        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(add, range(24)))

        assert codes == [0] * 24
        calls = json.loads((tmp_path / "log").read_text())
        assert {entry["CmdArgs"]["ContainerID"] for entry in calls} == {f"c{number}" for number in range(24)}

    def test_nothing_is_logged_without_a_debug_file(self, tmp_path: Path) -> None:
        call("ADD", conf(commandLog=str(tmp_path / "log")))

        assert list(tmp_path.iterdir()) == []


class TestTrouble:
    @pytest.mark.parametrize(
        ("content", "code", "message"),
        [
            (None, 5, "debug file {path}: No such file or directory"),
            ("", 6, "debug file {path}: not JSON: Expecting value"),
            ("[" * 100_000, 6, "debug file {path}: not JSON: "),
            ("[]", 7, "debug file {path}: Debug: expected an object, got []"),
            ('{"ReportErrorCode": -1}', 7, "debug file {path}: Debug.ReportErrorCode: expected "),
            ('{"reportResult": {}}', 7, "debug file {path}: Debug.ReportResult: expected a string, got {{}}"),
        ],
        ids=["missing", "empty", "deep", "list", "negative", "object"],
    )
    @pytest.mark.parametrize("verb", ["ADD", "VERSION"])
    def test_an_unusable_debug_file_is_named(
        self, debug_file: Path, content: str | None, code: int, message: str, verb: str
    ) -> None:
        if content is not None:
            debug_file.write_text(content)

        outcome = call(verb, conf(), args=f"DEBUG={debug_file}")

        assert (outcome.code, printed(outcome)["code"]) == (1, code)
        assert printed(outcome)["msg"].startswith(message.format(path=debug_file))
        assert content is None or debug_file.read_text() == content

    @pytest.mark.parametrize(("content", "code"), [("{}", 7), ("[", 6)])
    def test_an_unusable_command_log_is_named_and_kept(
        self, tmp_path: Path, debug_file: Path, content: str, code: int
    ) -> None:
        debug_file.write_text("{}")
        log = tmp_path / "log"
        log.write_text(content)

        outcome = call("ADD", conf(debugFile=str(debug_file), commandLog=str(log)))

        assert printed(outcome)["code"] == code
        assert printed(outcome)["msg"].startswith(f"command log {log}: ")
        assert log.read_text() == content

    def test_debug_file_that_is_no_path_is_named(self) -> None:
        outcome = call("ADD", conf(debugFile=7))

        assert printed(outcome)["msg"] == "debugFile: expected a string, got 7"


def test_executable_exits_with_the_requested_code(bin_dir: Path, debug_file: Path) -> None:
    debug_file.write_text('{"ReportResult": "{\\"some\\": \\"result\\"}", "ReportStderr": "heard", "ExitWithCode": 3}')
    environ = {**ATTACHMENT, "CNI_COMMAND": "ADD", "CNI_ARGS": f"DEBUG={debug_file}"}

    run = subprocess.run(
        [bin_dir / "noop"], env=environ, input=json.dumps(conf()).encode(), capture_output=True, check=False
    )

    assert (run.returncode, run.stdout) == (3, b'{"some": "result"}')
    assert b"heard" in run.stderr
