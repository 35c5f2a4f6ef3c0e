"""Everything that is made for one purpose is taken away, also if it cannot be made whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from netlink.namespace import remove_namespace
from tests.cli import ROOT
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

MAKE = """
import sys
from pathlib import Path
from harness.runtime.site import Site

with Site(Path(sys.argv[1]), "site") as site:
    print(site.name, flush=True)
    site.node()
"""


# There is nothing at /var/lib/cni, and nothing can be; what else is below /var/lib, the checkout maybe, is there.
UNWILLING = """
mknod "$1/cni" c 0 0
mount -t overlay -o "ro,lowerdir=$1:/var/lib" overlay /var/lib
shift
exec "$@"
"""


def test_node_that_cannot_be_entered_is_an_error_and_is_taken_away(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    unwilling = ["unshare", "--mount", "sh", "-ec", UNWILLING, "sh", str(tmp_path_factory.mktemp("whiteout"))]
    command = [*unwilling, sys.executable, "-c", MAKE, str(tmp_path)]

    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
        left = [*tmp_path.rglob("*"), *Path("/run/netns").glob(f"{run.stdout.strip()}*")]
    finally:
        for folder in tmp_path.glob("nodes/*"):
            remove_namespace(f"/run/netns/{folder.name}")

    assert run.returncode == 1
    assert "Read-only file system: '/var/lib/cni'" in run.stderr
    assert run.stdout.startswith("site-")
    assert left == []
