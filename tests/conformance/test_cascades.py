"""One fault is one finding: whatever depends on it is not examined, and everything else is."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine import examiner
from harness.conformance.engine.examiner import Examiner
from harness.conformance.engine.run import ConformanceRun
from harness.conformance.finding import Finding, Outcome, is_red
from harness.conformance.subject import Profile, Subject
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import SOUND, Faulty, faulty_plugins, install, subject
from tests.findings import examine
from tests.nodes import HANG, until, with_enough_time

pytestmark = pytest.mark.sudo

FEW = [check for number, check in enumerate(all_checks()) if number % 8 == 0 or check.id == "version-result"]
CHECKS = {check.id: check for check in all_checks()}
SOUND_ONE = '"${0%/*}/sound/${0##*/}"'

OTHER_VERSION = f"""#!/bin/sh
[ "$CNI_COMMAND" = ADD ] || exec {SOUND_ONE}
said=$({SOUND_ONE}) || {{ code=$?; echo "$said"; exit $code; }}
echo "$said" | sed 's/"cniVersion": "[^"]*"/"cniVersion": "0.3.1"/'
"""
DEL_ONCE = f"""
if [ "$CNI_COMMAND" = DEL ]; then mkdir "$0.$CNI_CONTAINERID" 2>/dev/null || exit 1; fi
exec {SOUND_ONE}
"""
ADD_AFTER_DEL = f"""#!/bin/sh
[ "$CNI_COMMAND" = DEL ] && touch /var/lib/cni/used
[ "$CNI_COMMAND" = ADD ] && [ -e /var/lib/cni/used ] && {{ echo "worn out by $CNI_CONTAINERID" >&2; exit 3; }}
exec {SOUND_ONE}
"""
WITHOUT_GC = f"""#!/bin/sh
[ "$CNI_COMMAND" = GC ] && exit 0
exec {SOUND_ONE}
"""
GC_UNKNOWN = f"""#!/bin/sh
[ "$CNI_COMMAND" = GC ] && {{ echo '{{"cniVersion": "1.1.0", "code": 4, "msg": "no such verb"}}'; exit 1; }}
exec {SOUND_ONE}
"""
DEL_BARE = f"""
[ "$CNI_COMMAND" = DEL ] && exec env -u A_MARK {SOUND_ONE}
exec {SOUND_ONE}
"""
SILENT_ERRORS = f"""#!/bin/sh
[ "$CNI_COMMAND" = UNREFUSED ] && exit 0
result=$({SOUND_ONE}) || exit 1
[ -z "$result" ] || echo "$result"
"""
WITHOUT_LOOKING = f"""#!/bin/sh
case "$CNI_COMMAND,$CNI_CONTAINERID" in
ADD,*[!0-9a-z]*) CNI_CONTAINERID=any exec {SOUND_ONE} ;;
ADD,*) sed 's/"cniVersion":"99.0.0"/"cniVersion":"1.1.0"/' | {SOUND_ONE} ;;
*) exec {SOUND_ONE} ;;
esac
"""
CONTENT_WITH_ANY = f"""#!/bin/sh
if [ "$CNI_COMMAND" = ADD ] && nsenter --net="$CNI_NETNS" ip link show "$CNI_IFNAME" >/dev/null 2>&1; then
  echo '{{"cniVersion": "1.1.0"}}'
  exit 0
fi
exec {SOUND_ONE}
"""
ONE_AT_A_TIME = f"""#!/bin/sh
[ "$CNI_COMMAND" = ADD ] || exec {SOUND_ONE}
mkdir /var/lib/cni/busy 2>/dev/null || exit 1
sleep 1
{SOUND_ONE}; code=$?
rmdir /var/lib/cni/busy
exit $code
"""
LEAVES_THE_INTERFACE = f"""#!/bin/sh
[ "$CNI_COMMAND" = DEL ] && exit 0
result=$({SOUND_ONE}) || {{ code=$?; echo "$result"; exit $code; }}
echo "$result"
"""
GC_FAILS_SLOWLY = f"""#!/bin/sh
[ "$CNI_COMMAND" = GC ] || exec {SOUND_ONE}
if mkdir FOLDER/first 2>/dev/null; then
  while [ ! -e FOLDER/go ]; do sleep 0.1; done
else
  touch FOLDER/second
fi
echo '{{"cniVersion": "1.1.0", "code": 100, "msg": "out of order"}}'
exit 1
"""
OWN_RESULT = f"""#!/bin/sh
result=/var/lib/cni/result-$CNI_CONTAINERID
case "$CNI_COMMAND" in
ADD) {SOUND_ONE} | tee "$result" ;;
CHECK) jq --slurpfile own "$result" '.prevResult = $own[0]' | {SOUND_ONE} ;;
*) exec {SOUND_ONE} ;;
esac
"""
OF_GC = ("gc-empty-list", "gc-spelling-of-spec", "gc-goes-on-past-errors", "delegate-environment", "delegate-gc-fails")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is said to be quiet: on a busy one plugins are executed once more than is counted here."""
    monkeypatch.setattr(examiner, "slowness", lambda _: 1.0)


def plugin(script: str, sound: Path, folder: Path, profile: Profile = Profile.INTERFACE) -> Path:
    """Return a folder for CNI_PATH in which a script stands for the sound plugin of a profile."""
    path = folder / "script"
    path.write_text(script)
    path.chmod(0o755)
    return install(Faulty(path, "", (), profile, SOUND[profile][0]), sound, folder / "bin")


def found(tested: Subject, names: Sequence[str], folder: Path, *, repeat: int = 1) -> dict[str, Finding]:
    wanted = [CHECKS[name] for name in names]
    findings = examine(
        tested,
        wanted,
        state_dir=folder / "state",
        options=CheckOptions(timeout=HANG),
        repeat=repeat,
    )
    return {each.check.id: each for each in findings}


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, each in findings.items() if each.outcome in {Outcome.FAIL, Outcome.WARN}}


def unexamined(findings: dict[str, Finding]) -> dict[str, str]:
    return {name: each.cause for name, each in findings.items() if each.outcome is Outcome.NOT_EXAMINED}


def test_a_wrong_version_in_results_hides_nothing(sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = plugin(OTHER_VERSION, sound_bin_dir, tmp_path)
    names = ("add-after-del", "del-twice", "version-supported-works", "add-addresses", "check-after-add")

    findings = found(subject(Profile.INTERFACE, bin_dir, "0.4.0"), names, tmp_path)
    with_others = found(subject(Profile.INTERFACE, bin_dir, "0.4.0"), ["add-repeats-cni-version"], tmp_path)

    assert {name: each.outcome for name, each in findings.items()} == dict.fromkeys(names, Outcome.PASS)
    assert failed(with_others) == {"add-repeats-cni-version"}


def test_a_second_fault_behind_a_wrong_version_is_found(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = OTHER_VERSION.replace("#!/bin/sh\n", "#!/bin/sh" + DEL_ONCE.replace(f"exec {SOUND_ONE}\n", ""))
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir, "0.4.0"), ["del-undoes-add", "del-twice"], tmp_path)

    assert failed(findings) == {"del-twice"}
    assert findings["del-undoes-add"].outcome is Outcome.PASS


def test_an_add_that_fails_after_a_del_is_one_finding(sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = plugin(ADD_AFTER_DEL, sound_bin_dir, tmp_path)
    names = ("del-undoes-add", "del-netns-gone", "folder-any", "version-result", "add-makes-interface")

    findings = found(subject(Profile.INTERFACE, bin_dir), names, tmp_path)

    assert failed(findings) == {"add-after-del"}
    assert unexamined(findings) == dict.fromkeys(names[:3], "add-after-del")
    detail = findings["folder-any"].detail
    assert detail.startswith("not examined, because of add-after-del: exit code 3: worn out by ")


def test_a_check_that_goes_by_a_stored_result_is_one_finding(sound_bin_dir: Path, tmp_path: Path) -> None:
    names = ("check-later-mac", "check-later-address", "check-later-route", "check-later-route-removed")
    bin_dir = plugin(OWN_RESULT, sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), names, tmp_path)

    assert failed(findings) == {"check-other-address-expected"}
    cause = "check-other-address-expected"
    assert unexamined(findings) == {"check-later-mac": cause, "check-later-route-removed": cause}


@pytest.mark.mostly_slow(4, "each profile; a part is in make test")
@pytest.mark.parametrize(
    ("script", "profile", "cause"),
    [
        (WITHOUT_GC, Profile.INTERFACE, "delegate-gc"),
        (WITHOUT_GC, Profile.IPAM, "gc-removes-stale"),
        (GC_UNKNOWN, Profile.INTERFACE, "delegate-gc"),
        (GC_UNKNOWN, Profile.IPAM, "gc-of-nothing"),
    ],
)
def test_a_missing_gc_is_one_finding(
    script: str, profile: Profile, cause: str, sound_bin_dir: Path, tmp_path: Path
) -> None:
    bin_dir = plugin(script, sound_bin_dir, tmp_path, profile)

    names = [name for name in OF_GC if profile in CHECKS[name].profiles]
    if script == GC_UNKNOWN and cause != "gc-of-nothing":
        names.append("gc-of-nothing")  # a SHOULD: the MUST is told
    findings = found(subject(profile, bin_dir), [*names, "version-result"], tmp_path)

    assert failed(findings) == {cause}
    assert unexamined(findings) == dict.fromkeys(names, cause)
    assert findings["version-result"].outcome is Outcome.PASS


def test_a_del_that_always_fails_is_one_finding_of_a_must(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = f"""#!/bin/sh
[ "$CNI_COMMAND" = DEL ] && {{ echo "no such verb for $CNI_CONTAINERID" >&2; exit 3; }}
exec {SOUND_ONE}
"""
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    names = ("del-undoes-add", "del-twice", "del-netns-gone", "del-never-added", "version-result")
    findings = found(subject(Profile.INTERFACE, bin_dir), names, tmp_path)

    assert failed(findings) == {"del-twice"}
    assert is_red(list(findings.values()))
    assert unexamined(findings) == dict.fromkeys(("del-undoes-add", *names[2:4]), "del-twice")


def test_a_second_del_that_fails_explains_no_first_one(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = "#!/bin/sh" + DEL_ONCE.replace("exit 1", "exit 3").replace(
        "if [", '[ "$CNI_COMMAND" = DEL ] && [ -z "$CNI_NETNS" ] && exit 3\nif ['
    )
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), ["del-twice", "del-netns-empty"], tmp_path)

    assert failed(findings) == {"del-twice", "del-netns-empty"}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_check_waits_for_its_cause_that_another_thread_examines(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = GC_FAILS_SLOWLY.replace("FOLDER", str(tmp_path))
    tested = subject(Profile.IPAM, plugin(script, sound_bin_dir, tmp_path, Profile.IPAM))
    examiner = Examiner(tested, state_dir=tmp_path / "state", options=CheckOptions(timeout=HANG))
    examiner.find(CHECKS["add-prints-result"])
    with ThreadPoolExecutor(2) as pool:
        cause = pool.submit(examiner.find, CHECKS["gc-of-nothing"])
        until((tmp_path / "first").exists)
        effect = pool.submit(examiner.find, CHECKS["gc-empty-list"])
        until((tmp_path / "second").exists)
        wait([effect], timeout=1.0)
        (tmp_path / "go").touch()

    assert cause.result().outcome is Outcome.FAIL
    assert effect.result().cause == "gc-of-nothing"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_fault_in_another_verb_is_found_without_gc(sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = plugin(WITHOUT_GC.replace(f"exec {SOUND_ONE}\n", DEL_BARE), sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), ["delegate-environment"], tmp_path)

    assert failed(findings) == {"delegate-environment"}
    assert "passed on as they came, at DEL" in findings["delegate-environment"].expected


def test_errors_without_an_object_are_one_finding(sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = plugin(SILENT_ERRORS, sound_bin_dir, tmp_path)
    names = ("stdin-no-json", "variable-missing", "command-unknown", "version-unsupported-code", "error-cni-version")

    findings = found(subject(Profile.INTERFACE, bin_dir), ["error-object", *names, "error-exit-code"], tmp_path)

    assert failed(findings) == {"error-object"}
    assert unexamined(findings) == dict.fromkeys(names, "error-object")
    assert findings["error-exit-code"].outcome is Outcome.PASS


@pytest.mark.mostly_slow(4, "each cause; a part is in make test")
@pytest.mark.parametrize(
    ("script", "causes"),
    [
        (WITHOUT_LOOKING, ("version-unsupported", "container-id-invalid")),
        (LEAVES_THE_INTERFACE, ("del-undoes-add",)),
        (ONE_AT_A_TIME, ("parallel-add",)),
        (CONTENT_WITH_ANY, ("add-existing-interface",)),
    ],
)
def test_checks_after_a_failed_cause_are_not_examined(
    script: str, causes: Sequence[str], sound_bin_dir: Path, tmp_path: Path
) -> None:
    effects = {
        "version-unsupported": "version-unsupported-code",
        "container-id-invalid": "container-id-invalid-code",
        "del-undoes-add": "add-after-del",
        "add-existing-interface": "add-twice",
        "parallel-add": "parallel-delete",
    }
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), [effects[cause] for cause in causes], tmp_path)

    assert failed(findings) == set(causes)
    assert unexamined(findings) == {effects[cause]: cause for cause in causes}


def test_a_verb_that_is_not_refused_is_found_behind_errors_without_an_object(
    sound_bin_dir: Path, tmp_path: Path
) -> None:
    bin_dir = plugin(SILENT_ERRORS.replace("UNREFUSED", "RENAME"), sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), ["command-unknown", "stdin-no-json"], tmp_path)

    assert failed(findings) == {"command-unknown", "error-object"}
    assert unexamined(findings) == {"stdin-no-json": "error-object"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("kill -SEGV $$", "killed by signal 11 (SIGSEGV), and nothing said"),
        ("exec cat /dev/zero", "floods: more than 67108864 bytes on standard output"),
    ],
)
def test_an_add_that_does_not_end_as_it_should_says_how(
    body: str, words: str, sound_bin_dir: Path, tmp_path: Path
) -> None:
    script = f'#!/bin/sh\n[ "$CNI_COMMAND" = ADD ] && {body}\nexec {SOUND_ONE}\n'
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    findings = found(subject(Profile.INTERFACE, bin_dir), ["del-twice", "version-result"], tmp_path)

    assert failed(findings) == {"add-prints-result"}
    assert findings["add-prints-result"].got == words
    assert findings["del-twice"].detail == f"not examined, because of add-prints-result: {words}"
    assert findings["version-result"].outcome is Outcome.PASS
    assert all(len(each.stdout) < 1 << 20 for each in findings["del-twice"].transcript)


def findings_of(bin_dir: Path, folder: Path, options: CheckOptions) -> list[Finding]:
    document = {"cniVersions": ["0.4.0", "1.1.0"], "name": "net", "plugins": [{"type": "bridge", "bridge": "cf0"}]}
    network = parse_network_list(json.dumps(document).encode())
    run = ConformanceRun(networks=[network], checks=FEW, state_dir=folder / "state", options=options)
    return run.findings_of([bin_dir])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_plugin_that_always_hangs_is_given_up_after_three_time_outs(tmp_path: Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    hanging = bin_dir / "bridge"
    hanging.write_text(f"#!/bin/sh\necho $CNI_COMMAND >>{tmp_path}/executions\nexec sleep 1000\n")
    hanging.chmod(0o755)

    # The time limit is short, and no machine is too slow for it: nothing comes to its end in any time.
    findings = findings_of(bin_dir, tmp_path, CheckOptions(timeout=0.5))

    assert (tmp_path / "executions").read_text().split() == ["VERSION", "ADD", "ADD"]
    by_id = {each.check.id: each for each in findings}
    assert failed(by_id) == {"add-prints-result"}
    assert by_id["add-prints-result"].got.startswith("hangs: no end after ")
    assert set(unexamined(by_id).values()) == {"add-prints-result"}
    assert by_id["version-result"].outcome is Outcome.NOT_EXAMINED
    assert len(findings) > 15


@pytest.mark.slow("it waits for time-outs; test_faulty has plugins that hang in make test")
def test_a_verb_that_hangs_is_given_up_and_the_others_are_not(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = f"""#!/bin/sh
[ "$CNI_COMMAND" = STATUS ] && {{ echo >>{tmp_path}/executions; exec sleep 1000; }}
exec {SOUND_ONE}
"""
    tested = subject(Profile.INTERFACE, plugin(script, sound_bin_dir, tmp_path))
    wanted = [check for check in all_checks() if check.id.startswith("status-") or check.id == "version-result"]

    def find(timeout: float) -> dict[str, Finding] | None:
        (tmp_path / "executions").unlink(missing_ok=True)
        findings = examine(tested, wanted, state_dir=tmp_path / "state", options=CheckOptions(timeout=timeout))
        by_id = {each.check.id: each for each in findings}
        return by_id if by_id["status-not-relied-on"].outcome is Outcome.PASS else None

    findings = with_enough_time(find, first=3.0)

    assert len((tmp_path / "executions").read_text()) == 3
    assert failed(findings) == {"status-ready"}
    assert findings["version-result"].outcome is Outcome.PASS


@pytest.mark.parametrize("content", [b"", b"#!/nowhere/interpreter\n", b"#!{path}\n", b"\x7fELF\x02\x01\x01"])
def test_a_file_that_cannot_be_executed_is_one_finding(content: bytes, tmp_path: Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    path = bin_dir / "bridge"
    path.write_bytes(content.replace(b"{path}", str(path).encode()))
    path.chmod(0o755)

    findings = {each.check.id: each for each in findings_of(bin_dir, tmp_path, CheckOptions(timeout=HANG))}

    assert failed(findings) == {"add-prints-result"}
    assert findings["add-prints-result"].expected == f"{path} to be executed"
    assert set(unexamined(findings)) == findings.keys() - {"add-prints-result"}
    assert len(findings) > 15


def test_a_check_that_fails_in_some_runs_is_intermittent(sound_bin_dir: Path, tmp_path: Path) -> None:
    script = f"""#!/bin/sh
[ "$CNI_COMMAND" = VERSION ] && echo >>{tmp_path}/executions && [ "$(wc -l <{tmp_path}/executions)" = 6 ] && exit 7
exec {SOUND_ONE}
"""
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    finding = found(subject(Profile.INTERFACE, bin_dir), ["version-result"], tmp_path, repeat=6)["version-result"]

    assert (finding.outcome, finding.runs, finding.failed_runs) == (Outcome.FAIL, 6, 1)
    assert finding.is_intermittent
    assert finding.detail.startswith("intermittent: failed 1 of 6 runs; expected VERSION succeeds")
    assert [each.exit_code for each in finding.transcript] == [7]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("failures", [1, 6])
def test_a_check_of_concurrency_that_fails_is_repeated(failures: int, sound_bin_dir: Path, tmp_path: Path) -> None:
    once = f"mkdir {tmp_path}/once 2>/dev/null" if failures == 1 else "true"
    script = f"""#!/bin/sh
[ "$CNI_COMMAND" = DEL ] && {once} && nsenter --net="$CNI_NETNS" ip link set lo down
exec {SOUND_ONE}
"""
    bin_dir = plugin(script, sound_bin_dir, tmp_path)

    finding = found(subject(Profile.INTERFACE, bin_dir), ["loopback-beside"], tmp_path)["loopback-beside"]

    assert (finding.outcome, finding.runs, finding.failed_runs) == (Outcome.FAIL, 6, failures)
    assert finding.is_intermittent == (failures == 1)


@pytest.mark.mostly_slow(5, "each fault; a part is in make test")
@pytest.mark.one_row_in(40)
@pytest.mark.parametrize("faulty", faulty_plugins(), ids=lambda faulty: faulty.path.name)
def test_a_fault_is_hidden_by_no_other_finding_than_its_own(
    faulty: Faulty, sound_bin_dir: Path, tmp_path: Path
) -> None:
    spoiled = subject(faulty.profile, install(faulty, sound_bin_dir, tmp_path / "bin"), plugin=faulty.plugin)
    options = CheckOptions(timeout=6.0 if faulty.hangs else HANG, kills=5)
    wanted = [CHECKS[name] for name in faulty.caught_by]

    findings = {each.check.id: each for each in examine(spoiled, wanted, state_dir=tmp_path / "state", options=options)}

    assert failed(findings) & set(faulty.caught_by)
    assert all(cause in faulty.caught_by for cause in unexamined(findings).values()), unexamined(findings)
