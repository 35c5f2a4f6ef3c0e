"""Plugins that other distributions declare: found, installed, executed, and what becomes of those that are broken."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from launch import PLUGINS
from tests.cli import ROOT
from tests.distributions import Environment, plugin_module

CONFIG = {"cniVersion": "1.1.0", "name": "net", "type": "other"}
BUILD_ID = "from launch.installation import build_id; print(build_id().hex())"
STAMP = "from launch.installation import stamp; print(stamp())"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_foreign_plugin_is_installed_executed_and_listed(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")

    environment.run("install", "--no-units", "--bin-dir", str(environment.bin_dir))

    assert {path.name for path in environment.bin_dir.iterdir()} == {*PLUGINS, "other"}
    [row] = re.findall(r"^other .*", environment.run("version").stdout, re.MULTILINE)
    assert row.split()[1:4] == ["1.2.3", "some-plugins", "1.0"]
    ran = environment.execute("other", "ADD", CONFIG)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"cniVersion": "1.1.0"})
    assert ran.stderr == f"other: 1.2.3 runs in {ran.args[0]} containerID=c1\n"
    assert environment.execute("bridge", "VERSION", {}).returncode == 0
    environment.run("uninstall")
    assert not environment.bin_dir.exists()


def test_version_lists_foreign_plugins_before_installation(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    environment.bin_dir.mkdir()

    listed = environment.run("version", "--bin-dir", str(environment.bin_dir)).stdout

    assert re.search(r"^other +1\.2\.3 ", listed, re.MULTILINE)


def test_foreign_plugin_in_its_own_process_skips_discovery(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    environment.evaluate(f"""
from pathlib import Path
from launch.launcher import launcher_text
Path({str(environment.folder / "other")!r}).write_bytes(launcher_text(socket=""))
""")

    ran = subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", environment.folder / "other"],
        env={"CNI_COMMAND": "VERSION"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )

    imported = set(re.findall(r"^import time: .*\| +([\w.]+)$", ran.stderr, re.MULTILINE))
    assert "launch.plugin_list" in imported
    assert "1.1.0" in ran.stdout
    assert imported & {"importlib.metadata", "importlib.util", "email", "zipfile", "launch.distributions"} == set()


IPAM = """
import os

from skel import Args, Config, IPConfig, Plugin, Result, cidr


def add(args: Args[Config]) -> Result:
    args.log(f"runs in {os.getpid()}")
    return Result(ips=[IPConfig(address=cidr("192.0.2.9/24", ""))])


PLUGIN = Plugin("addresses", config=Config, add=add, delete=lambda args: None)
"""
DELEGATING = """
import os

from skel import Args, Config, Plugin, Result
from skel.delegate import ipam_add


def add(args: Args[Config]) -> Result:
    args.log(f"runs in {os.getpid()}")
    return ipam_add(args)


PLUGIN = Plugin("delegating", config=Config, add=add, delete=lambda args: None)
"""


def test_delegate_runs_in_the_process_of_its_caller(environment: Environment) -> None:
    environment.distribution("one", {"delegating": "one.plugin:PLUGIN"}, {"one/plugin.py": DELEGATING})
    environment.distribution(
        "two",
        {"addresses": "two:namespace.PLUGIN"},
        {"two/__init__.py": "from . import namespace", "two/namespace.py": IPAM},
    )
    environment.install()

    ran = environment.execute("delegating", "ADD", {**CONFIG, "ipam": {"type": "addresses"}})

    assert (ran.returncode, json.loads(ran.stdout)["ips"]) == (0, [{"address": "192.0.2.9/24"}])
    assert ran.stderr.count(f"runs in {ran.args[0]}") == 2


def test_a_delegate_that_is_another_file_of_that_name_is_executed(environment: Environment) -> None:
    environment.distribution("one", {"delegating": "one.plugin:PLUGIN"}, {"one/plugin.py": DELEGATING})
    environment.distribution("two", {"addresses": "two:PLUGIN"}, {"two.py": IPAM})
    environment.install()
    foreign = environment.bin_dir / "addresses"
    foreign.write_text("""#!/bin/sh\nread -r _; echo '{"ips": [{"address": "192.0.2.77/24"}]}'\n""")

    ran = environment.execute("delegating", "ADD", {**CONFIG, "ipam": {"type": "addresses"}})

    assert json.loads(ran.stdout)["ips"] == [{"address": "192.0.2.77/24"}]


@pytest.mark.mostly_slow(4, "each fault of a distribution; a part is in make test")
@pytest.mark.parametrize(
    ("target", "module", "error"),
    [
        ("some_module:PLUGIN", None, "No module named 'some_module'"),
        ("some_module:PLUGIN", "raise RuntimeError('not on this machine')", "not on this machine"),
        ("some_module:PLUGIN", "raise SystemExit('bye')", "importing the plugin ended with SystemExit: bye"),
        ("some_module:PLUGIN", "", "module 'some_module' has no attribute 'PLUGIN'"),
        ("some_module:PLUGIN", "PLUGIN = 5", "some_module:PLUGIN is no skel.Plugin but int"),
        ("some_module", "PLUGIN = 5", "no attribute ''"),
        ("some_module.PLUGIN:PLUGIN", "PLUGIN = 5", "'some_module' is not a package"),
    ],
)
def test_broken_plugin_answers_with_the_error_and_others_still_work(
    environment: Environment, target: str, module: str | None, error: str
) -> None:
    files = {} if module is None else {"some_module.py": module}
    environment.distribution("some-plugins", {"other": target}, files)
    environment.plugin("more-plugins", "sound", "sound_module")
    environment.install()

    for verb in ("VERSION", "ADD", "DEL"):
        ran = environment.execute("other", verb, CONFIG)

        assert (ran.returncode, json.loads(ran.stdout)["code"]) == (1, 999)
        assert error in json.loads(ran.stdout)["msg"]
    assert environment.execute("sound", "ADD", CONFIG).returncode == 0
    assert environment.execute("loopback", "VERSION", CONFIG).returncode == 0


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ("other", "other", 'both one and two have a plugin "other": uninstall one'),
        ("other", "bridge", 'both cni-harness and two have a plugin "bridge": uninstall one'),
        ("other", "../other", 'two declares a plugin "../other": that is no name of an executable'),
        ("other", ".other", 'two declares a plugin ".other": that is no name of an executable'),
        ("other", "7", 'two declares a plugin "7": that is no name of an executable'),
    ],
)
def test_duplicate_or_invalid_plugin_names_are_one_error(
    environment: Environment, first: str, second: str, error: str
) -> None:
    environment.plugin("one", first, "first_module")
    environment.plugin("two", second, "second_module")

    failed = environment.run("install", "--no-units", "--bin-dir", str(environment.bin_dir), check=False)

    assert (failed.returncode, failed.stderr) == (1, f"Error: {error}\n")
    assert not environment.bin_dir.exists()


def test_of_two_releases_on_the_path_the_first_counts(environment: Environment, tmp_path: Path) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    second = Environment(tmp_path / "second")
    second.plugin("Some.Plugins", "other", "some_module", release="0.0.1")
    program = f"import sys; sys.path.append({str(second.site)!r}); from launch.distributions import declared"

    found = environment.evaluate(f"{program}; [each] = declared().distributions; print(each.folder)")

    assert found.stdout.decode() == f"{environment.site}\n"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_build_id_covers_the_code_of_other_distributions(environment: Environment) -> None:
    """So that after an upgrade no launcher is answered by the code of before."""
    seen = [(environment.evaluate(BUILD_ID).stdout, environment.evaluate(STAMP).stdout)]
    package = {"other_package/__init__.py": "", "other_package/parts/plugin.py": plugin_module("other", "1.0.0")}
    environment.distribution("one", {"other": "other_package.parts.plugin:PLUGIN"}, package)
    seen.append((environment.evaluate(BUILD_ID).stdout, environment.evaluate(STAMP).stdout))
    (environment.site / "other_package/parts/plugin.py").write_text(plugin_module("other", "1.0.1"))
    seen.append((environment.evaluate(BUILD_ID).stdout, environment.evaluate(STAMP).stdout))
    (environment.site / "one-1.0.dist-info" / "RECORD").write_text("data.json,sha256=abc,3\n")
    seen.append((environment.evaluate(BUILD_ID).stdout, environment.evaluate(STAMP).stdout))

    build_ids, stamps = zip(*seen, strict=True)
    assert len(set(build_ids)) == len(build_ids)
    assert len(set(stamps)) == len(stamps)
    assert environment.evaluate(BUILD_ID).stdout == build_ids[-1]


def test_looking_for_changes_leaves_no_garbage(environment: Environment) -> None:
    """The server, which looks every second, collects none."""
    environment.plugin("some-plugins", "other", "some_module")
    program = """
import gc
from launch.distributions import declared
from launch.installation import stamp
known = declared()
assert stamp(known) == stamp(known)
gc.collect()
gc.disable()
for _ in range(10):
    stamp(known)
print(gc.collect())
"""

    assert environment.evaluate(program).stdout == b"0\n"


@pytest.mark.parametrize("change", ["a distribution comes", "it goes", "it is installed anew", "its code changes"])
def test_a_server_that_has_read_the_list_sees_changes(environment: Environment, change: str) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    environment.plugin("more-plugins", "more", "more_module")
    changes = {
        "a distribution comes": "os.rename('more_plugins-2.0.dist-info-aside', 'more_plugins-2.0.dist-info')",
        "it goes": "shutil.rmtree('some_plugins-1.0.dist-info')",
        "it is installed anew": "open('some_plugins-1.0.dist-info/RECORD', 'w').close()",
        "its code changes": "open('some_module.py', 'a').close(); os.utime('some_module.py', (1, 1))",
    }
    environment.distribution("more-plugins", {"third": "more_module:PLUGIN"}, {}, version="2.0")
    aside = environment.site / "more_plugins-2.0.dist-info"
    aside.rename(aside.with_name(f"{aside.name}-aside"))
    program = f"""
import os, shutil
from launch.distributions import declared
from launch.installation import stamp
known = declared()
before = stamp(known)
os.chdir({str(environment.site)!r})
{changes[change]}
print(stamp(known) != before)
"""

    assert environment.evaluate(program).stdout == b"True\n"


def test_doctor_names_the_launchers_that_a_new_distribution_leaves_behind(environment: Environment) -> None:
    environment.plugin("some-plugins", "other", "some_module")
    environment.run("install", "--no-units", "--bin-dir", str(environment.bin_dir))
    program = f"""
from pathlib import Path
from harness.install.doctor import outdated
from launch.distributions import declared
placed = sorted(Path({str(environment.bin_dir)!r}).iterdir())
print(*sorted(path.name for path in outdated(placed, declared().plugins)))
"""
    before = environment.evaluate(program).stdout

    environment.plugin("more-plugins", "more", "more_module")

    assert before == b"\n"
    assert environment.evaluate(program).stdout.decode().split() == sorted([*PLUGINS, "other", "more"])


def test_modules_beside_an_editable_plugin_hide_nothing(environment: Environment) -> None:
    """Its folder is the author's: whatever is in it is found last."""
    environment.plugin("one", "other", "some_module")
    for module in ("json", "skel", "re", "errno"):
        (environment.site / f"{module}.py").write_text("raise RuntimeError('hijacked')\n")
    # As an editable installation is found: by a finder that knows this module alone.
    program = f"""
import sys
sys.path[:] = [path for path in sys.path if path != {str(environment.site)!r}] + [{str(environment.site)!r}]
from pathlib import Path
from launch.launcher import launcher_bytes
launcher = Path({str(environment.folder / "other")!r})
launcher.write_bytes(launcher_bytes(socket=""))
launcher.chmod(0o755)
"""
    subprocess.run(
        [sys.executable, "-c", program], env={**environment.environment(), "PYTHONPATH": str(ROOT)}, cwd="/", check=True
    )

    ran = subprocess.run(
        [environment.folder / "other"], env={"CNI_COMMAND": "VERSION"}, input=b"", capture_output=True, check=True
    )

    assert b"1.1.0" in ran.stdout
