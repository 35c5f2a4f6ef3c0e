"""Plugins that do not work end the run with exit code 1, without any option."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.conformance.subject import Profile
from tests.cli import Cli, bridge_network
from tests.conformance.subjects import FAULTY, Faulty, install

pytestmark = pytest.mark.sudo

SOUND = 'exec "${0%/*}/sound/${0##*/}"\n'
DEL_OF_NOTHING = f'#!/bin/sh\n[ "$CNI_COMMAND" = DEL ] && exit 0\n{SOUND}'
CHECK_OF_NOTHING = f'#!/bin/sh\n[ "$CNI_COMMAND" = CHECK ] && exit 0\n{SOUND}'


@pytest.mark.mostly_slow(3, "each plugin; a part is in make test")
@pytest.mark.parametrize(
    ("plugin", "checks", "failed"),
    [
        (DEL_OF_NOTHING, "del-undoes-*", "del-undoes-add"),
        (CHECK_OF_NOTHING, "check-interface-*", "check-everything-missing"),
        ("error-in-words", "error-*", "error-object"),
        ("name-of-its-own", "add-makes-interface", "add-makes-interface"),
        ("one-mac-for-all", "add-own-mac", "add-own-mac"),
        ("keeps-the-first-address", "add-half-*", "add-half-exhausted-leaves-nothing"),
    ],
    ids=lambda value: value.partition("\n")[0],
)
def test_a_plugin_that_does_not_work_ends_with_1(
    make_cli: Callable[[Path], Cli], sound_bin_dir: Path, tmp_path: Path, plugin: str, checks: str, failed: str
) -> None:
    path = FAULTY / plugin
    if plugin.startswith("#!"):
        path = tmp_path / "plugin"
        path.write_text(plugin)
        path.chmod(0o755)
    name = Faulty.read(path).plugin if path.parent == FAULTY else "bridge"
    bin_dir = install(Faulty(path, "", (), Profile.INTERFACE, name), sound_bin_dir, tmp_path / "bin")
    cli = make_cli(bin_dir)
    cli.configure(bridge_network("net", version="1.1.0"))

    run = cli.run("conformance", "--plugin", name, "--check", checks, "-o", "json", check=False)

    document = json.loads(run.stdout)
    assert failed in {each["id"] for each in document["checks"] if each["outcome"] == "fail"}
    assert document["verdict"].startswith("fail: CNI 1.1.0 works: fail; ")
    assert run.returncode == 1
