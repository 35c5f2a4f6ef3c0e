"""Distributions of others with plugins, and the project as seen from an environment that has them."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli import ROOT
from tests.nodes import HANG, until

ROOMS = (
    "agent",
    "api",
    "cni_harness_pytest",
    "conf",
    "firewall",
    "harness",
    "ipam",
    "kube",
    "launch",
    "fast_stdlib",
    "netlink",
    "plugins",
    "skel",
)
"""The packages of the wheel."""

WITHOUT_REGISTRY = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""Variables by which pip takes installed packages. The second one's 0 means no isolation."""

_PLUGIN = """
import os

from skel import Args, Config, Plugin, Result


def add(args: Args[Config]) -> Result:
    args.log(f"RELEASE runs in {os.getpid()}")
    return Result()


def delete(args: Args[Config]) -> None:
    pass


PLUGIN = Plugin("NAME", config=Config, add=add, delete=delete, version="RELEASE")
"""


class Environment:
    """A folder of packages that PYTHONPATH names, and a bin dir."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.bin_dir = folder / "bin"
        self.site.mkdir(parents=True)
        self.python = sys.executable

    def distribution(
        self, name: str, plugins: Mapping[str, str], files: Mapping[str, str], version: str = "1.0"
    ) -> None:
        """Put a distribution there, with the modules in `files`, as an installer does."""
        metadata = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        points = "".join(f"{plugin} = {target}\n" for plugin, target in plugins.items())
        (metadata / "entry_points.txt").write_text(f"[cni_harness.plugins]\n{points}")
        for file, text in files.items():
            path = self.site / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def plugin(self, distribution: str, name: str, module: str, release: str = "1.2.3") -> None:
        """Put a distribution there with one plugin that tells its release and its process."""
        self.distribution(distribution, {name: f"{module}:PLUGIN"}, {f"{module}.py": plugin_module(name, release)})

    def run(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `cni-harness` to its end."""
        run = subprocess.run(
            [self.python, "-m", "harness.cli.main", *args],
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert not check or run.returncode == 0, run.stdout + run.stderr
        return run

    def environment(self) -> dict[str, str]:
        """The variables of every command."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{ROOT}:{self.site}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CNI_HARNESS_STATE_DIR": str(self.folder / "state"),
            "CNI_PATH": str(self.bin_dir),
        }

    def evaluate(self, program: str, *, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run a program of Python there."""
        command = [self.python, "-c", program]
        run = subprocess.run(command, env=self.environment(), cwd="/", capture_output=True, check=False)
        assert not check or run.returncode == 0, run.stderr
        return run

    def install(self, socket: str = "") -> None:
        """Write the launchers as `install` does; they ask the server at `socket`, or none."""
        program = f"""
import sys
from pathlib import Path
from launch.installation import plugin_names
from launch.launcher import launcher_bytes
folder = Path({str(self.bin_dir)!r})
folder.mkdir(exist_ok=True)
for name in plugin_names():
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_bytes(launcher_bytes(socket={socket!r}))
    (folder / name).chmod(0o755)
"""
        self.evaluate(program)

    def execute(self, name: str, verb: str, config: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
        """Execute a plugin with the bare environment of a runtime; its process ID comes first in `args`."""
        variables = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "c1",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": "/run/netns/of-no-meaning",
            "CNI_PATH": str(self.bin_dir),
        }
        with subprocess.Popen(
            [self.bin_dir / name],
            env=variables,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            stdout, stderr = process.communicate(json.dumps(config), HANG)
        return subprocess.CompletedProcess([str(process.pid)], process.returncode, stdout, stderr)

    @contextmanager
    def serving(self) -> Iterator[Path]:
        """Run `cni-harness serve` for the block, asked by the launchers; yield the file that has its log."""
        socket, log = self.folder / "server.sock", self.folder / "server.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [self.python, "-m", "harness.cli.main", "serve", "--socket", str(socket)],
                env=self.environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )
        try:
            until(lambda: "listening at" in log.read_text() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            self.install(os.fspath(socket))
            yield log
        finally:
            process.terminate()
            process.wait(HANG)


def virtual_environment(folder: Path) -> Path:
    """Make a virtual environment that has the packages of the one of the tests, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [site] = folder.glob("lib/python3*/site-packages")
    (site / "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    python = folder / "bin" / "python"
    script = python.with_name("cni-harness")
    script.write_text(f"#!{python}\nfrom harness.cli.main import main\nmain()\n")
    script.chmod(0o755)
    return python


def project_copy(folder: Path) -> Path:
    """Copy the sources of the wheel into a new folder, and return it."""
    folder.mkdir()
    for name in ("pyproject.toml", "LICENSE", "README.md", "setup.py"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__", "_launcher"))
    return folder


def built_wheel(tree: Path, folder: Path, **env: str) -> Path:
    """Build the wheel of a copy of the project into `folder`, and return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, tree], env={**os.environ, **env}, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def plugin_module(name: str, release: str) -> str:
    """Return the source of a plugin that tells its release and its process."""
    return _PLUGIN.replace("NAME", name).replace("RELEASE", release)
