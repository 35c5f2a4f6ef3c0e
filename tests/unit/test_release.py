"""`make release`: it refuses unfit checkouts; archives and the bill of materials follow from their content alone."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.cli import ROOT, SYSTEM_PYTHON, VERSION
from tools.deb.control import write_documents
from tools.release.archives import same_bytes, tar_of, write_image
from tools.release.checkout import section
from tools.release.files import unpinned
from tools.release.sbom import contents, debian_licenses, sbom

METADATA = "Metadata-Version: 2.4\nName: Ruler\nVersion: 1.5\nLicense-Expression: MIT OR Apache-2.0\n"
COPYRIGHT = "Format: https://example.org/\n\nFiles: *\nLicense: GPL-2+ or Expat\n\nLicense: GPL-2+\n The text.\n"


# git, as far as the program asks it. It is no package that make test installs.
GIT = """#!/bin/sh
for word; do
    case $word in
    status) cat ../changed ;;
    rev-parse) echo 0123abc ;;
    show) echo 1000000000 ;;
    --output=*) tar -c -f "${word#--output=}" --exclude=./build . ;;
    esac
done
"""


class Checkout:
    """A folder with what `python -m tools.release` reads; `changed` is what git prints of files that differ."""

    def __init__(self, folder: Path, heading: str, changed: str = "") -> None:
        self.folder = folder / "checkout"
        shutil.copytree(ROOT / "tools" / "release", self.folder / "tools" / "release")
        shutil.copy(ROOT / "tools" / "__init__.py", self.folder / "tools")
        (self.folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
        (self.folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\nIt works.\n")
        (self.folder / "Makefile").write_text(
            "release-files:\n\tmkdir -p build/release\n\tenv | sort >build/release/SHA256SUMS\n"
        )
        (folder / "changed").write_text(changed)
        (folder / "git").write_text(GIT)
        (folder / "git").chmod(0o755)

    def release(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        env = {"PATH": f"{self.folder.parent}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        command = [SYSTEM_PYTHON, "-m", "tools.release"]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)

    def refusal(self, **variables: str) -> str:
        """Run the program, which ends before anything is built; return the one line that it prints."""
        ran = self.release(**variables)
        assert (ran.returncode, ran.stdout, (self.folder / "build").exists()) == (1, "", False)
        [line] = ran.stderr.splitlines()
        return line.removeprefix("no release: ")


def test_release_of_changed_files_is_refused(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, "1.2.3 - 2026-12-01", " M CHANGELOG.md\n?? new.py\n")

    assert checkout.refusal() == "files differ from the commit: CHANGELOG.md, new.py"


@pytest.mark.parametrize(
    ("heading", "tag", "message"),
    [
        ("1.2.30 - 2026-12-01", "", "CHANGELOG.md has no section for 1.2.3, the version in pyproject.toml"),
        ("1.2.3 - 2026-12-01", "v1.2.4", "the tag is v1.2.4, the version in pyproject.toml is 1.2.3"),
        ("1.2.3 - soon", "v1.2.3", 'the heading of this version in CHANGELOG.md has no date: "1.2.3 - soon"'),
    ],
)
def test_release_without_notes_or_with_another_tag_is_refused(
    tmp_path: Path, heading: str, tag: str, message: str
) -> None:
    job = {"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": tag} if tag else {}

    assert Checkout(tmp_path, heading).refusal(**job) == message


def test_release_is_built_in_a_copy_with_the_time_of_the_commit(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, "1.2.3 - 2026-12-01")
    (checkout.folder / "build" / "release").mkdir(parents=True)
    (checkout.folder / "build" / "release" / "old").touch()

    ran = checkout.release(
        GITHUB_REF_TYPE="tag", GITHUB_REF_NAME="v1.2.3", CFLAGS="-g", SOURCE_DATE_EPOCH="5", PYTHONHASHSEED="random"
    )

    assert ran.returncode == 0, ran.stderr
    printed = dict(line.partition("=")[::2] for line in ran.stdout.splitlines() if "=" in line)
    assert (printed["SOURCE_DATE_EPOCH"], printed["GIT_COMMIT"]) == ("1000000000", "0123abc")
    assert printed["PWD"] == str(checkout.folder / "build" / "release-tree")
    assert printed["PIP_CONSTRAINT"] == f"file://{printed['PWD']}/tools/release/constraints.txt"
    assert (printed["PYTHONHASHSEED"], "CFLAGS" in printed) == ("0", False)
    assert [str(path.relative_to(checkout.folder)) for path in (checkout.folder / "build").rglob("*")] == [
        "build/release",
        "build/release/SHA256SUMS",
    ]


def test_section_ends_at_the_next_version() -> None:
    changelog = "# Changelog\n\n## 1.10.0 - a\n\nNew.\n\n### Fixed\n\nOne.\n\n## 1.1.0\n\nOld.\n"

    assert section(changelog, "1.10.0") == ("1.10.0 - a", "New.\n\n### Fixed\n\nOne.")
    assert section(changelog, "1.1.0") == ("1.1.0", "Old.")
    assert section(changelog, "1.1") == ("", "")


def test_tar_has_the_same_bytes_for_the_same_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    for folder, names in (("one", ["a", "b", "c"]), ("two", ["c", "b", "a"])):
        (tmp_path / folder / "sub").mkdir(parents=True)
        for name in names:
            path = tmp_path / folder / "sub" / name
            path.write_text(name)
            os.utime(path, (1, len(folder) * ord(name)))
    os.chown(tmp_path / "two" / "sub" / "a", 1, 1) if os.geteuid() == 0 else None
    (tmp_path / "one.tar").write_bytes(tar_of(tmp_path / "one", "x/"))
    with tarfile.open(tmp_path / "two.tar.gz", "w:gz") as archive:
        for name in ("sub/b", "sub", "sub/c", "sub/a"):
            archive.add(tmp_path / "two" / name, f"x/{name}", recursive=False)

    assert tar_of(tmp_path / "two", "x/") == (tmp_path / "one.tar").read_bytes()
    assert same_bytes(tmp_path / "two.tar.gz") == (tmp_path / "one.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as written:
        assert [(member.name, member.mtime, member.uid) for member in written] == [
            (f"x/{name}", 1000000000, 0) for name in ("sub", "sub/a", "sub/b", "sub/c")
        ]


def test_debian_changelog_has_the_time_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")

    write_documents(tmp_path, "1.2.3", [])

    folder = tmp_path / "usr/share/doc/cni-harness"
    changelog = subprocess.run(
        ["zcat", folder / "changelog.Debian.gz"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert changelog.endswith("  Sun, 09 Sep 2001 01:46:40 -0000\n")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with one distribution and two Debian packages, one with the documents of the other."""
    root = tmp_path / "root"
    files = {
        "usr/lib/os-release": 'NAME="Debian"\nVERSION_ID="12"\n',
        "usr/lib/cni-harness/ruler-1.5.dist-info/METADATA": METADATA,
        "usr/lib/cni-harness/cni_harness-1.2.3.dist-info/METADATA": "Name: cni-harness\nVersion: 1.2.3\n",
        "usr/share/doc/first/copyright": COPYRIGHT,
        "usr/share/doc/third/copyright": "Free for all.\n",
        "var/lib/dpkg/status.d/first": "Package: first\nVersion: 1:2-3\nArchitecture: amd64\n",
        "var/lib/dpkg/status.d/second": "Package: second\nVersion: 4\nArchitecture: all\n",
        "var/lib/dpkg/status.d/third": "Package: third\nVersion: 5\nArchitecture: all\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/share/doc/second").symlink_to("first")
    path = tmp_path / "cni-harness-image-1.2.3.tar"
    write_image(path, "example.test/image:1", tar_of(root), {"config": {}}, "amd64")
    return path


@pytest.fixture
def zipapp(tmp_path: Path) -> Path:
    path = tmp_path / "cni-harness.pyz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("site/ruler-1.5.dist-info/METADATA", METADATA)
        archive.writestr("site/level-2.dist-info/METADATA", "Name: level\nVersion: 2\nLicense: MIT License\n")
    return path


def test_sbom_is_valid_and_has_the_packages_of_each_file(image: Path, zipapp: Path) -> None:
    text = sbom("1.2.3", [image, zipapp])

    document = json.loads(text)
    assert (document["specVersion"], document["metadata"]["component"]["purl"]) == (
        "1.6",
        "pkg:pypi/cni-harness@1.2.3",
    )
    files = {each["name"]: each["components"] for each in document["components"]}
    assert {name: {part["purl"]: part["licenses"] for part in parts} for name, parts in files.items()} == {
        image.name: {
            "pkg:pypi/ruler@1.5": [{"expression": "MIT OR Apache-2.0"}],
            "pkg:deb/debian/first@1:2-3?arch=amd64&distro=debian-12": [
                {"license": {"id": "GPL-2.0-or-later"}},
                {"license": {"id": "MIT"}},
            ],
            "pkg:deb/debian/second@4?arch=all&distro=debian-12": [
                {"license": {"id": "GPL-2.0-or-later"}},
                {"license": {"id": "MIT"}},
            ],
            "pkg:deb/debian/third@5?arch=all&distro=debian-12": [
                {"license": {"name": "see /usr/share/doc/third/copyright"}}
            ],
        },
        zipapp.name: {
            "pkg:pypi/ruler@1.5": [{"expression": "MIT OR Apache-2.0"}],
            "pkg:pypi/level@2": [{"license": {"id": "MIT"}}],
        },
    }
    assert sbom("1.2.3", [image, zipapp]) == text


def test_sbom_reads_the_debian_package(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: t\nVersion: 1\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: t\n"
    )
    (tree / "usr/lib/ruler-1.5.dist-info").mkdir(parents=True)
    (tree / "usr/lib/ruler-1.5.dist-info/METADATA").write_text(METADATA)
    package = tmp_path / "t_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, stdout=subprocess.DEVNULL)

    assert [(part.name, part.version) for part in contents(package)] == [("Ruler", "1.5")]


def test_licenses_of_debian_have_the_names_of_spdx() -> None:
    about = "Format: x\nLicense: LGPL-2.1+ and BSD-3-clause, or custom\nLicense: GPL-2+ with Bison exception\n"

    assert debian_licenses(about) == ["BSD-3-Clause", "GPL-2+ with Bison exception", "LGPL-2.1-or-later", "custom"]
    assert debian_licenses("License: GPL-2\n") == []


def test_distributions_without_a_pin_are_found(tmp_path: Path) -> None:
    for name in ("Alpha_One-1.0", "beta-2.0", "gamma-3.0", "cni_harness-9", "pip-1"):
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        stem, _, version = name.partition("-")
        (folder / "METADATA").write_text(f"Name: {stem.replace('cni_', 'cni-')}\nVersion: {version}\n")
    installed = Distribution.discover(path=[str(tmp_path)])

    assert unpinned("# c\nalpha-one==1.0\nbeta==2.1\n", installed) == ["beta==2.0", "gamma==3.0"]


def test_pins_have_all_that_the_project_needs_for_a_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[^\w-]", each)[0].lower() for each in project["dependencies"] + extras["docs"] + extras["release"]
    }
    lines = (ROOT / "tools" / "release" / "constraints.txt").read_text().splitlines()

    assert sorted(wanted - {line.partition("==")[0] for line in lines}) == []
    assert [line for line in lines if not re.fullmatch(r"#.*|[a-z0-9-]+==\S+", line)] == []


def test_pages_and_files_name_no_other_version_of_the_project() -> None:
    """pyproject.toml alone sets it. Reports name the version that made them, and tests make samples."""
    patterns = ("*.md", "Makefile", "Vagrantfile", ".github/**/*.yml", "docs/**/*.*", "tools/**/*.*", "harness/**/*.*")
    texts = [path.read_text(errors="replace") for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]
    found = re.findall(r"cni[-_]harness(?:[-_ :@]|-image-)v?(\d+\.\d+\.\d+)", "\n".join(texts))
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert len(found) > 3
    assert set(found) == {VERSION}
    assert heading
    assert heading[1] == VERSION
