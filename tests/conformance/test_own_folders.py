"""Folders of a node's own: a plugin with files in /run, /tmp, /data and /var/log leaves none of them on the machine."""

from pathlib import Path

import pytest

from harness.conformance.catalogue import checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, examine
from tests.conformance.subjects import Unusual, install, subject
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


def find(script: str, names: set[str], sound: Path, folder: Path) -> dict[str, Finding]:
    path = folder / "bridge"
    path.write_text(script)
    path.chmod(0o755)
    stateful = Unusual(path, "", (), (), Profile.INTERFACE, "bridge", "", "")
    tested = subject(Profile.INTERFACE, install(stateful, sound, folder / "bin"))
    wanted = [check for check in checks() if check.id in names]
    found = examine(tested, wanted, state_dir=folder / "state", extent=Extent(timeout=HANG), jobs=3)
    return {each.check.id: each for each in found}


def test_each_check_has_the_state_for_itself_and_nothing_outlives_it(sound_bin_dir: Path, tmp_path: Path) -> None:
    found = find(STATEFUL, {"del-undoes-add", "gc-of-nothing", "del-twice"}, sound_bin_dir, tmp_path)

    assert {each.outcome for each in found.values()} == {Outcome.PASS}, found
    assert not [path for path in (*RECORDS, "/var/log/conformance-plugin") if Path(path).exists()]


def test_a_record_in_any_of_them_is_a_leftover_and_a_log_is_none(sound_bin_dir: Path, tmp_path: Path) -> None:
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
