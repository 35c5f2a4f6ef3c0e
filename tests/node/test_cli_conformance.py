"""`cni-harness conformance` with real plugins, sound and spoilt: its output, its exit code, and no leftovers."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from importlib.resources import files as resources
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.conformance.report.formats import FORMATS
from tests.cli import REFERENCE_BIN_DIR, Cli, bridge_network, on_a_terminal
from tests.noted_places import assert_nothing_left, noting, outcomes, shadow

pytestmark = pytest.mark.sudo

SCHEMA = json.loads(resources("harness.conformance.report").joinpath("report.schema.json").read_text())
AT_SECOND_DEL = '[ "$CNI_COMMAND" = DEL ] && ! mkdir {}/"deleted-$CNI_CONTAINERID" 2>/dev/null'
VERDICT = "fail: CNI 1.0.0 works: fail; core: fail; extended: 0 of 1"
QUICK = ("--check", "del-twice", "--check", "version-result")


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], direct_bin_dir: Path, tmp_path: Path) -> Cli:
    """A command line with a bridge network, and our bridge plugin, which notes its namespaces."""
    return noting(make_cli(direct_bin_dir), tmp_path)


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_every_plugin_of_the_list_and_its_ipam_plugin_is_examined(cli: Cli, tmp_path: Path) -> None:
    document = cli.json("conformance", *QUICK)

    assert outcomes(document) == {
        (plugin, name): "pass" for plugin in ("bridge", "host-local") for name in ("version-result", "del-twice")
    }
    assert {(each["plugin"], each["profile"]) for each in document["checks"]} == {
        ("bridge", "interface"),
        ("host-local", "ipam"),
    }
    assert document["summary"] == {
        "pass": 4,
        "fail": 0,
        "error": 0,
        "warn": 0,
        "n/a": 0,
        "not examined": 0,
        "known": 0,
        "must_failed": 0,
        "must_known": 0,
    }
    assert_nothing_left(cli, tmp_path)


def test_failed_must_is_reported_and_sets_the_exit_code(cli: Cli, tmp_path: Path) -> None:
    refusing = AT_SECOND_DEL.format(tmp_path) + ' && echo \'{"code": 123, "msg": "never heard of it"}\' && exit 1'
    shadow(cli, tmp_path, "bridge", refusing)
    report = tmp_path / "ci" / "junit.xml"

    run = cli.run("conformance", *QUICK, "--plugin", "bridge", "--junit", str(report), check=False)

    assert run.returncode == 1
    headline, failure, *_ = run.stdout.split("\n\n")
    assert headline == "bridge (interface), network net: 1 pass, 1 fail"
    assert re.match(r"fail del-twice \(MUST; SPEC\.md, 2 Execution Protocol / DEL\)\n  .*\n", failure)
    assert "  expected: a second DEL succeeds, with exit code 0\n" in failure
    assert '"msg": "never heard of it"' in failure
    assert f'{cli.folder}/bin/bridge <<< \'{{"cniVersion":"1.0.0","name":"net"' in failure
    suite = ET.parse(report).getroot()[0]  # noqa: S314 -- our own
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("net: bridge (interface)", "2", "1")
    (failed,) = [case for case in suite.findall("testcase") if case.find("failure") is not None]
    assert failed.get("name") == "del-twice"
    assert "never heard of it" in "".join(failed.itertext())
    assert_nothing_left(cli, tmp_path)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_run_is_reported_in_every_form(cli: Cli, tmp_path: Path) -> None:
    about = '[ -z "$CNI_COMMAND" ] && echo "a bridge, v7.8" >&2'
    shadow(cli, tmp_path, "bridge", f"{about}\n{AT_SECOND_DEL.format(tmp_path)} && exit 3")
    executable = next(Path(folder, "bridge") for folder in cli.environment["CNI_PATH"].split(":"))
    files = {ending: tmp_path / "ci" / f"report{ending}" for ending in FORMATS}

    run = cli.run(
        *("conformance", *QUICK, "--check", "del-undoes-add", "--plugin", "bridge"),
        *(word for file in files.values() for word in ("--report", str(file))),
        check=False,
    )

    assert run.returncode == 1
    document = json.loads(files[".json"].read_text())
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)] == []
    assert document["files"][0] == {
        "type": "bridge",
        "path": str(executable),
        "sha256": hashlib.sha256(executable.read_bytes()).hexdigest(),
        "about": "a bridge, v7.8",
    }
    assert [each["type"] for each in document["files"]] == ["bridge", "host-local"]
    assert document["kernel"] == os.uname().release
    assert datetime.fromisoformat(document["date"]).tzinfo is not None
    assert document["command"][:2] == ["cni-harness", "conformance"]
    assert document["cut_short"] == ""
    [failed] = [each for each in document["checks"] if each["outcome"] == "fail"]
    assert ("DEL", 3) in {(call["verb"], call["exit_code"]) for call in failed["transcript"]}
    assert (document["plugins"][0]["core"], document["verdict"]) == ("fail", VERDICT)
    assert "link net0" in document["plugins"][0]["left_for_good"]
    told = [files[ending].read_text() for ending in FORMATS if ending != ".svg"]
    assert all("a bridge, v7.8" in text and "del-twice" in text for text in told)
    assert document["verdict"] in files[".svg"].read_text()
    assert_nothing_left(cli, tmp_path)


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_report_names_sudo_as_the_privileges(cli: Cli) -> None:
    assert cli.json("conformance", *QUICK)["privileges"] == "root"
    cli.environment["SUDO_UID"] = "1000"
    assert cli.json("conformance", *QUICK)["privileges"] == "sudo"


EMPTY_NETNS = ("del-netns-empty", '[ "$CNI_COMMAND" = DEL ] && [ -z "$CNI_NETNS" ] && exit 1')
MUTE = ("about", '[ -z "$CNI_COMMAND" ] && exit 1')


@pytest.mark.mostly_slow(2, "each threshold; a part is in make test")
@pytest.mark.parametrize(
    ("fault", "options", "outcome"),
    [
        (EMPTY_NETNS, (), "fail"),  # a SHOULD with an effect
        (EMPTY_NETNS, ("--fail-on", "MUST"), "warn"),
        (MUTE, (), "warn"),  # a CONVENTION without one
        (MUTE, ("--fail-on", "CONVENTION"), "fail"),
    ],
)
def test_exit_code_and_reports_say_the_same(
    cli: Cli, tmp_path: Path, fault: tuple[str, str], options: tuple[str, ...], outcome: str
) -> None:
    name, script = fault
    shadow(cli, tmp_path, "bridge", script)
    files = [tmp_path / f"report{ending}" for ending in (".xml", ".tap", ".svg")]
    asked = ("--plugin", "bridge", "--check", name, *(word for file in files for word in ("--report", str(file))))

    run = cli.run("conformance", *asked, *options, "-o", "json", check=False)

    document, (junit, tap, badge) = json.loads(run.stdout), [file.read_text() for file in files]
    fails = outcome == "fail"
    assert outcomes(document) == {("bridge", name): outcome}
    assert run.returncode == fails
    assert document["verdict"].startswith("fail: CNI" if fails else "pass: CNI")
    assert document["summary"]["must_failed"] == 0
    assert ("<failure " in junit, "\nnot ok " in tap, "#b3261e" in badge) == (fails, fails, fails)


@pytest.mark.slow("two runs of the suite; test_conformance_threshold has levels in make test")
def test_failed_cause_below_level_is_a_warning(cli: Cli, tmp_path: Path) -> None:
    cli.configure(bridge_network("net", version="1.1.0"))
    shadow(cli, tmp_path, "host-local", '[ "$CNI_COMMAND" = GC ] && exit 0')
    asked = ("conformance", "--plugin", "host-local", "--check", "gc-spelling-of-spec", "-o", "json")

    whole = cli.run(*asked, check=False)
    musts = cli.run(*asked, "--level", "MUST", check=False)

    expected = {("host-local", "gc-spelling-of-spec"): "not examined", ("host-local", "gc-removes-stale"): "fail"}
    assert outcomes(json.loads(whole.stdout)) == expected
    assert outcomes(json.loads(musts.stdout)) == {**expected, ("host-local", "gc-removes-stale"): "warn"}
    assert (whole.returncode, musts.returncode) == (1, 0)


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_failures_alone_can_be_shown(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", AT_SECOND_DEL.format(tmp_path) + " && exit 1")

    run = cli.run("conformance", *QUICK, "--failures", "-o", "json", check=False)

    document = json.loads(run.stdout)
    assert run.returncode == 1
    assert outcomes(document) == {("bridge", "del-twice"): "fail"}
    assert document["summary"] == {
        "pass": 3,
        "fail": 1,
        "error": 0,
        "warn": 0,
        "n/a": 0,
        "not examined": 0,
        "known": 0,
        "must_failed": 1,
        "must_known": 0,
    }


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_files_in_a_folder_that_is_watched_are_evidence(cli: Cli, tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    shadow(cli, tmp_path, "bridge", f'[ "$CNI_COMMAND" = ADD ] && touch {watched}/$CNI_CONTAINERID')
    examined = ("conformance", "--plugin", "bridge", "--check", "del-undoes-add")

    assert set(outcomes(cli.json(*examined)).values()) == {"pass"}
    run = cli.run(*examined, "--watch", str(watched), "-o", "json", check=False)
    (found,) = json.loads(run.stdout)["checks"]
    assert (run.returncode, found["outcome"]) == (1, "fail")
    assert re.search(rf"\+ files: file {watched}/[0-9a-f]{{64}}", found["got"])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_plugin_that_does_not_end_is_not_waited_for(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", '[ "$CNI_COMMAND" = VERSION ] && sleep 1000')

    run = cli.run(
        "conformance", "--plugin", "bridge", "--check", "version-result", "--timeout", "0.5", "-o", "json", check=False
    )

    (found,) = json.loads(run.stdout)["checks"]
    assert (run.returncode, found["outcome"]) == (1, "fail")
    assert re.fullmatch(r"hangs: no end after \d+\.\d s", found["got"])


def test_profile_of_a_plugin_follows_from_its_add(cli: Cli) -> None:
    alone = cli.folder / "ipam.conf"
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]]}
    alone.write_text(json.dumps({"cniVersion": "1.0.0", "name": "alone", "type": "host-local", "ipam": ipam}))

    document = cli.json("conformance", *QUICK, "--conf", str(alone))

    assert {(each["network"], each["plugin"], each["profile"]) for each in document["checks"]} == {
        ("alone", "host-local", "ipam")
    }


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_a_profile_that_is_given_chooses_the_plugins(cli: Cli) -> None:
    assert set(outcomes(cli.json("conformance", *QUICK, "--profile", "ipam"))) == {
        ("host-local", "version-result"),
        ("host-local", "del-twice"),
    }
    assert {plugin for plugin, _ in outcomes(cli.json("conformance", *QUICK, "--profile", "interface"))} == {"bridge"}


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_nodes_are_prepared(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", 'if [ "$CNI_COMMAND" = ADD ]; then ip link show uplink0 >/dev/null || exit 1; fi')
    cli.plugin("prepare", f"[ ! -e {tmp_path}/cut ] || {{ echo no line; exit 4; }}\nip link add uplink0 type veth\n")
    prepare = cli.folder / "bin" / "prepare"
    examined = ("conformance", *QUICK, "--plugin", "bridge", "--prepare", str(prepare))

    assert outcomes(cli.json(*examined)) == {("bridge", "del-twice"): "pass", ("bridge", "version-result"): "pass"}

    (tmp_path / "cut").touch()
    run = cli.run(*examined, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.endswith(f"Error: --prepare {prepare}: exit code 4: no line\n")
    assert_nothing_left(cli, tmp_path)


def test_plugin_with_failing_add_is_still_examined(cli: Cli, tmp_path: Path) -> None:
    shadow(cli, tmp_path, "bridge", '[ "$CNI_COMMAND" = ADD ] && exit 1')

    run = cli.run("conformance", *QUICK, "--plugin", "bridge", "-o", "json", check=False)

    assert run.returncode == 1
    assert outcomes(json.loads(run.stdout)) == {
        ("bridge", "add-prints-result"): "fail",
        ("bridge", "del-twice"): "not examined",
        ("bridge", "version-result"): "pass",
    }
    assert (
        "bridge is taken for an interface plugin (see --profile), and few checks apply to one whose ADD" in run.stderr
    )


def test_the_other_checks_are_named_when_asked(cli: Cli) -> None:
    run = cli.run("conformance", *QUICK, "--plugin", "host-local", "-v")

    assert "host-local (ipam), network net: 2 pass" in run.stdout
    assert "pass del-twice (MUST)\n" in run.stdout


def test_progress_is_on_a_terminal_and_gone_at_the_end(cli: Cli) -> None:
    shown = on_a_terminal(cli, "conformance", *QUICK, "--plugin", "host-local")

    assert "\r\x1b[Khost-local (ipam): 1/2 " in shown
    assert re.search(r"host-local \(ipam\): 2/2 \S+ pass\r\x1b\[K\x1b\[1mhost-local \(ipam\), network net", shown)


@pytest.mark.parametrize("output", ["json", "table"])
def test_the_catalogue_is_printed_and_nothing_executed(cli: Cli, tmp_path: Path, output: str) -> None:
    run = cli.run("conformance", "--list", "-o", output)

    assert not (tmp_path / "places").exists()
    if output == "json":
        document = json.loads(run.stdout)
        (entry,) = [each for each in document["checks"] if each["id"] == "del-twice"]
        assert (entry["level"], entry["profiles"]) == ("MUST", ["chained", "interface", "ipam"])
        assert entry["levels"] == {"0.1.0": "CONVENTION", "0.3.0": "SHOULD", "1.0.0": "MUST"}
        assert entry["sentence"].startswith("Plugins MUST accept multiple `DEL` calls")
        assert {"key-words", "error-stderr"} <= {each["id"] for each in document["without_check"]}
        assert all(each["why_not"] for each in document["without_check"])
    else:
        checks, sections, without = run.stdout.split("\n\n")
        levels = r"MUST +1\.0\.0 \(0\.1\.0\) +something left +chained, interface, ipam"
        assert re.search(rf"^del-twice +{levels} +SPEC\.md, 2 Exec\S+ \S+ / DEL +DEL ", checks, re.MULTILINE)
        assert re.search(r"^2\.DEL +\d+ +SPEC\.md, 2 Execution Protocol / DEL$", sections, re.MULTILINE)
        assert re.search(r"^key-words +MUST +SPEC\.md, Overview +It says how ", without, re.MULTILINE)


def test_the_catalogue_of_one_profile(cli: Cli) -> None:
    document = cli.json("conformance", "--list", "--profile", "chained")

    assert len(document["checks"]) > 20
    assert all("chained" in each["profiles"] for each in document["checks"])


@pytest.mark.mostly_slow(5, "each option; a part is in make test")
@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (["--check", "del-twicee"], 2, "--check del-twicee: no such check; there is del-twice"),
        (["--check", "?"], 2, "--check ?: no such check; see `cni-harness conformance --list`"),
        (["--plugin", "ptp"], 2, "--plugin ptp: no such plugin; there is bridge, host-local"),
        (["--profile", "chained", "--check", "add-makes-interface"], 2, "none of these checks is for any of these"),
        (["--watch", "/run", "--jobs", "2"], 2, "--watch with --jobs"),
        (["--report", "report.txt"], 2, "'report.txt' ends with none of .html, .json, .md, .svg, .tap, .xml, .yaml"),
        (["--report", "/proc/nowhere/report.md"], 1, "/proc/nowhere"),
        (["--report", "/proc/report.md"], 1, "/proc"),
        (["--junit", "/proc/report"], 1, "/proc"),
        (["--prepare", "/nowhere"], 2, "'--prepare': File '/nowhere' does not exist"),
        (["--prepare", "/etc/passwd"], 2, "'--prepare': File '/etc/passwd' is not executable"),
        (["--conf", "/dev/null", "--network", "net"], 2, "--conf and --network"),
        (["--conf", "/nowhere.conflist"], 1, "/nowhere.conflist"),
        (["--network", "nowhere"], 1, "no network named nowhere"),
        (["--bin-dir", "/nowhere"], 2, "Invalid value for '--bin-dir': no folder /nowhere"),
        (["--bin-dir", "/usr"], 1, 'no executable "bridge" (searched: /usr)'),
        (["--jobs", "2", "matrix", "--bin-dir", "/nowhere"], 2, "--jobs goes behind `matrix`"),
        (["matrix"], 2, "Missing option '--bin-dir'"),
        (["matrix", "--bin-dir", "a=/nowhere"], 2, "--bin-dir a=/nowhere: no folder /nowhere"),
        (["matrix", "--bin-dir", "a=/usr"], 2, "no suite has a plugin"),
        (["matrix", "--bin-dir", "a=/usr", "--bin-dir", "a=/tmp"], 2, "--bin-dir a=/tmp: named twice"),
    ],
)
def test_bad_options_are_refused_before_any_file_is_made(
    cli: Cli, tmp_path: Path, args: list[str], code: int, complaint: str
) -> None:
    run = cli.run("conformance", *args, check=False)

    assert (run.returncode, run.stdout) == (code, "")
    assert complaint in run.stderr
    assert not (tmp_path / "places").exists()


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
@pytest.mark.parametrize("suffix", ["md", "html"])
def test_suites_are_compared(cli: Cli, tmp_path: Path, suffix: str) -> None:
    shadow(cli, tmp_path, "bridge", AT_SECOND_DEL.format(tmp_path) + " && exit 1")
    page = tmp_path / f"page.{suffix}"
    folders = ["--bin-dir", f"sound={cli.bin_dir}", "--bin-dir", f"spoilt={cli.environment['CNI_PATH']}"]

    run = cli.run(
        "conformance", "matrix", *folders, *QUICK, "--save", str(page), "--reports", str(tmp_path / "reports")
    )

    assert run.stdout.splitlines() == ["SUITE   CHECKS", "sound   4 pass", "spoilt  3 pass, 1 fail"]
    text = page.read_text()
    assert f"--bin-dir {cli.environment['CNI_PATH']} " in text
    if suffix == "md":
        assert "| del-twice | MUST | pass | **fail** |" in text
        assert "| host-local (ipam), network net | 2 pass | 2 pass |" in text
    else:
        assert text.startswith("<!DOCTYPE html>")
        assert '<td>MUST</td><td class="pass">pass</td><td class="fail"><a href="#' in text
    sound, spoilt = (tmp_path / "reports" / name for name in ("sound", "spoilt"))
    told = [yaml.safe_load((folder / "report.yaml").read_text())["plugins"] for folder in (sound, spoilt)]
    assert [[plugin["core"] for plugin in plugins] for plugins in told] == [["partial", "partial"], ["fail", "partial"]]
    assert told[1][0]["told"][0]["check"] == "del-twice"
    assert f"--bin-dir {cli.environment['CNI_PATH']} " in told[1][0]["told"][0]["reproduce"]
    assert (spoilt / "README.md").read_text().startswith("# spoilt\n")
    assert_nothing_left(cli, tmp_path)


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_a_suite_without_a_plugin_is_compared_by_the_others(cli: Cli, tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    lone.mkdir()
    shutil.copy(cli.bin_dir / "host-local", lone)

    run = cli.run("conformance", "matrix", "--bin-dir", f"all={cli.bin_dir}", "--bin-dir", f"lone={lone}", *QUICK)

    assert "| bridge (interface), network net | 2 pass | - |" in run.stdout
    assert "| host-local (ipam), network net | 2 pass | 2 pass |" in run.stdout
    assert f'bridge is left out: no executable "bridge" (searched: {lone})' in run.stderr


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_the_comparison_is_a_document_too(cli: Cli) -> None:
    document = cli.json(
        "conformance", "matrix", "--bin-dir", f"ours={cli.bin_dir}", *QUICK, "--check", "del-undoes-add"
    )

    (suite,) = document["suites"]
    assert (suite["suite"], suite["summary"]["pass"], len(suite["checks"])) == ("ours", 6, 6)
    assert "link net0" in suite["plugins"][0]["left_for_good"]


def test_the_reference_plugins_are_examined_alike(reference_cli: Cli) -> None:
    assert reference_cli.environment["CNI_PATH"] == str(REFERENCE_BIN_DIR)
    reference_cli.configure(bridge_network("net"))

    document = reference_cli.json("conformance", *QUICK)

    assert set(outcomes(document).values()) == {"pass"}
