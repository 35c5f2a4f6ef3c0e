"""`cni-harness conformance` that is interrupted or meets an error: it tells what it found, and nothing stays."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import Outcome
from tests import findings
from tests.cli import Cli
from tests.findings import examine
from tests.nodes import HANG, until
from tests.noted_places import assert_nothing_left, made_places, noting, outcomes, shadow

pytestmark = pytest.mark.sudo

all_checks()  # a run needs those that others depend on


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], direct_bin_dir: Path, tmp_path: Path) -> Cli:
    """A command line with a bridge network, and our bridge plugin, which notes its namespaces."""
    return noting(make_cli(direct_bin_dir), tmp_path)


@pytest.mark.slow("signals in a run of the suite; test_pods_signals ends adds in make test")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_interrupted(cli: Cli, tmp_path: Path, number: signal.Signals) -> None:
    examined = (
        "conformance",
        "--plugin",
        "bridge",
        "--jobs",
        "3",
        "--junit",
        str(tmp_path / "junit.xml"),
        "-o",
        "json",
    )
    with cli.background(*examined) as process:
        until(lambda: (tmp_path / "places").exists() and len(made_places(tmp_path)) > 15)
        process.send_signal(number)
        printed, said = process.communicate(timeout=HANG)

    assert process.returncode == (130 if number == signal.SIGINT else 143), said
    assert_nothing_left(cli, tmp_path)
    done = json.loads(printed)["checks"]
    assert 0 < len(done) < 150
    assert {each["outcome"] for each in done} <= {"pass", "n/a", "warn"}
    cases = ET.parse(tmp_path / "junit.xml").findall("*/testcase")  # noqa: S314 -- our own
    assert [case.get("name") for case in cases] == ["incomplete", *(each["id"] for each in done)]


def interrupted_twice(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Interrupted: running checks end" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=HANG)
    assert process.returncode == 130, said
    return printed


def test_a_second_interruption_breaks_running_checks_off(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", f'[ "$CNI_COMMAND" = DEL ] && {{ touch {tmp_path}/hangs; exec sleep 1000000; }}')
    examined = ("conformance", "--plugin", "bridge", "--timeout", "1000000", "--profile", "interface", "-o", "json")
    asked = ("--jobs", "1", "--check", "add-netns-no-namespace", "--check", "version-result", "--check", "del-twice")
    with cli.background(*examined, *asked) as process:
        until((tmp_path / "hangs").exists)
        printed = interrupted_twice(process)

    assert outcomes(json.loads(printed)) == {("bridge", "version-result"): "pass"}
    assert_nothing_left(cli, tmp_path)


def test_error_during_a_run_keeps_earlier_findings(cli: Cli, tmp_path: Path) -> None:
    cli.plugin(
        "prepare", f"echo >>{tmp_path}/nodes\n[ $(wc -l <{tmp_path}/nodes) -le 3 ] || {{ echo no line; exit 4; }}\n"
    )
    prepare = cli.folder / "bin" / "prepare"
    asked = ("--check", "add-prints-result", "--check", "version-result", "--check", "about", "--check", "add-twice")
    examined = ("conformance", "--plugin", "bridge", "--profile", "interface", "--prepare", str(prepare), "--jobs", "1")

    run = cli.run(*examined, *asked, "-o", "json", check=False)

    assert run.returncode == 1
    assert run.stderr.endswith(f"Error: --prepare {prepare}: exit code 4: no line\n")
    ids = ("add-twice", "add-prints-result", "version-result")
    assert outcomes(json.loads(run.stdout)) == {("bridge", name): "pass" for name in ids}


def test_check_that_raises_is_an_error_and_the_others_run(direct_bin_dir: Path, tmp_path: Path) -> None:
    def careless(trial: Trial) -> None:
        trial.warm_up()
        raise KeyError("ips")

    plugin = replace(findings.NETWORK.plugins[0], raw={"type": "bridge", "bridge": "br0", "ipam": {}}, delegate="")
    subject = replace(findings.subject(), plugin=plugin, bin_dirs=(direct_bin_dir,))
    wanted = [replace(findings.check("odd"), run=careless), findings.check("last")]

    odd, last = examine(subject, wanted, state_dir=tmp_path, options=CheckOptions())

    assert (odd.outcome, odd.detail, odd.expected) == (Outcome.ERROR, "KeyError: 'ips'", "")
    assert re.search(r"^Traceback .* in careless\n.*\nKeyError: 'ips'$", odd.got, re.DOTALL)
    assert odd.sent.startswith("CNI_COMMAND=DEL CNI_ARGS=")
    assert last.outcome is Outcome.PASS
    assert list(tmp_path.glob("nodes/*")) == []


def test_node_that_cannot_be_made_is_an_error_finding(direct_bin_dir: Path, tmp_path: Path) -> None:
    subject = replace(findings.subject(), bin_dirs=(direct_bin_dir,))
    (tmp_path / "file").touch()
    wanted, state_dir = [findings.check("any")], tmp_path / "file"

    [finding] = examine(subject, wanted, state_dir=state_dir, options=CheckOptions())

    assert finding.outcome is Outcome.ERROR
    assert str(tmp_path / "file") in finding.got
    assert finding.sent == ""


def test_an_error_is_the_exit_code(cli: Cli, tmp_path: Path) -> None:
    cli.environment["PATH"] = "/nowhere"  # where the tools are not that one of these checks needs
    report = tmp_path / "junit.xml"
    examined = ("--plugin", "bridge", "--profile", "interface", "--check", "version-result")

    run = cli.run(
        "conformance",
        *examined,
        "--check",
        "check-interface-missing",
        "--junit",
        str(report),
        "-o",
        "json",
        check=False,
    )

    assert run.returncode == 1
    document = json.loads(run.stdout)
    assert outcomes(document) == {
        ("bridge", "version-result"): "pass",
        ("bridge", "check-interface-missing"): "error",
    }
    assert (document["summary"]["error"], document["summary"]["must_failed"]) == (1, 0)
    [error] = ET.parse(report).iter("error")  # noqa: S314 -- our own
    assert "No such file or directory: 'nsenter'" in error.attrib["message"]
    assert_nothing_left(cli, tmp_path)


def test_interrupted_comparison_keeps_earlier_findings(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", f'[ "$CNI_COMMAND" = DEL ] && {{ touch {tmp_path}/hangs; exec sleep 1000000; }}')
    folders = ("--bin-dir", f"hanging={cli.environment['CNI_PATH']}", "--bin-dir", f"later={cli.bin_dir}")
    examined = ("--plugin", "bridge", "--timeout", "1000000", "--profile", "interface", "--jobs", "1", "-o", "json")
    asked = ("--check", "add-netns-no-namespace", "--check", "version-result", "--check", "del-twice")
    saved = ("--save", str(tmp_path / "page.md"), "--reports", str(tmp_path / "reports"))
    with cli.background("conformance", "matrix", *folders, *examined, *asked, *saved) as process:
        until((tmp_path / "hangs").exists)
        printed = interrupted_twice(process)

    suites = json.loads(printed)["suites"]
    assert [(each["suite"], each["cut_short"], len(each["checks"])) for each in suites] == [
        ("hanging", "interrupted", 1),
        ("later", "interrupted", 0),
    ]
    page = (tmp_path / "page.md").read_text()
    assert page.count("The run ended before its last check: interrupted") == 2
    assert "**Incomplete.**" in (tmp_path / "reports" / "hanging" / "README.md").read_text()
    assert_nothing_left(cli, tmp_path)
