"""The options of `cni-harness bench`."""

import subprocess
from pathlib import Path

import pytest

from tests.cli import ROOT, Cli


@pytest.fixture
def cli(tmp_path: Path, direct_bin_dir: Path) -> Cli:
    return Cli(tmp_path / "cli", direct_bin_dir)


@pytest.mark.mostly_slow(4, "each option; a part is in make test")
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--pods", "a,b"], "Invalid value for '--pods': 'a,b': wanted numbers"),
        (["--at-once", "-1"], "Invalid value for '--at-once': '-1': wanted numbers"),
        (["--rounds", "0"], "Invalid value for '--rounds'"),
        (["--bin-dir", "a=/usr", "--bin-dir", "a=/tmp"], "--bin-dir a=/tmp: named twice"),
        (["--bin-dir", "a="], "--bin-dir a=: no folder"),
        (["--plot", "x.pdf"], "x.pdf: wanted the name of a file in .svg or .png"),
        (["--conf", "/nowhere.conflist"], "/nowhere.conflist"),
        (["--bin-dir", "/nowhere"], "--bin-dir /nowhere: no folder /nowhere"),
        (["--bin-dir", "/usr"], 'no executable "bridge" (searched: /usr)'),
    ],
)
@pytest.mark.sudo
def test_bad_bench_options_are_refused_in_one_line(cli: Cli, args: list[str], complaint: str) -> None:
    run = cli.run("bench", *args, check=False)

    assert run.returncode != 0
    assert complaint in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_make_bench_writes_pages_unless_bench_args_are_given() -> None:
    runs = [
        subprocess.run(["make", "-n", "-C", ROOT, "bench", *args], capture_output=True, text=True, check=True)
        for args in ([], ["BENCH_ARGS=--quick"])
    ]

    assert [line for run in runs for line in run.stdout.splitlines() if "tools.bench" in line] == [
        ".venv/bin/python -m tools.bench --pages",
        ".venv/bin/python -m tools.bench --quick",
    ]
