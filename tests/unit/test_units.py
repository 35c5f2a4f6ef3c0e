"""The server under systemd: the units, and what systemd is told."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.command_line import cli as cli_group
from harness.install import units
from harness.install.files import install, installed, uninstall
from harness.install.packages import CommandError
from harness.install.units import disabled, enable, enable_agent
from tests.cli import ROOT, Cli
from tests.distributions import ROOMS


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "cli", tmp_path / "opt" / "cni" / "bin")


SYSTEMCTL = """#!/bin/sh
echo "$*" >>{record}
[ ! -e "$0.fails" ] || set -- "$@" no-such.socket
for word; do case $word in *.socket | *.service)
    [ -e "{folder}/$word" ] || {{ echo "Unit $word does not exist." >&2; exit 5; }} ;;
esac; done
"""


@pytest.fixture
def unit_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of systemd's units, with ours in it."""
    folder = tmp_path / "units"
    monkeypatch.setattr(units, "UNIT_DIR", folder)
    monkeypatch.setattr(units, "SOCKET_FOLDERS", (tmp_path / "sockets", tmp_path / "shared", tmp_path / "absent"))
    install(units.units(folder), tmp_path / "state")
    return folder


@pytest.fixture
def told(tmp_path: Path, unit_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `systemctl` that writes down its arguments, a line a call; it fails for a unit that has no file.

    It fails whatever it is told where `systemctl.fails` is.
    """
    record = tmp_path / "told"
    record.touch()
    systemctl = tmp_path / "path" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(SYSTEMCTL.format(record=record, folder=unit_dir))
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{systemctl.parent}:/usr/bin:/bin")
    monkeypatch.setattr(units, "is_systemd_running", lambda: True)
    return record


def exec_start(service: Path) -> list[str]:
    (line,) = [line for line in service.read_text().splitlines() if line.startswith("ExecStart=")]
    # As systemd does, which takes a variable or a specifier that is not escaped for its value: nothing, here.
    words = re.sub(r"([%$])(\1|\w*)", lambda found: found[1] * (found[1] == found[2]), line)
    return shlex.split(words.removeprefix("ExecStart="))


def test_units_are_installed_and_taken_back(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "units"

    cli.run("install", "--units", "--unit-dir", str(folder))

    names = ["cni-harness-dhcp.service", "cni-harness-dhcp.socket", "cni-harness.service", "cni-harness.socket"]
    assert sorted(path.name for path in folder.iterdir()) == names
    for service in names[::2]:
        assert exec_start(folder / service)[:3] == [sys.executable, "-IS", "-c"]
    cli.run("uninstall")
    assert not folder.exists()


def test_units_are_not_for_an_installation_in_a_folder_of_its_own(cli: Cli) -> None:
    written = cli.json("install")["files"]

    assert {Path(file["path"]).parent for file in written} == {cli.bin_dir}


@pytest.mark.needs("systemd")
def test_installed_units_pass_systemd_analyze(cli: Cli, tmp_path: Path) -> None:
    cli.run("install", "--units", "--agent", "--manifests /etc/nodes", "--unit-dir", str(tmp_path / "units"))

    agent = tmp_path / "units" / "cni-harness-agent.service"
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted((tmp_path / "units").glob("*.socket")), agent],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "cni-harness" not in run.stderr
    assert run.returncode == 0, run.stderr


def test_odd_folders_survive_the_unit(cli: Cli, tmp_path: Path) -> None:
    tree = tmp_path / """a %h $HOME "quoted" it's"""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    cli.environment["PYTHONPATH"] = str(tree)
    cli.run("install", "--units", "--unit-dir", str(tmp_path / "units"))

    service = exec_start(tmp_path / "units" / "cni-harness.service")
    run = subprocess.run([*service, "--help"], capture_output=True, text=True, env={}, cwd="/", check=True)

    assert str(tree) in service[-1].replace("\\'", "'")
    assert "--idle-exit" in run.stdout
    service = exec_start(tmp_path / "units" / "cni-harness-dhcp.service")
    run = subprocess.run([*service, "--help"], capture_output=True, text=True, env={}, cwd="/", check=True)
    assert "-socketpath" in run.stdout


def test_the_agents_unit_has_its_options_and_is_taken_back_alone(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    options = "--manifests '/etc/my nodes' --cluster-cidr 10.244.0.0/16"

    cli.run("install", "--no-units", "--agent", options, "--unit-dir", str(folder))

    service = exec_start(folder / "cni-harness-agent.service")
    assert service[-5:] == ["agent", "--manifests", "/etc/my nodes", "--cluster-cidr", "10.244.0.0/16"]
    run = subprocess.run([*service, "--help"], capture_output=True, text=True, env={}, cwd="/", check=True)
    assert "--cluster-cidr" in run.stdout
    assert (folder / "cni-harness.conf").read_text() == "201 cni-harness\n"
    cli.run("uninstall")
    assert not folder.exists()


WRONG_OPTIONS = {
    "--manifests nodes": "wanted an absolute path, not nodes",
    "down": "wanted options with which it runs",
    "--once": "wanted options with which it runs",
    "--dry-run": "wanted options with which it runs",
    "--help": "wanted options with which it runs",
    "--backend ipip": "'ipip' is not one of 'auto', 'host-gw', 'vxlan'",
    "--manifests '": "No closing quotation",
}


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_bad_options_of_the_agent_are_refused(cli: Cli, tmp_path: Path, options: str) -> None:
    ran = cli.run("install", "--agent", options, "--unit-dir", str(tmp_path / "units"), check=False)

    assert ran.returncode == 2
    assert WRONG_OPTIONS[options] in ran.stderr
    assert not cli.bin_dir.exists()


def test_the_agent_is_enabled_started_anew_after_a_change_and_disabled(
    told: Path, unit_dir: Path, tmp_path: Path
) -> None:
    files = units.agent_files(unit_dir, tmp_path / "protocols", ["--once"])
    install(files, tmp_path / "state")

    enable_agent(changed=True)
    with disabled(installed(tmp_path / "state", list(files))):
        uninstall(tmp_path / "state", list(files))

    assert told.read_text().splitlines() == [
        "daemon-reload",
        "enable --now cni-harness-agent.service",
        "restart cni-harness-agent.service",
        "disable --now cni-harness-agent.service",
        "daemon-reload",
    ]
    assert sorted(path.name for path in unit_dir.iterdir()) == ["cni-harness.service", "cni-harness.socket"]
    assert not (tmp_path / "protocols").exists()


def test_uninstall_of_the_agent_ends_it_and_keeps_all_else(
    told: Path, unit_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "PROTOCOLS", tmp_path / "protocols")
    install(units.agent_files(unit_dir, tmp_path / "protocols", ["--once"]), tmp_path / "state")

    cli_group.main(["--state-dir", str(tmp_path / "state"), "uninstall", "--agent"], standalone_mode=False)

    assert sorted(path.name for path in unit_dir.iterdir()) == ["cni-harness.service", "cni-harness.socket"]
    assert not (tmp_path / "protocols").exists()
    assert told.read_text().splitlines() == ["disable --now cni-harness-agent.service", "daemon-reload"]


def test_enable_starts_the_socket_unit(told: Path) -> None:
    enable(changed=False)

    assert told.read_text().splitlines() == [
        "daemon-reload",
        "reset-failed cni-harness.socket cni-harness.service",
        "enable --now cni-harness.socket",
    ]


def test_enable_after_a_change_stops_the_running_server(told: Path) -> None:
    enable(changed=True)

    assert told.read_text().splitlines()[-1] == "stop cni-harness.service"


def test_dhcp_daemon_of_the_installation_before_is_started_anew(told: Path, unit_dir: Path, tmp_path: Path) -> None:
    install(units.units(unit_dir) | units.dhcp_units(unit_dir), tmp_path / "state")

    enable(changed=True)

    assert told.read_text().splitlines()[-2:] == [
        "enable --now cni-harness-dhcp.socket",
        "try-restart cni-harness-dhcp.service",
    ]
    told.write_text("")
    with disabled(installed(tmp_path / "state")):
        uninstall(tmp_path / "state")
    names = "cni-harness.socket cni-harness.service cni-harness-dhcp.socket cni-harness-dhcp.service"
    assert told.read_text().splitlines() == [f"disable --now {names}", "daemon-reload"]


def test_units_are_disabled_before_removal_and_reloaded_after(told: Path) -> None:
    with disabled([units.UNIT_DIR / "cni-harness.socket"]):
        assert told.read_text().splitlines() == ["disable --now cni-harness.socket cni-harness.service"]

    assert told.read_text().splitlines()[1:] == ["daemon-reload"]


@pytest.mark.usefixtures("told")
def test_folders_of_sockets_are_removed_with_the_units_if_they_are_empty(tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "others.sock").touch()

    with disabled([units.UNIT_DIR / "cni-harness.socket"]):
        assert (tmp_path / "sockets").exists()

    assert not (tmp_path / "sockets").exists()
    assert (tmp_path / "shared" / "others.sock").exists()


@pytest.mark.parametrize(
    ("removed", "commands"),
    [
        (["cni-harness.socket"], ["stop cni-harness.socket", "disable --now cni-harness.service"]),
        (["cni-harness.service"], ["stop cni-harness.service", "disable --now cni-harness.socket"]),
        (
            ["cni-harness.socket", "cni-harness.service"],
            ["stop cni-harness.socket", "stop cni-harness.service"],
        ),
    ],
)
def test_uninstall_succeeds_with_already_removed_units(
    told: Path, unit_dir: Path, tmp_path: Path, removed: list[str], commands: list[str]
) -> None:
    for name in removed:
        (unit_dir / name).unlink()

    with disabled(installed(tmp_path / "state")):
        uninstall(tmp_path / "state")

    assert told.read_text().splitlines() == [*commands, "daemon-reload"]
    assert not unit_dir.exists()


def test_refusal_of_systemd_keeps_the_units(told: Path, unit_dir: Path, tmp_path: Path) -> None:
    (told.parent / "path" / "systemctl.fails").touch()

    with (
        pytest.raises(CommandError, match=r"systemctl disable --now .* does not exist"),
        disabled(installed(tmp_path / "state")),
    ):
        uninstall(tmp_path / "state")

    assert len(list(unit_dir.iterdir())) == 2


def test_systemd_has_nothing_to_do_with_units_elsewhere(told: Path) -> None:
    with disabled([Path("/elsewhere/cni-harness.socket")]):
        pass

    assert told.read_text() == ""


def test_refusal_of_systemd_is_in_the_error(told: Path) -> None:
    (told.parent / "path" / "systemctl.fails").touch()

    with pytest.raises(CommandError, match=r"systemctl daemon-reload: Unit no-such\.socket does not exist"):
        enable(changed=False)


def test_no_systemctl_is_said(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(told.parent))

    with pytest.raises(CommandError, match="systemctl: No such file"):
        enable(changed=False)
