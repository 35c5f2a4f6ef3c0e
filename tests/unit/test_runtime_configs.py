"""What runtimes' configuration files say of the folders of CNI."""

from pathlib import Path

import pytest

from harness.install.runtime_configs import runtime_configs
from harness.install.toml_files import RuntimeCniConfig

CONTAINERD = "etc/containerd/config.toml"
DEBIAN = """
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
"""
PODMAN_DIRS = ["/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/usr/lib/cni", "/opt/cni/bin"]


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def program(root: Path, name: str, says: str = "") -> None:
    write(root, f"usr/bin/{name}", f"#!/bin/sh\necho '{says}'\n")
    (root / "usr/bin" / name).chmod(0o755)


def only(root: Path) -> RuntimeCniConfig:
    [config] = runtime_configs(root)
    return config


def bin_dirs(config: RuntimeCniConfig) -> list[str]:
    return [str(path) for path in config.bin_dirs]


def test_without_runtimes_there_is_nothing(tmp_path: Path) -> None:
    write(tmp_path, "usr/share/containers/containers.conf", "[network]\n")

    assert runtime_configs(tmp_path) == []


@pytest.mark.parametrize("name", ["containerd", "crio", "podman"])
def test_the_defaults(tmp_path: Path, name: str) -> None:
    program(tmp_path, name)

    config = only(tmp_path)

    assert (config.name, config.files, config.problem, config.unused) == (name, (), "", "")
    assert bin_dirs(config) == (PODMAN_DIRS if name == "podman" else ["/opt/cni/bin"])
    assert str(config.conf_dir) == "/etc/cni/net.d"


def test_containerd_as_debian_configures_it(tmp_path: Path) -> None:
    write(tmp_path, CONTAINERD, DEBIAN)

    config = only(tmp_path)

    assert bin_dirs(config) == ["/usr/lib/cni"]
    assert [str(path) for path in config.files] == ["/etc/containerd/config.toml"]
    assert config.setting_for(Path("/opt/cni/bin")) == (
        'bin_dir = "/opt/cni/bin" in [plugins."io.containerd.grpc.v1.cri".cni] of /etc/containerd/config.toml'
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("bin_dirs = ['/a', '/b']\nbin_dir = ''", ["/a", "/b"]),
        ("bin_dir = '/a'", ["/a"]),
        ("bin_dir = '/a'\nbin_dirs = ['/opt/cni/bin']", ["/a"]),
        ("bin_dirs = []", ["/opt/cni/bin"]),
    ],
)
def test_containerd_with_a_configuration_of_version_3(tmp_path: Path, keys: str, expected: list[str]) -> None:
    section = "plugins.'io.containerd.cri.v1.runtime'.cni"
    old = "[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = '/ignored'"
    write(tmp_path, CONTAINERD, f"version = 3\n[{section}]\nconf_dir = '/c'\n{keys}\n{old}\n")

    config = only(tmp_path)

    assert bin_dirs(config) == expected
    assert str(config.conf_dir) == "/c"
    assert 'bin_dirs = ["/x", "' in config.setting_for(Path("/x"))


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", "/opt/cni/bin"),
        ("containerd github.com/containerd/containerd/v2 v2.3.4 0123456789", "/usr/lib/cni"),
    ],
)
def test_an_import_replaces_the_section_in_containerd_1_and_is_merged_in_containerd_2(
    tmp_path: Path, says: str, expected: str
) -> None:
    program(tmp_path, "containerd", says)
    write(tmp_path, CONTAINERD, 'imports = ["conf.d/*.toml", "/etc/containerd/last.toml"]' + DEBIAN)
    section = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"'
    write(tmp_path, "etc/containerd/conf.d/10-a.toml", f"{section}.cni]\nconf_dir = '/a'\n")
    write(tmp_path, "etc/containerd/last.toml", f"{section}.cni]\nconf_dir = '/last'\n")

    config = only(tmp_path)

    assert bin_dirs(config) == [expected]
    assert str(config.conf_dir) == "/last"
    assert [path.name for path in config.files] == ["config.toml", "10-a.toml", "last.toml"]


def test_containerd_2_imports_drop_ins_without_a_configuration_file(tmp_path: Path) -> None:
    program(tmp_path, "containerd", "containerd github.com/containerd/containerd/v2 v2.2.0 0123456789")
    text = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/drop-in']\n"
    write(tmp_path, "etc/containerd/conf.d/cni.toml", text)

    assert bin_dirs(only(tmp_path)) == ["/drop-in"]


def test_containerd_with_disabled_cri_plugin_is_unused(tmp_path: Path) -> None:
    write(tmp_path, CONTAINERD, 'disabled_plugins = ["cri"]\n')

    assert "disabled_plugins" in only(tmp_path).unused


def test_crio_takes_drop_ins_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "etc/crio/crio.conf", "[crio.network]\nplugin_dirs = ['/first/']\nnetwork_dir = '/lists/'\n")
    write(tmp_path, "etc/crio/crio.conf.d/20-b.conf", "[crio.network]\nplugin_dirs = ['/b', '/c']\nplugin_dir = '/d'\n")
    write(tmp_path, "etc/crio/crio.conf.d/10-a.conf", "[crio.network]\nplugin_dirs = ['/a']\n")
    write(tmp_path, "etc/crio/crio.conf.d/30-other.conf", "[crio.network]\ncni_default_network = 'mine'\n")

    config = only(tmp_path)

    assert bin_dirs(config) == ["/b", "/c", "/d"]
    assert (str(config.conf_dir), config.network) == ("/lists", "mine")


def test_podman_takes_the_last_of_its_files(tmp_path: Path) -> None:
    program(tmp_path, "podman")
    write(tmp_path, "usr/share/containers/containers.conf", "[network]\ncni_plugin_dirs = ['/vendor']\n")
    write(tmp_path, "etc/containers/containers.conf", "[network]\nnetwork_config_dir = '/lists/'\n")
    assert bin_dirs(only(tmp_path)) == ["/vendor"]

    write(tmp_path, "etc/containers/containers.conf.d/1.conf", "[network]\ncni_plugin_dirs = ['/a', {append = true}]\n")
    write(tmp_path, "etc/containers/containers.conf.d/2.conf", "[network]\ndefault_network = 'n'\n")

    config = only(tmp_path)

    assert bin_dirs(config) == ["/vendor", "/a"]
    assert (str(config.conf_dir), config.network) == ("/lists", "n")


@pytest.mark.parametrize("by_file", [True, False])
def test_podman_with_netavark_does_not_use_cni(tmp_path: Path, *, by_file: bool) -> None:
    program(tmp_path, "podman")
    if by_file:
        write(tmp_path, "etc/containers/containers.conf", "[network]\nnetwork_backend = 'netavark'\n")
    else:
        write(tmp_path, "var/lib/containers/storage/defaultNetworkBackend", "netavark")

    assert "netavark" in only(tmp_path).unused


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (CONTAINERD, "version = ", ["config.toml", "not TOML"]),
        (CONTAINERD, 'version = 2\n[plugins]\n"io.containerd.grpc.v1.cri" = 7\n', ["config.toml", "cri", "table", "7"]),
        (CONTAINERD, DEBIAN.replace('"/usr/lib/cni"', "7"), ["config.toml", "bin_dir", "7"]),
        (CONTAINERD, 'imports = ["/missing.toml"]\n', ["/missing.toml"]),
        ("etc/crio/crio.conf", "[crio.network]\nplugin_dirs = '/a'\n", ["crio.conf", "plugin_dirs", '"/a"']),
        (
            "etc/containers/containers.conf",
            "[network]\ncni_plugin_dirs = [7]\n",
            ["containers.conf", "cni_plugin_dirs"],
        ),
    ],
)
def test_a_configuration_that_cannot_be_read_is_a_problem_with_its_file(
    tmp_path: Path, name: str, text: str, words: list[str]
) -> None:
    write(tmp_path, name, text)

    problem = only(tmp_path).problem

    assert [word for word in words if word not in problem] == []
