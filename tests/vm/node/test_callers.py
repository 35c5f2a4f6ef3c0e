"""Runtimes as systemd itself starts them, and the server as it starts that."""

import json
from pathlib import Path

import pytest

from tests.runtime_units import UNITS, Unit
from tests.servers import served_only
from tests.vm.node.installation import BIN_DIR, Installation

NAME = "cni-harness-test-caller.service"


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_units_of_runtimes_are_served(provisioned: Installation, tmp_path: Path, unit: Unit) -> None:
    launcher, output, file = tmp_path / "noop", tmp_path / "output", Path("/run/systemd/system", NAME)
    launcher.write_bytes(served_only((BIN_DIR / "noop").read_bytes()))
    launcher.chmod(0o755)
    settings = [f"{name}={value}" for name, value in unit.settings().items()]
    service = [
        "[Service]",
        "Type=oneshot",
        *settings,
        "Environment=CNI_COMMAND=VERSION",
        f"ExecStart={launcher}",
        f"StandardOutput=file:{output}",
    ]
    file.write_text("\n".join([*service, ""]))
    try:
        provisioned.run("systemctl", "daemon-reload")
        provisioned.run("systemctl", "start", NAME)
    finally:
        file.unlink()

    assert "1.1.0" in json.loads(output.read_text())["supportedVersions"]
