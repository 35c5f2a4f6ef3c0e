"""Starting points of a newcomer, CI and a virtual machine: make, .ci/run, the Vagrantfile, the wheel and lint."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli import ROOT, VERSION
from tests.distributions import ROOMS, built_wheel, project_copy
from tests.markers import REASONS

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A Python whose venv holds programs that only note how they were called.
PYTHON = """#!/bin/bash
echo "python $*" >> "$LOG"
if [ "$1 $2" = "-m venv" ]; then
    rm -rf "${!#}"; mkdir -p "${!#}/bin"
    for program in python cni-harness ruff mypy lint-imports; do
        cat > "${!#}/bin/$program" <<END
#!/bin/bash
echo "$program \\$*" >> "\\$LOG"
readlink /proc/self/ns/net > "\\$LOG.\\$2"
[ "\\$FAILING" != $program ]
END
        chmod +x "${!#}/bin/$program"
    done
fi
"""


class Checkout:
    """A copy of make's files, with a log of the commands that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.log = folder / "log"
        self.python = folder / "python3"
        self.folder.mkdir()
        for name in ("Makefile", "pyproject.toml", "setup.py"):
            shutil.copy(ROOT / name, self.folder)
        self.launcher = self.folder / "launch" / "launcher.c"
        self.launcher.parent.mkdir()
        shutil.copy(ROOT / "launch" / "launcher.c", self.launcher)
        shutil.copytree(ROOT / "tools", self.folder / "tools")
        executable(self.python, PYTHON)

    def make(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        self.log.unlink(missing_ok=True)
        env = {"PATH": SYSTEM_PATH, "LOG": str(self.log), "PYTHON": str(self.python)} | env
        command = ["make", "--no-print-directory", "-C", str(self.folder), *args]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


VENV = ["python -c import ensurepip", "python -m venv --clear .venv"]
INSTALL = ["python -m pip install --quiet --editable ."]


def test_up_makes_the_environment_and_the_first_pod_and_the_second_time_only_the_pod(checkout: Checkout) -> None:
    assert checkout.make("up").returncode == 0
    assert checkout.calls() == [*VENV, *INSTALL, "cni-harness add --exist-ok --network cni-harness pod1"]

    assert checkout.make("up", "POD=pod2", "NETWORK=mine").returncode == 0
    assert checkout.calls() == ["cni-harness add --exist-ok --network mine pod2"]


def test_a_changed_project_is_installed_again_and_a_moved_one_anew(checkout: Checkout) -> None:
    checkout.make("up")
    for source in (checkout.folder / "pyproject.toml", checkout.launcher):
        with source.open("a") as text:
            text.write("# changed\n")

        checkout.make("down")
        assert checkout.calls() == [*INSTALL, "cni-harness del --all --prune"]

    checkout.folder = checkout.folder.rename(checkout.folder.with_name("moved"))
    checkout.make("down")
    assert checkout.calls() == [*VENV, *INSTALL, "cni-harness del --all --prune"]


def test_the_path_of_the_checkout_may_have_spaces_and_quotes(checkout: Checkout, tmp_path: Path) -> None:
    checkout.folder = checkout.folder.rename(tmp_path / 'it\'s "a place"')

    assert checkout.make("test").returncode == 0
    assert checkout.make("up").returncode == 0
    assert checkout.calls() == ["cni-harness add --exist-ok --network cni-harness pod1"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_compiler_installed_by_make_counts_for_the_stamp(checkout: Checkout, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in {"cc", "gcc"}:
            (programs / program.name).symlink_to(program)
    executable(checkout.folder / "tools" / "need.sh", f"#!/bin/bash\nln -sf /usr/bin/gcc {programs}/cc\n")

    assert checkout.make("test", PATH=str(programs)).returncode == 0
    assert [call for call in checkout.calls() if "pip" in call] == [
        "python -m pip install --quiet --editable .[test,lint]"
    ]

    # As tests do, without a network.
    assert checkout.make("venv").returncode == 0
    assert checkout.calls() == []


def test_another_python_under_the_same_name_gets_an_environment_of_its_own(checkout: Checkout, tmp_path: Path) -> None:
    for name in ("python3.11", "python3.13"):
        executable(tmp_path / name, PYTHON)
    checkout.python.unlink()
    checkout.python.symlink_to("python3.11")
    checkout.make("venv")
    checkout.python.unlink()
    checkout.python.symlink_to("python3.13")

    checkout.make("venv")
    assert checkout.calls() == [*VENV, *INSTALL]


def test_one_python_under_two_names_is_one(checkout: Checkout) -> None:
    checkout.make("venv")

    assert checkout.make("venv", "PYTHON=python3", PATH=f"{checkout.python.parent}:{SYSTEM_PATH}").returncode == 0
    assert checkout.calls() == []


def test_an_installation_that_fails_is_not_taken_for_done(checkout: Checkout) -> None:
    assert checkout.make("up", FAILING="python").returncode != 0
    assert "cni-harness add --exist-ok --network cni-harness pod1" not in checkout.calls()

    assert checkout.make("up").returncode == 0
    assert checkout.calls() == [*INSTALL, "cni-harness add --exist-ok --network cni-harness pod1"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_test_lints_before_it_runs_pytest(checkout: Checkout) -> None:
    run = checkout.make("test", "JOBS=3", "PYTEST_ARGS=-k bridge")

    assert run.returncode == 0, run.stderr
    assert checkout.calls() == [
        *VENV,
        "python -m pip install --quiet --editable .[test,lint]",
        "ruff check",
        "ruff format --check",
        "mypy ",
        "lint-imports --no-cache",
        "python -m pytest -n 3 --dist worksteal --junitxml build/junit.xml -m not needs and not slow -k bridge",
    ]
    # The installation for tests includes the one to run.
    checkout.make("up")
    assert checkout.calls() == ["cni-harness add --exist-ok --network cni-harness pod1"]


@pytest.mark.mostly_slow(3, "each part of make test; one is in make test")
@pytest.mark.parametrize("program", ["ruff", "mypy", "lint-imports", "python"])
def test_test_fails_when_one_of_its_parts_fails(checkout: Checkout, program: str) -> None:
    checkout.make("lint")

    assert checkout.make("test", FAILING=program).returncode != 0
    assert [call for call in checkout.calls() if "pytest" in call] == checkout.calls()[-1:] * (program == "python")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.sudo
def test_tests_run_outside_the_network_namespace_of_the_machine(checkout: Checkout) -> None:
    checkout.make("test")

    namespaces = {program: (checkout.log.with_name(f"log.{program}")).read_text() for program in ("pytest", "pip")}
    assert namespaces["pip"] == f"{Path('/proc/self/ns/net').readlink()}\n"
    assert namespaces["pytest"] != namespaces["pip"]


def test_make_install_writes_plugins_and_a_list_into_the_default_folders(checkout: Checkout) -> None:
    checkout.make("install")

    assert checkout.calls()[-1] == "cni-harness install --bin-dir /opt/cni/bin --conf-dir /etc/cni/net.d --conf"


def test_help_names_every_target_for_people(checkout: Checkout) -> None:
    targets = {line.split()[1] for line in checkout.make("help").stdout.splitlines()}

    tests = {
        "test",
        "test-rest",
        "test-all",
        "test-runtimes",
        "test-vm",
        "test-kubernetes",
        "test-pythons",
        "release-check",
    }
    pages = {"docs", "man", "pictures"}
    others = {"lint", "bench", "matrix", "reports", "soak", "scale", "stubs", "install", "venv", "clean"}
    packages = {"wheels", "zipapp", "deb", "image", "release"}
    assert targets == {"help", "up", "down"} | tests | pages | others | packages


# A make that only tells its folder, and makes the files of the next commands.
MAKE = """#!/bin/bash
[ "$1" != -C ] || { cd "$2"; shift 2; }
echo "make $*: $(stat -c %a "$PWD" "${PWD%/*}" | tr '\\n' ' ')$(cat /proc/sys/net/ipv4/ip_forward)" $(ls /etc/cni/net.d)
case $1 in
    test-venv)
        mkdir -p .venv/bin
        cp "$0" .venv/bin/cni-harness
        readlink /proc/self/ns/net >"$LOG.test-venv"
        pwd >"$LOG.place"
        ;;
    test)
        mkdir build
        echo "$JUNIT" | tee build/junit.xml >build/junit-rest.xml
        readlink /proc/self/ns/net >"$LOG.test"
        ;;
    test-rest) ;;
    test-kubernetes) echo "assets $KUBEBUILDER_ASSETS" ;;
    test-*) echo "$PWD" ;;
esac
[ "$1" != "$FAILING" ]
"""
OUTSIDE = ("make test-venv", "make test-runtimes", "make test-vm", "make test-kubernetes")
README = ["test-venv", "up", "del", "down", "up", "test"]
ON_A_CONTAINER_HOST = "755 700 1 87-podman-bridge.conflist"


@pytest.mark.mostly_slow(4, "each step of CI; a part is in make test")
@pytest.mark.sudo
@pytest.mark.parametrize(
    ("failing", "junit", "ran"),
    [
        ("none", "<testsuite/>", [*README, "test-rest", "test-runtimes", "test-vm", "test-kubernetes"]),
        (
            "none",
            '<skipped message="no VLANs in this kernel"/>',
            [*README, "test-rest", "test-runtimes", "test-vm", "test-kubernetes"],
        ),
        ("none", '<skipped message="no time"/>', [*README, "test-rest"]),
        ("test-venv", "", ["test-venv"]),
        ("up", "", ["test-venv", "up"]),
        ("test", "<testsuite/>", README),
        ("test-rest", "<testsuite/>", [*README, "test-rest"]),
        ("test-runtimes", "<testsuite/>", [*README, "test-rest", "test-runtimes"]),
        ("test-kubernetes", "<testsuite/>", [*README, "test-rest", "test-runtimes", "test-vm", "test-kubernetes"]),
    ],
)
def test_ci_runs_all_on_a_container_host_up_to_the_first_that_fail(
    tmp_path: Path, failing: str, junit: str, ran: list[str]
) -> None:
    copy, programs, log = tmp_path / "copy", tmp_path / "programs", tmp_path / "log"
    for folder in (".ci", "tools"):
        shutil.copytree(ROOT / folder, copy / folder)
    programs.mkdir()
    executable(programs / "make", MAKE)
    executable(programs / "xz", "#!/bin/sh\n")
    [control_plane] = {
        copy / path for path in re.findall(r"[\w./]+/control-plane\b", (copy / ".ci" / "run").read_text())
    }
    control_plane.resolve().parent.mkdir(parents=True)
    executable(control_plane.resolve(), "#!/bin/sh\necho /programs/$1\n")
    outside = Path("/proc/self/ns/net").readlink(), Path("/proc/sys/net/ipv4/ip_forward").read_text()
    etc = sorted(Path("/etc").iterdir())

    run = subprocess.run(
        [copy / ".ci" / "run"],
        cwd=tmp_path,
        env={"PATH": f"{programs}:{SYSTEM_PATH}", "FAILING": failing, "JUNIT": junit, "LOG": str(log)},
        capture_output=True,
        text=True,
        check=False,
    )

    calls = [line.split(": ") for line in run.stdout.splitlines() if line.startswith("make ")]
    assert [call.split()[1] for call, _ in calls] == ran, run.stderr
    assert (run.returncode == 0) == (failing == "none" and ran[-1] == "test-kubernetes")
    assert ("assets /programs/bin" in run.stdout.splitlines()) == (ran[-1] == "test-kubernetes")
    assert {place for call, place in calls if not call.startswith(OUTSIDE)} <= {ON_A_CONTAINER_HOST}
    assert [line for line in run.stdout.splitlines() if line.startswith("/")] in ([], [str(copy)], [str(copy)] * 2)
    assert log.with_suffix(".test-venv").read_text() == f"{outside[0]}\n"
    if "test" in ran:
        assert log.with_suffix(".test").read_text() != f"{outside[0]}\n"
        assert (copy / "build" / "junit.xml").read_text() == f"{junit}\n"
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == outside[1]
    assert sorted(Path("/etc").iterdir()) == etc
    assert not Path(log.with_suffix(".place").read_text().strip()).exists()


# In a test of what is installed, each call is only noted.
NEED = """#!/bin/bash
echo "$*" >"$LOG"
"""
UNWANTED = {"chromium", "firewalld", "kea-dhcp4-server", "kea-dhcp6-server", "rsync", "skopeo", "systemd", "vagrant"}


def packages(checkout: Checkout, target: str) -> tuple[list[str], set[str]]:
    """Return the options of tools/need.sh, and the packages, of one of make's targets."""
    executable(checkout.folder / "tools" / "need.sh", NEED)
    assert checkout.make(target).returncode == 0
    words = " ".join(checkout.calls()).split()
    return [word for word in words if "=" not in word], {word.partition("=")[2] for word in words if "=" in word}


def test_make_test_installs_no_service_browser_or_virtual_machine(checkout: Checkout) -> None:
    options, installed = packages(checkout, "test-needs")
    rest_options, unpacked = packages(checkout, "rest-needs")

    assert (options, rest_options) == ([], ["--into", "build/rest"])
    assert installed & (UNWANTED | unpacked) == set()
    assert unpacked >= UNWANTED
    # By other names in tests/markers.py: Kea's two, and the bus of firewalld.
    assert {name for name in unpacked if not name.startswith(("dbus", "kea"))} | {"kea"} == set(REASONS)


def test_readme_names_the_packages_of_make_test(checkout: Checkout) -> None:
    _, installed = packages(checkout, "test-needs")

    (told,) = re.findall(r"\d+ MiB:\s(.*?)\. `make test-all`", (ROOT / "README.md").read_text(), re.DOTALL)
    names = set(re.split(r",\s+", told))
    assert {name.removeprefix("iputils-") for name in installed} - {"python3"} == names - {"python3-venv"}


WAIT = "--option=DPkg::Lock::Timeout=300"


class TestNeed:
    """`tools/need.sh`, on a machine whose PATH is one folder."""

    @pytest.fixture(autouse=True)
    def machine(self, tmp_path: Path) -> None:
        self.path = tmp_path
        for name in ("bash", "env", "id"):
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")

    def has_apt(self, code: int = 0) -> None:
        executable(
            self.path / "apt-get",
            f'#!/bin/bash\necho "$DEBIAN_FRONTEND: $*" >> {self.path}/log\nexit {code}\n',
        )

    def need(self, *needs: str, prefix: tuple[str, ...] = ()) -> tuple[int, str, list[str]]:
        run = subprocess.run(
            [*prefix, ROOT / "tools" / "need.sh", *needs],
            env={"PATH": str(self.path), "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        log = self.path / "log"
        return run.returncode, run.stderr, log.read_text().splitlines() if log.exists() else []

    def test_asks_for_nothing_when_all_is_there(self) -> None:
        self.has_apt()

        assert self.need("bash=bash", "/usr/bin/env=coreutils", "module:json=python3") == (0, "", [])

    @pytest.mark.sudo
    def test_only_missing_packages_are_installed(self) -> None:
        self.has_apt()

        code, _, calls = self.need("bash=bash", "no-such=one", "/no/such=two", "module:no_such=three")

        assert code == 0
        assert calls == [
            f"noninteractive: update {WAIT} --quiet=2",
            f"noninteractive: install {WAIT} --quiet=2 --yes --no-install-recommends one two three",
        ]

    @pytest.mark.sudo
    def test_fails_when_apt_fails(self) -> None:
        self.has_apt(code=100)

        assert self.need("no-such=one") == (100, "", [f"noninteractive: update {WAIT} --quiet=2"])

    @pytest.mark.sudo
    def test_missing_packages_are_unpacked_into_a_folder(self, tmp_path: Path) -> None:
        for name in ("cat", "cp", "dpkg-deb", "ln", "mkdir", "mv", "realpath", "rm", "tar"):
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
        folder = tmp_path / "checkout" / "rest"
        package = _package(tmp_path)
        executable(
            tmp_path / "apt-get",
            f"""#!/bin/bash
echo "$1" >>{tmp_path}/log
for word; do
    case $word in *archives=*) cp {package} "${{word##*archives=}}" ;; esac
done
""",
        )

        assert self.need("--into", str(folder), "bash=bash", "no-such=one") == (0, "", ["update", "install"])
        assert (folder / "usr" / "bin" / "no-such").exists()  # from /bin of the package
        assert [path.name for path in folder.parent.iterdir()] == ["rest"]
        # The same again is there; other packages replace them.
        assert self.need("--into", str(folder), "bash=bash", "no-such=one")[2] == ["update", "install"]
        assert self.need("--into", str(folder), "no-such=one", "nor=two") == (0, "", ["update", "install"] * 2)

    def test_missing_packages_are_named_without_apt(self) -> None:
        code, message, _ = self.need("no-such=one", "neither=two")

        assert (code, message) == (1, "missing here: one two (as root on Debian: apt-get install one two)\n")

    @pytest.mark.sudo
    def test_missing_packages_are_named_without_root(self) -> None:
        self.has_apt()
        # The right to search folders stays, wherever this tree is.
        somebody = ("/usr/bin/setpriv", "--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")

        code, message, calls = self.need("no-such=one", prefix=somebody)

        assert (code, message, calls) == (1, "missing here: one (as root on Debian: apt-get install one)\n", [])


def _package(folder: Path) -> Path:
    """Make a package with an executable in /bin, and a script that fails."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "bin").mkdir()
    (tree / "bin" / "no-such").touch()
    (tree / "DEBIAN" / "control").write_text(
        "Package: one\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: one\n"
    )
    executable(tree / "DEBIAN" / "postinst", "#!/bin/sh\nexit 1\n")
    subprocess.run(["/usr/bin/dpkg-deb", "--build", tree, folder / "one.deb"], check=True, capture_output=True)
    return folder / "one.deb"


@pytest.mark.needs("vagrant")
def test_vagrant_accepts_the_vagrantfile(tmp_path: Path) -> None:
    env = {
        "PATH": SYSTEM_PATH,
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_CWD": str(ROOT),
        "VAGRANT_DOTFILE_PATH": str(tmp_path / "dotfile"),
        "VAGRANT_HOME": str(tmp_path / "home"),
    }

    run = subprocess.run(
        ["vagrant", "validate", "--ignore-provider"], env=env, capture_output=True, text=True, check=False
    )

    assert (run.returncode, "validated successfully" in run.stdout) == (0, True), run.stdout + run.stderr


def test_a_machine_is_provisioned_by_the_same_commands(tmp_path: Path) -> None:
    executable(tmp_path / "make", '#!/bin/sh\necho "$PWD: make $*"\n')
    [provisioner] = [line for line in (ROOT / "Vagrantfile").read_text().splitlines() if "vm.provision" in line]

    run = subprocess.run(
        [ROOT / "tools" / "provision.sh"],
        env={"PATH": f"{tmp_path}:{SYSTEM_PATH}", "COMMAND_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert '"/opt/cni-harness/tools/provision.sh"' in provisioner
    assert run.stdout == f"{ROOT}: make install\n{ROOT}: make up\n"
    assert (tmp_path / "cni-harness").readlink() == ROOT / ".venv" / "bin" / "cni-harness"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project that may be spoilt."""
    return project_copy(tmp_path / "tree")


def wheel_of(tree: Path, folder: Path, **env: str) -> tuple[str, zipfile.ZipFile]:
    """Build the wheel, and return the end of its name, which says what it runs on, and the wheel."""
    wheel = built_wheel(tree, folder, **env)
    return wheel.name.removeprefix(f"cni_harness-{VERSION}-"), zipfile.ZipFile(wheel)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_wheel_holds_the_rooms_and_the_lists_and_the_launcher_and_nothing_else(tree: Path, tmp_path: Path) -> None:
    name, wheel = wheel_of(tree, tmp_path)

    names = {name for name in wheel.namelist() if ".dist-info/" not in name and not name.endswith("/py.typed")}
    modules = [path for room in ROOMS for kind in ("*.py", "*.pyi") for path in (ROOT / room).rglob(kind)]
    written = {str(path.relative_to(ROOT)) for path in modules}
    written |= {f"conf/{path.name}" for path in (ROOT / "conf").glob("*.conflist")}
    written |= {f"conf/schemas/{path.name}" for path in (ROOT / "conf" / "schemas").glob("*.json")}
    written |= {str(path.relative_to(ROOT)) for path in (ROOT / "harness").rglob("*.yaml")}
    written |= {str(path.relative_to(ROOT)) for room in ("conf", "harness") for path in (ROOT / room).rglob("*.in")}
    written |= {str(path.relative_to(ROOT)) for path in (ROOT / "harness").rglob("*.schema.json")}
    written |= {str(path.relative_to(ROOT)) for path in (ROOT / "harness").rglob("check_ids.txt")}
    written |= {str(path.relative_to(ROOT)) for path in (ROOT / "harness").rglob("templates/*")}
    assert names == written | {"launch/_launcher"}
    assert "skel/py.typed" in wheel.namelist()
    machine = os.uname().machine
    assert name == f"py3-none-manylinux2014_{machine}.musllinux_1_1_{machine}.whl"
    assert wheel.getinfo("launch/_launcher").external_attr >> 16 == 0o100755
    assert runs(wheel, tmp_path)


def runs(wheel: zipfile.ZipFile, folder: Path) -> bool:
    launcher = Path(wheel.extract("launch/_launcher", folder))
    launcher.chmod(0o755)
    ran = subprocess.run([launcher], capture_output=True, text=True, check=False)
    return "`cni-harness install` makes plugins of this" in ran.stderr


@pytest.mark.slow("further wheels; one is in make test")
def test_the_wheel_with_a_launcher_that_needs_a_c_library_promises_none(tree: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "dynamic-cc"
    executable(compiler, '#!/bin/sh\ncase " $* " in *" -static "*) exit 1 ;; esac\nexec cc "$@"\n')

    name, wheel = wheel_of(tree, tmp_path, CC=str(compiler))

    assert name == f"py3-none-linux_{os.uname().machine}.whl"
    assert runs(wheel, tmp_path)


@pytest.mark.slow("further wheels; one is in make test")
@pytest.mark.parametrize("compiler", ["", "#!/bin/sh\nexit 1\n"], ids=["absent", "broken"])
def test_the_wheel_made_without_a_compiler_runs_anywhere(tree: Path, tmp_path: Path, compiler: str) -> None:
    folder = tmp_path / "path"
    folder.mkdir()
    if compiler:
        executable(folder / "cc", compiler)

    name, wheel = wheel_of(tree, tmp_path, PATH=str(folder), CC="")

    assert name == "py3-none-any.whl"
    assert "launch/_launcher" not in wheel.namelist()


@pytest.mark.slow("further wheels; one is in make test")
@pytest.mark.parametrize("missing", ["-nostdlib", "-static"])
def test_wheel_has_a_launcher_if_nostdlib_or_static_linking_fails(tree: Path, tmp_path: Path, missing: str) -> None:
    cc = tmp_path / "cc"
    executable(cc, f'#!/bin/sh\ncase " $* " in *" {missing} "*) exit 1 ;; esac\nexec cc "$@"\n')

    _, wheel = wheel_of(tree, tmp_path, CC=str(cc))

    assert runs(wheel, tmp_path)


@pytest.mark.slow("it builds a distribution; the wheel is in make test")
def test_the_source_distribution_can_be_compiled(tree: Path, tmp_path: Path) -> None:
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=tree, stdout=subprocess.PIPE, check=True)

    [source] = tmp_path.glob("*.tar.gz")
    _, wheel = wheel_of(source, tmp_path)

    assert runs(wheel, tmp_path)


@pytest.mark.slow("it installs the project, as make up does")
def test_an_editable_installation_has_its_launcher_beside_the_source(tree: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]

    subprocess.run([*command, "--ignore-installed", "--prefix", tmp_path / "prefix", "--editable", tree], check=True)

    assert os.access(tree / "launch" / "_launcher", os.X_OK)
    assert not (tree / "build").exists()


VIOLATIONS = {
    "skel stands on the standard library alone": ("skel", "import netlink"),
    "api has Kubernetes' types and imports nothing of the project": ("api", "import skel"),
    "agent uses kube, netlink, firewall and skel": ("agent", "import plugins"),
    "kube is a client of the Kubernetes API and knows api alone": ("kube", "import skel"),
    "fast_stdlib takes the place of the standard library and imports nothing else": ("fast_stdlib", "import skel"),
    "a plugin's own process does without the server": ("launch/launcher.py", "import launch.server.protocol"),
    "netlink knows the kernel and nothing of CNI": ("netlink", "import skel"),
    "only netlink imports pyroute2": ("plugins", "import pyroute2"),
    "only the connection to firewalld imports jeepney": ("firewall/admission.py", "import jeepney"),
    "only the pages of explain and of a conformance run import Jinja2": ("harness/views/call_tree.py", "import jinja2"),
    "only the client of a runtime imports what its extra installs": ("harness/cri/service.py", "import grpc"),
    "entering a namespace and reading a sysctl do not pay for pyroute2": ("netlink/sysctl.py", "import pyroute2"),
    "firewall uses netlink and skel": ("firewall", "import plugins"),
    "ipam uses skel, netlink and netaddr": ("ipam", "import plugins"),
    "plugins use firewall, netlink and skel": ("plugins", "import ipam"),
    "plugins leave address arithmetic to ipam and netlink": ("plugins", "import netaddr"),
    "harness executes plugins, it never imports them": ("harness", "import plugins"),
    "the packages of harness stand in layers": ("harness/libcni", "import harness.cli.main"),
    "the conformance suite stands in layers": ("harness/conformance/engine", "import harness.conformance.checks"),
    "the pytest plugins import nothing that an author's folder could hide": ("cni_harness_pytest", "import skel"),
    "network lists are files": ("conf", "import skel"),
    "launch starts plugins and knows nothing of the harness": ("launch", "import harness"),
}


def test_every_import_direction_is_enforced(tree: Path) -> None:
    for place, line in VIOLATIONS.values():
        module = tree / place if place.endswith(".py") else tree / place / "stray.py"
        with module.open("a") as text:
            text.write(f"\n{line}\n")

    lint_imports = Path(sys.executable).with_name("lint-imports")
    env = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"}
    run = subprocess.run([lint_imports, "--no-cache"], cwd=tree, env=env, capture_output=True, text=True, check=False)

    verdicts = dict(re.findall(r"^(.*) (KEPT|BROKEN)(?: \(\d+ ignored imports?\))?$", run.stdout, re.MULTILINE))
    assert run.returncode == 1
    assert verdicts == dict.fromkeys(VIOLATIONS, "BROKEN")
