"""Sound plugins in shell and in Perl: the demands of the suite can be met, in any language."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list, read_network_file
from tests.conformance.subjects import PLUGINS, run_check
from tests.nodes import HANG

LIST = read_network_file(Path(__file__).parent / "networks" / "languages" / "shell-ptp.conflist")
PERL_IPAM = LIST.plugins[0].raw["ipam"]
HOST_LOCAL = {"type": "host-local", "ranges": [[{"subnet": "10.68.0.0/27"}]], "routes": [{"dst": "0.0.0.0/0"}]}
WRITTEN_IN: Mapping[str, Profile] = {"shell-ptp": Profile.INTERFACE, "perl-ipam": Profile.IPAM}

CHECKS = {check.id: check for check in all_checks()}
DEMANDS = [
    pytest.param(name, check.id, id=f"{name}:{check.id}")
    for name, profile in WRITTEN_IN.items()
    for check in all_checks()
    if profile in check.profiles
]
OPTIONS = CheckOptions(timeout=HANG)


def subject(name: str, interface: str, ipam: object, bin_dir: Path) -> Subject:
    network = {"cniVersion": "1.1.0", "name": "languages", "plugins": [{"type": interface, "ipam": ipam}]}
    profile = Profile.INTERFACE if name == interface else None
    found = subjects_of(parse_network_list(json.dumps(network).encode()), [bin_dir], profile=profile, only=[name])
    return next(found)


@pytest.fixture(scope="session")
def mixed_bin_dir(direct_bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for CNI_PATH with our plugins and those of other languages."""
    folder = tmp_path_factory.mktemp("mixed") / "bin"
    shutil.copytree(direct_bin_dir, folder)
    for name in WRITTEN_IN:
        shutil.copy(PLUGINS / name, folder)
    return folder


@pytest.mark.mostly_slow(6, "the same checks as of our plugins; single ones are in make test")
@pytest.mark.sudo
@pytest.mark.one_row_in(8)  # `make matrix` runs all
@pytest.mark.parametrize(("name", "demand"), DEMANDS)
def test_plugin_in_another_language_passes_each_check(name: str, demand: str, tmp_path: Path) -> None:
    tested = subject(name, "shell-ptp", PERL_IPAM, PLUGINS)

    finding = run_check(CHECKS[demand], tested, state_dir=tmp_path, options=OPTIONS)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, f"{finding.detail}\n{finding.sent}"


@pytest.mark.mostly_slow(4, "the same checks as of our plugins; single ones are in make test")
@pytest.mark.sudo
@pytest.mark.parametrize("demand", ["check-after-add", "del-netns-gone", "gc-empty-list", "parallel-add"])
@pytest.mark.parametrize(
    ("name", "interface", "ipam"),
    [("bridge", "bridge", PERL_IPAM), ("shell-ptp", "shell-ptp", HOST_LOCAL)],
    ids=["bridge over perl-ipam", "shell-ptp over host-local"],
)
def test_plugins_of_different_languages_work_together(
    name: str, interface: str, ipam: object, demand: str, mixed_bin_dir: Path, tmp_path: Path
) -> None:
    tested = subject(name, interface, ipam, mixed_bin_dir)

    finding = run_check(CHECKS[demand], tested, state_dir=tmp_path, options=OPTIONS)

    assert finding.outcome is Outcome.PASS, finding.detail
