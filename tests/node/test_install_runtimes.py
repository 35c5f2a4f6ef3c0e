"""`install` and `doctor` on a machine with container runtimes, and files of Debian packages in their folders."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launch import PLUGINS
from tests.cli import REFERENCE_BIN_DIR, ROOT, Cli
from tests.nodes import Node
from tests.pages import prints_as_shown, transcripts

pytestmark = pytest.mark.sudo

PACKAGE = "containernetworking-plugins"
DEBIANS = Path("/usr/lib/cni")
DEBIAN_TOML = """version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
"""
OURS = "this cni-harness"


def in_both() -> list[str]:
    """The plugins that the package has, too."""
    return [name for name in sorted(PLUGINS) if (DEBIANS / name).exists()]


class Machine:
    """A node whose folders of programs, configuration and packages may be changed."""

    def __init__(self, node: Node, memory: Path) -> None:
        self.node = node
        memory.mkdir()
        # A mount on a shared folder would appear everywhere.
        node.run(["mount", "--make-rprivate", "/"])
        # Layers in memory, since a folder of a container's overlay could not lie over another.
        node.run(["mount", "-t", "tmpfs", "tmpfs", memory])
        for folder in ("/etc", "/opt", "/usr", "/var/lib/dpkg"):
            own = memory / folder.strip("/").replace("/", "-")
            node.run(["mkdir", "-p", own / "upper", own / "work"])
            layers = f"lowerdir={folder},upperdir={own}/upper,workdir={own}/work"
            node.run(["mount", "-t", "overlay", "overlay", "-o", layers, folder])
        for hidden in (
            "/etc/cni",
            "/opt/cni",
            "/etc/containerd",
            "/etc/crio",
            "/etc/containers",
            "/usr/share/containers",
        ):
            node.run(["rm", "-rf", hidden])
        node.run(["sh", "-c", "rm -f /usr/*bin/containerd /usr/*bin/crio /usr/*bin/podman"])

    def write(self, path: str, text: str, mode: str = "0644") -> None:
        self.node.run(["install", "-D", "-m", mode, "/dev/stdin", path], stdin=text)

    def harness(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run our command line."""
        return self.node.run(
            [sys.executable, "-m", "harness.cli.main", *args], env={"PYTHONPATH": str(ROOT)}, check=check
        )

    def doctor(self, name: str) -> dict[str, Any]:
        """What doctor says of one runtime."""
        document = json.loads(self.harness("doctor", "-o", "json", check=False).stdout)
        [runtime] = [each for each in document["runtimes"] if each["name"] == name]
        found: dict[str, Any] = runtime
        return found

    def origins(self, runtime: str) -> dict[str, str]:
        """Whose file each plugin is that a runtime executes."""
        return {plugin["type"]: plugin["origin"] for plugin in self.doctor(runtime)["plugins"]}

    def digest(self, path: Path) -> str:
        return self.node.run(["sha256sum", path]).stdout.split()[0]

    def unpack(self, package: Path) -> None:
        """Install a package's file with dpkg."""
        quietly = ["--no-triggers", "--log=/dev/null", "--force-confold"]
        self.node.run(["dpkg", *quietly, "--install", package], env={"DEBIAN_FRONTEND": "noninteractive"})


@pytest.fixture
def machine(node: Node, tmp_path: Path) -> Iterator[Machine]:
    real = [Path(folder) for folder in ("/opt/cni/bin", "/etc/cni/net.d", "/usr/lib/cni", "/var/lib/dpkg/diversions")]
    before = [read(path) for path in real]
    yield Machine(node, tmp_path / "memory")
    assert [read(path) for path in real] == before, "a test has changed the machine that it runs on"


def read(path: Path) -> object:
    """The content of a file or a folder; None if it is missing."""
    if path.is_dir():
        return sorted((each.name, each.stat().st_mtime_ns) for each in path.iterdir())
    return path.read_bytes() if path.exists() else None


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The plugins' package, of the next version: its bridge is another one."""
    tree = tmp_path / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    said = subprocess.run(["dpkg-query", "--status", PACKAGE], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(": ", 1) for line in said.splitlines() if not line.startswith(" ") and ": " in line)
    wanted = {key: fields[key] for key in ("Package", "Architecture", "Maintainer")}
    control = {**wanted, "Version": f"{fields['Version']}+next", "Description": "plugins"}
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
    folder = tree / str(DEBIANS).lstrip("/")
    folder.mkdir(parents=True)
    for name in ("host-local", "loopback", "portmap"):
        shutil.copy2(DEBIANS / name, folder)
    (folder / "bridge").write_text("#!/bin/sh\necho the next version\n")
    (folder / "bridge").chmod(0o755)
    path = tmp_path / "next.deb"
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, path], check=True, capture_output=True)
    return path


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_files_that_containerd_does_not_execute_are_said_with_the_ways_out(machine: Machine) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)

    run = machine.harness("install", "--bin-dir", "/opt/cni/bin", "--conf-dir", "/etc/cni/net.d", "--conf")

    [line] = [line for line in run.stderr.splitlines() if line.startswith("containerd")]
    assert f"will not execute {', '.join(sorted(PLUGINS))} from /opt/cni/bin" in line
    assert f"it will execute /usr/lib/cni/{{{','.join(in_both())}}}" in line
    assert f"of the package {PACKAGE} (/etc/containerd/config.toml)" in line
    assert "`cni-harness install --bin-dir /usr/lib/cni --divert`" in line
    assert (
        'bin_dir = "/opt/cni/bin" in [plugins."io.containerd.grpc.v1.cri".cni] of /etc/containerd/config.toml' in line
    )
    assert machine.origins("containerd") == dict.fromkeys(["bridge", "host-local", "loopback"], PACKAGE)

    machine.write("/etc/containerd/config.toml", DEBIAN_TOML.replace("/usr/lib/cni", "/opt/cni/bin"))

    again = machine.harness("install", "--bin-dir", "/opt/cni/bin")
    assert f"containerd will execute /opt/cni/bin/{{{','.join(sorted(PLUGINS))}}}" in again.stderr
    assert machine.origins("containerd") == dict.fromkeys(["bridge", "host-local", "loopback"], OURS)


def test_podman_finds_debians_plugins_first(machine: Machine) -> None:
    machine.write("/usr/bin/podman", "#!/bin/sh\n", "0755")

    run = machine.harness("install", "-o", "json")

    [line] = [line for line in run.stderr.splitlines() if line.startswith("podman")]
    assert f"will not execute {', '.join(in_both())} from /opt/cni/bin" in line
    assert 'cni_plugin_dirs = ["/opt/cni/bin", "/usr/local/libexec/cni", ' in line
    [podman] = json.loads(run.stdout)["runtimes"]
    assert podman["executes"]["bridge"] == "/usr/lib/cni/bridge"
    assert podman["executes"]["noop"] == "/opt/cni/bin/noop"
    assert machine.doctor("podman")["network"] == "podman"


def test_a_packages_files_are_kept_and_the_error_names_both_options(machine: Machine) -> None:
    failed = machine.harness("install", "--bin-dir", str(DEBIANS), check=False)

    assert failed.returncode == 1
    assert f"/usr/lib/cni/bridge (of the package {PACKAGE})" in failed.stderr
    assert "--force" in failed.stderr
    assert "--divert" in failed.stderr


@pytest.mark.mostly_slow(2, "each kind of execution; one is in make test")
@pytest.mark.parametrize("forced_before", [False, True])
def test_diverted_plugins_survive_the_next_version_of_the_package_and_uninstall_restores_that(
    machine: Machine, package: Path, *, forced_before: bool
) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)
    machine.harness("install", "--conf", "--conf-dir", "/etc/cni/net.d", "--bin-dir", "/opt/cni/bin")
    if forced_before:
        machine.harness("install", "--bin-dir", str(DEBIANS), "--force")

    machine.harness("install", "--bin-dir", str(DEBIANS), "--divert")

    ours = {name: machine.digest(DEBIANS / name) for name in PLUGINS}
    assert machine.origins("containerd") == dict.fromkeys(["bridge", "host-local", "loopback"], OURS)

    machine.unpack(package)

    assert {name: machine.digest(DEBIANS / name) for name in PLUGINS} == ours
    assert machine.origins("containerd") == dict.fromkeys(["bridge", "host-local", "loopback"], OURS)
    machine.harness("install", "--bin-dir", str(DEBIANS))  # as after an upgrade of ours

    done = machine.harness("uninstall", "--bin-dir", str(DEBIANS), "-o", "json")

    assert sorted(json.loads(done.stdout)["restored"]) == [
        f"{DEBIANS}/{n}" for n in ("bridge", "host-local", "loopback", "portmap")
    ]
    assert machine.node.run([DEBIANS / "bridge"]).stdout == "the next version\n"
    assert machine.node.run(["dpkg-divert", "--list", f"{DEBIANS}/*"]).stdout == ""
    names = machine.node.run(["ls", "-A", DEBIANS]).stdout.split()
    assert sorted(names) == ["bridge", "host-local", "loopback", "portmap"]
    assert machine.origins("containerd") == dict.fromkeys(["bridge", "host-local", "loopback"], PACKAGE)
    machine.unpack(package)
    assert machine.node.run(["ls", "-A", DEBIANS]).stdout.split() == names


def test_a_diversion_that_fails_leaves_the_packages_files_as_they_were(machine: Machine) -> None:
    before = {name: machine.digest(DEBIANS / name) for name in ("bridge", "host-local", "loopback")}
    names = machine.node.run(["ls", "-A", DEBIANS]).stdout
    real = machine.node.run(["sh", "-c", "command -v dpkg-divert"]).stdout.strip()
    machine.node.run(["mv", real, "/usr/bin/kept-dpkg-divert"])
    machine.write(real, "#!/bin/sh\necho no such luck >&2\nexit 2\n", "0755")

    failed = machine.harness("install", "--bin-dir", str(DEBIANS), "--divert", check=False)

    assert failed.returncode == 1
    assert "no such luck" in failed.stderr.splitlines()[-1]
    assert {name: machine.digest(DEBIANS / name) for name in before} == before
    machine.node.run(["mv", "/usr/bin/kept-dpkg-divert", real])
    machine.harness("uninstall")
    assert machine.node.run(["ls", "-A", DEBIANS]).stdout == names
    assert {name: machine.digest(DEBIANS / name) for name in before} == before


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_package_may_be_removed_while_its_files_are_diverted(machine: Machine) -> None:
    machine.harness("install", "--bin-dir", str(DEBIANS), "--divert")
    machine.node.run(["dpkg", "--no-triggers", "--log=/dev/null", "--force-depends", "--remove", PACKAGE])
    assert machine.node.run(["ls", "-A", DEBIANS]).stdout.split() == sorted(PLUGINS)

    machine.harness("uninstall")

    assert machine.node.run(["ls", "-A", DEBIANS], check=False).stdout == ""
    assert machine.node.run(["dpkg-divert", "--list", f"{DEBIANS}/*"]).stdout == ""


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_doctor_names_the_first_list_and_its_problems(machine: Machine) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)
    plugins = [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}, {"type": "absent"}]
    network = {"cniVersion": "1.1.0", "name": "mine", "plugins": plugins}
    machine.write("/etc/cni/net.d/05-mine.conflist", json.dumps(network))
    machine.write("/etc/cni/net.d/10-other.conflist", json.dumps(network | {"name": "other"}))

    shown = machine.harness("doctor", check=False)

    assert shown.returncode == 1
    assert "/etc/cni/net.d/05-mine.conflist (network mine)" in shown.stdout
    problems = machine.doctor("containerd")["problems"]
    assert 'no plugin "absent" in /usr/lib/cni' in problems
    assert [line for line in problems if "portmap" in line and "1.1.0" in line]


def test_doctor_tells_whether_the_running_server_listens(machine: Machine) -> None:
    machine.node.run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    document = json.loads(machine.harness("doctor", "-o", "json").stdout)
    assert document["server"] == {"socket": "/run/cni-harness/server.sock", "listening": False}

    with machine.node.background(
        ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "harness.cli.main", "serve"]
    ) as server:
        assert server.stdout is not None
        while "listening at" not in (line := server.stdout.readline()):
            assert line, "the server has ended"

        document = json.loads(machine.harness("doctor", "-o", "json").stdout)

    assert document["server"]["listening"] is True


@pytest.mark.parametrize("with_systemd", [False, True])
def test_install_without_systemd_tells_of_serve(machine: Machine, *, with_systemd: bool) -> None:
    machine.node.run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    if with_systemd:
        machine.node.run(["mkdir", "-p", "/run/systemd/system"])

    said = machine.harness("install", "--bin-dir", "/usr/lib/mine").stderr

    assert ("`cni-harness serve`" in said) != with_systemd


def test_install_warns_of_a_list_with_a_plugin_without_1_1_0(machine: Machine) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)
    plugins = [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "old"}]
    network = {"cniVersions": ["1.0.0", "1.1.0"], "name": "mine", "plugins": plugins}
    machine.write("/etc/cni/net.d/05-mine.conflist", json.dumps(network))

    machine.write(
        str(DEBIANS / "old"), '#!/bin/sh\necho \'{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}\'\n', "0755"
    )

    said = machine.harness("install", "--bin-dir", str(DEBIANS), "--divert").stderr

    [warning] = [line for line in said.splitlines() if line.startswith("Warning: ")]
    assert "/etc/cni/net.d/05-mine.conflist: plugins[1].type: plugin old does not speak version 1.1.0" in warning


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_commands_of_the_page_work_as_printed(machine: Machine) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)
    machine.harness("install", "--conf", "--conf-dir", "/etc/cni/net.d", "--bin-dir", "/opt/cni/bin")
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/node.md").read_text(), re.DOTALL)
    typed = [line.split() for block in blocks for line in block.splitlines()]

    assert [command[:2] for command in typed] == [
        ["cni-harness", "doctor"],
        ["cni-harness", "install"],
        ["cni-harness", "uninstall"],
    ]
    for _, verb, *args in typed:
        machine.harness(verb, *args, check=verb != "doctor")  # Debian's plugins do not speak 1.1.0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_switching_a_node_prints_the_output_of_its_page(machine: Machine, tmp_path: Path) -> None:
    machine.write("/etc/containerd/config.toml", DEBIAN_TOML)
    bridge = {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True}
    bridge["ipam"] = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    machine.write(
        "/etc/cni/net.d/10-mynet.conflist", json.dumps({"cniVersion": "1.0.0", "name": "mynet", "plugins": plugins})
    )
    machine.write("/usr/bin/cni-harness", f'#!/bin/sh\nexec {sys.executable} -m harness.cli.main "$@"\n', "0755")
    # The page shows a CHECK after the way back together with the other CHECKs.
    blocks = [block for block in transcripts("docs/switching-a-node.md") if "crio" not in block]
    [early] = [block for block in blocks if "# cni-harness check canary2" in block]
    blocks.remove(early)
    blocks.insert(next(i for i, block in enumerate(blocks) if "uninstall --bin-dir" in block) + 1, early)

    for block in blocks:
        for command, *lines in (part.splitlines() for part in re.split(r"^# ", block, flags=re.MULTILINE)[1:]):
            # The page waits for a minute.
            typed = "true" if command == "sleep 61" else command.replace("/tmp/", f"{tmp_path}/")
            if "401912e4283a/eth0 ok" in re.sub(" +", " ", lines[-1] if lines else ""):
                typed += " --min-age 0"
            ran = machine.node.run(
                ["sh", "-c", f"exec 2>&1; {typed}"],
                env={"PYTHONPATH": str(ROOT), "CNI_PATH": str(DEBIANS)},
                check=False,
            )
            if lines:
                assert prints_as_shown(lines, ran.stdout), f"{command}\n{ran.stdout}"

    assert machine.node.run(["nft", "list", "tables"]).stdout.split("\n")[:-1] == ["table ip nat", "table ip6 nat"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_pages_list_with_debians_portmap_serves_a_pod(own_cli: Cli) -> None:
    [text] = re.findall(r"<!-- used by a test -->\n```json\n(.*?)```", (ROOT / "docs/node.md").read_text(), re.DOTALL)
    own_cli.configure(json.loads(text))
    own_cli.environment["CNI_PATH"] = f"{own_cli.bin_dir}:{REFERENCE_BIN_DIR}"

    own_cli.run("validate")
    [pod] = own_cli.add("pod1", "--cap", 'portMappings=[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]')

    assert own_cli.addresses(pod["netns"], "eth0") == {"10.90.0.2/16"}
    own_cli.run("status")
    own_cli.run("del", "pod1")
    assert own_cli.reservations("with-portmap") == set()
