"""Folders of a node's own: a plugin with files in them leaves none of them on the machine, and writes nowhere else."""

import os
import subprocess
from pathlib import Path
from shutil import rmtree

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile
from tests.conformance.subjects import Unusual, install, subject
from tests.findings import examine
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

RECORDS = ("/run/conformance-plugin", "/data/conformance-plugin", "/tmp/conformance-plugin")
STATEFUL = f"""#!/bin/sh
mkdir -p /var/log/conformance-plugin {" ".join(RECORDS)}
echo "$CNI_COMMAND $CNI_CONTAINERID" >>/var/log/conformance-plugin/plugin.log
for folder in {" ".join(RECORDS)}; do
  case "$CNI_COMMAND" in
  ADD) echo "$CNI_IFNAME" >"$folder/$CNI_CONTAINERID" ;;
  DEL) rm -f "$folder/$CNI_CONTAINERID" ;;
  GC) rm -f "$folder"/* ;;
  esac
done
exec "${{0%/*}}/sound/${{0##*/}}"
"""
"""One state for the whole machine: its GC removes the records of every network."""


LAYERED = ("/etc", "/var", "/root", "/usr/local", "/opt")
MARKS = tuple(f"{folder}/conformance-plugin" for folder in LAYERED)


def find(script: str, names: set[str], sound: Path, folder: Path, *watched: Path) -> dict[str, Finding]:
    path = folder / "bridge"
    path.write_text(script)
    path.chmod(0o755)
    stateful = Unusual(path, "", (), (), Profile.INTERFACE, "bridge", "", "")
    tested = subject(Profile.INTERFACE, install(stateful, sound, folder / "bin"))
    wanted = [check for check in all_checks() if check.id in names]
    found = examine(tested, wanted, state_dir=folder / "state", options=CheckOptions(HANG, watched), jobs=3)
    return {each.check.id: each for each in found}


def test_each_check_has_the_state_for_itself_and_nothing_outlives_it(sound_bin_dir: Path, tmp_path: Path) -> None:
    found = find(STATEFUL, {"del-undoes-add", "gc-of-nothing", "del-twice"}, sound_bin_dir, tmp_path)

    assert {each.outcome for each in found.values()} == {Outcome.PASS}, found
    assert not [path for path in (*RECORDS, "/var/log/conformance-plugin") if Path(path).exists()]


def test_record_in_a_state_folder_is_a_leftover_and_a_log_is_not(sound_bin_dir: Path, tmp_path: Path) -> None:
    forgetful = STATEFUL.replace("  DEL)", "  NEVER)")

    found = find(forgetful, {"del-undoes-add"}, sound_bin_dir, tmp_path)["del-undoes-add"]

    assert found.outcome is Outcome.FAIL
    assert [folder for folder in RECORDS if f"+ files: file {folder}/" in found.got] == list(RECORDS)
    assert "/var/log" not in found.got


def test_a_link_for_ip_netns_is_a_leftover_and_does_not_stay_on_the_machine(
    sound_bin_dir: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    linking = f"""#!/bin/sh
link="/var/run/netns/$CNI_CONTAINERID"
case "$CNI_COMMAND" in ADD) ln -sf "$CNI_NETNS" "$link"; echo "$link" >>{made} ;; esac
exec "${{0%/*}}/sound/${{0##*/}}"
"""

    found = find(linking, {"del-undoes-add"}, sound_bin_dir, tmp_path)["del-undoes-add"]

    assert found.outcome is Outcome.FAIL
    names = [Path(line).name for line in made.read_text().split()]
    assert any(f"+ files: file /run/netns/{name} (symbolic link" in found.got for name in names), found.got
    assert not [name for name in names if Path("/run/netns", name).is_symlink()]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_files_in_etc_var_root_and_opt_are_leftovers_and_do_not_reach_the_machine(
    sound_bin_dir: Path, tmp_path: Path
) -> None:
    names = {path: Path(path).read_bytes() for path in ("/etc/hostname", "/etc/hosts", "/etc/passwd")}
    writing = f"""#!/bin/sh
if [ "$CNI_COMMAND" = ADD ]; then
  for mark in {" ".join(MARKS)}; do touch "$mark-$CNI_CONTAINERID" || exit 1; done
  rm -f /etc/hostname
  echo "192.0.2.1 $CNI_CONTAINERID" >>/etc/hosts
  cp /etc/passwd /etc/copied && cat /etc/copied >/etc/passwd && rm /etc/copied
fi
exec "${{0%/*}}/sound/${{0##*/}}"
"""

    found = find(writing, {"del-undoes-add", "add-leaves-etc"}, sound_bin_dir, tmp_path)

    left, changed = found["del-undoes-add"].got, found["add-leaves-etc"].got
    assert [mark for mark in MARKS if f"+ files: file {mark}-" in left] == list(MARKS), left
    assert "~ files: file /etc/hosts" in left
    for change in ("+ files: file /etc/conformance-plugin-", "- files: file /etc/hostname", "~ files: file /etc/hosts"):
        assert change in changed
    assert "/etc/passwd" not in left + changed  # it has the same content as before
    assert "/opt" not in changed
    assert {path: Path(path).read_bytes() for path in names} == names
    assert not [path for mark in MARKS for path in Path(mark).parent.glob("conformance-plugin*")]


def test_folders_are_read_only_unless_watched(sound_bin_dir: Path, tmp_path: Path) -> None:
    place = Path(f"/srv/conformance-plugin-{os.getpid()}")
    writing = f"""#!/bin/sh
[ "$CNI_COMMAND" != ADD ] || touch {place}/$CNI_CONTAINERID || exit 1
exec "${{0%/*}}/sound/${{0##*/}}"
"""
    place.mkdir(parents=True)
    try:
        refused = find(writing, {"del-undoes-add"}, sound_bin_dir, tmp_path)["del-undoes-add"]
        (other := tmp_path / "other").mkdir()
        watched = find(writing, {"del-undoes-add"}, sound_bin_dir, other, place)["del-undoes-add"]
        on_the_machine = list(place.iterdir())
    finally:
        rmtree(place)

    assert "Read-only file system" in str(refused)
    assert f"+ files: file {place}/" in watched.got
    assert on_the_machine == []


def test_watched_folder_that_can_have_no_overlay_stays_the_machines(sound_bin_dir: Path, tmp_path: Path) -> None:
    place = Path(f"/srv/conformance-plugin-{os.getpid()}")
    writing = f"""#!/bin/sh
[ "$CNI_COMMAND" != ADD ] || touch {place}/$CNI_CONTAINERID || exit 1
exec "${{0%/*}}/sound/${{0##*/}}"
"""
    # overlayfs stacks at most two of its kind.
    layers = """
for number in 1 2; do
  mkdir -p "$1/memory$number" && mount -t tmpfs tmpfs "$1/memory$number"
  mkdir "$1/memory$number/upper" "$1/memory$number/work"
  own="upperdir=$1/memory$number/upper,workdir=$1/memory$number/work"
  mount -t overlay -o "lowerdir=$2,$own" overlay "$2"
done
"""
    place.mkdir(parents=True)
    try:
        subprocess.run(["sh", "-ec", layers, "sh", tmp_path, place], check=True, timeout=HANG)
        found = find(writing, {"del-undoes-add"}, sound_bin_dir, tmp_path, place)["del-undoes-add"]
        written = list(place.iterdir())
    finally:
        for _ in range(2):
            subprocess.run(["umount", place], check=False)
        for number in (1, 2):
            subprocess.run(["umount", tmp_path / f"memory{number}"], check=False)
        rmtree(place)

    assert f"+ files: file {place}/" in found.got
    assert written


def test_kernel_parameters_and_network_namespaces_are_writable(sound_bin_dir: Path, tmp_path: Path) -> None:
    writing = """#!/bin/sh
echo 1 >/proc/sys/net/ipv4/ip_forward && : >/dev/null && mkdir -p /run/conformance-plugin || exit 1
exec "${0%/*}/sound/${0##*/}"
"""

    found = find(writing, {"add-makes-interface"}, sound_bin_dir, tmp_path)["add-makes-interface"]

    assert found.outcome is Outcome.PASS, found
