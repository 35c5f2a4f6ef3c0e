"""Builds the compiled launcher, launch/launcher.c, if there is a C compiler; all else is in pyproject.toml.

Without one, or if it fails, only speed is lost: launch.launcher is the same launcher in Python.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

SOURCES = ["launch/launcher.c", "launch/handoff.c"]
HEADERS = ["launch/handoff.h"]
FREESTANDING = "launch/freestanding.c"
TARGET = "launch/_launcher"
OPTIMISED = ["-std=c11", "-O2", "-Wall", "-Wextra"]
# A C library takes longer before main than the launcher for its own work. So the best way is without one, then one
# without a linker at each start, then any.
WAYS = [
    [
        "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns",
        "-fno-asynchronous-unwind-tables", "-U_FORTIFY_SOURCE", "-s", *SOURCES, FREESTANDING,
    ],
    ["-static", "-s", *SOURCES],
    ["-s", *SOURCES],
]  # fmt: skip
MACHINES = {62: "x86_64", 183: "aarch64"}
"""Names of machines by their number in an ELF header."""
# A static executable runs with glibc and with musl. These are the earliest names that package indexes accept.
STATIC_SYSTEMS = dict.fromkeys(MACHINES.values(), ("manylinux2014", "musllinux_1_1"))


class build_launcher(Command):  # noqa: N801 -- commands are named as they are called
    """Compile the launcher; for an editable installation beside its source."""

    description = "compile the launcher of the plugins"
    user_options = [("build-lib=", None, "folder of what is built")]  # noqa: RUF012 -- setuptools declares it so
    editable_mode = False
    is_static = False
    """Whether the launcher that was built needs no C library of the machine that it runs on."""

    def initialize_options(self) -> None:
        """Take the folder from `build`."""
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        """Take the folder from `build`."""
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Try each way of building it, the fastest launcher first."""
        target = self.target()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        compiler = next(filter(None, map(compiler_command, (os.environ.get("CC", ""), "cc", "gcc", "clang"))), None)
        if compiler is None:
            sys.stderr.write("no C compiler: the plugins get the slower launcher, in Python\n")
            return
        flags = shlex.split(os.environ.get("CFLAGS", ""))
        errors = ""
        for way in WAYS:
            command = [*compiler, *OPTIMISED, *flags, *way, "-o", str(target)]
            ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 -- the compiler of whoever builds
            if ran.returncode == 0:
                target.chmod(0o755)
                self.is_static = "-static" in way
                return
            errors = ran.stderr
        sys.stderr.write(f"{errors}the plugins get the slower launcher, in Python\n")

    def target(self) -> Path:
        """Return the path of the launcher."""
        return Path(TARGET) if self.editable_mode or self.build_lib is None else Path(self.build_lib, TARGET)

    def get_source_files(self) -> list[str]:
        """Return the files of a source distribution."""
        return [*SOURCES, *HEADERS, FREESTANDING]

    def get_outputs(self) -> list[str]:
        """Return the files that were made."""
        return [str(self.target())] if self.target().exists() else []

    def get_output_mapping(self) -> dict[str, str]:
        """Return where each file that was made comes from; no copy of a source is among them."""
        return {}


class platform_wheel(bdist_wheel):  # noqa: N801 -- as above
    """A wheel for any Python, and for this kind of machine only where the compiled launcher is in it."""

    def run(self) -> None:
        """Compile first: what comes of it makes the wheel's name."""
        self.run_command("build")
        self.root_is_pure = not self.get_finalized_command("build_launcher").get_outputs()
        # Asked for the folder that a wheel's packages belong in.
        self.distribution.has_ext_modules = lambda: not self.root_is_pure
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Return the parts of the name."""
        if self.root_is_pure:
            return super().get_tag()
        launcher = self.get_finalized_command("build_launcher")
        machine = machine_of(launcher.target()) or platform.machine()
        systems = STATIC_SYSTEMS.get(machine, ()) if launcher.is_static else ()
        return "py3", "none", ".".join(f"{system}_{machine}" for system in systems or ("linux",))


def machine_of(executable: Path) -> str | None:
    """Return the kind of machine that an ELF file is for, None for one that is not in `MACHINES`.

    The file says it, and not the machine that builds: `CC` may name a compiler for another one.
    """
    with executable.open("rb") as file:
        header = file.read(20)
    return MACHINES.get(int.from_bytes(header[18:], "little"))  # e_machine of elf(5)


def compiler_command(command: str) -> list[str] | None:
    """Return the words of a command that is there."""
    words = shlex.split(command)
    return words if words and shutil.which(words[0]) else None


build.sub_commands.append(("build_launcher", None))
setup(cmdclass={"bdist_wheel": platform_wheel, "build_launcher": build_launcher})
