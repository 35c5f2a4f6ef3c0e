"""The software bill of materials, CycloneDX 1.6: the distributions and Debian packages in each file of a release.

It is read from these files.
"""

import gzip
import hashlib
import io
import json
import posixpath
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tools.release.archives import build_time

_OWN: Final = "cni-harness"
_NOTED: Final = "var/lib/dpkg/status.d/"
_SHORT: Final = 60
"""More characters than a license's name has; some packages have the text in its place."""
_SPDX: Final = {
    "Expat": "MIT",
    "BSD-2-clause": "BSD-2-Clause",
    "BSD-3-clause": "BSD-3-Clause",
    "zlib": "Zlib",
    "MIT License": "MIT",
}
_JOINED: Final = re.compile(r",? (?:and/or|and|or) |, ")
_VERSIONED: Final = re.compile(r"(L?GPL|GFDL)-(\d)(?:\.(\d))?(\+)?")


class Part(NamedTuple):
    """A distribution or a Debian package in a file of the release."""

    kind: str
    """`pypi` or `deb`, as in package URLs."""
    name: str
    version: str
    licenses: Sequence[str]
    """An expression, or names; none if the package tells none."""
    qualifiers: Mapping[str, str] = {}
    """Of its package URL."""


def sbom(version: str, files: Iterable[Path]) -> str:
    """Return the document about these files of the release.

    Raises OSError, subprocess.CalledProcessError, ValueError if the document is not as CycloneDX's schema.
    """
    own = _component(Part("pypi", _OWN, version, ["Apache-2.0"]), ComponentType.APPLICATION, "")
    shipped = [_shipped(path, list(contents(path))) for path in files]
    digests = "".join(str(each.hashes) for each in shipped)
    bom = Bom(components=shipped, serial_number=uuid5(NAMESPACE_URL, digests))
    bom.metadata.timestamp = datetime.fromtimestamp(build_time(), UTC)
    bom.metadata.component = own
    bom.register_dependency(own, shipped)
    document = JsonV1Dot6(bom).output_as_string(indent=1) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(document):
        raise ValueError(f"the SBOM is invalid: {error}")
    return document


def contents(path: Path) -> Iterator[Part]:
    """Yield the packages in a file of the release, but for this project itself. Raises as `sbom` does."""
    if path.suffix == ".pyz":
        with zipfile.ZipFile(path) as archive:
            yield from _distributions(archive.namelist(), archive.read)
    elif path.suffix == ".deb":
        files = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as tree:
            yield from _distributions(tree.getnames(), _Files(tree).read)
    elif "-image-" in path.name:
        with tarfile.open(path) as image, tarfile.open(fileobj=io.BytesIO(_layer(_Files(image)))) as tree:
            files_in = _Files(tree)
            yield from _distributions(files_in.names, files_in.read)
            yield from _debian_packages(files_in)


class _Files:
    """The files of a tar, also those that are reached through links to folders."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members = {posixpath.normpath(member.name): member for member in archive}
        self.names = list(self._members)

    def read(self, name: str) -> bytes:
        """Return a file's content; none, if it is missing."""
        member = self._members.get(posixpath.normpath(name))
        folder, _, rest = posixpath.normpath(name).rpartition("/")
        link = self._members.get(folder)
        if member is None and link and link.issym():
            return self.read(posixpath.join(posixpath.dirname(folder), link.linkname, rest))
        file = self._archive.extractfile(member) if member else None
        return file.read() if file else b""


def _layer(image: _Files) -> bytes:
    """Return the one layer of an image, decompressed: its files are read in any order."""
    [entry] = json.loads(image.read("index.json"))["manifests"]
    [layer] = json.loads(_blob(image, entry))["layers"]
    return gzip.decompress(_blob(image, layer))


def _blob(image: _Files, descriptor: dict[str, str]) -> bytes:
    return image.read("blobs/" + descriptor["digest"].replace(":", "/"))


def _distributions(names: Iterable[str], read: Callable[[str], bytes]) -> Iterator[Part]:
    for name in sorted(names):
        if not re.search(r"[.]dist-info/METADATA$", name):
            continue
        fields = HeaderParser().parsestr(read(name).decode())
        license_field = fields["License-Expression"] or fields["License"] or ""
        if not 0 < len(license_field) < _SHORT:
            classifiers = [each for each in fields.get_all("Classifier", []) if each.startswith("License :: ")]
            license_field = "".join(classifiers[:1]).rpartition(" :: ")[2]
        if fields["Name"] != _OWN:
            yield Part("pypi", fields["Name"], fields["Version"], [_spdx(license_field)] if license_field else [])


def _debian_packages(files: _Files) -> Iterator[Part]:
    [release] = re.findall(r'^VERSION_ID="(.*)"$', files.read("usr/lib/os-release").decode(), re.MULTILINE)
    for name in sorted(files.names):
        if name.startswith(_NOTED):
            fields = HeaderParser().parsestr(files.read(name).decode())
            about = f"usr/share/doc/{fields['Package']}/copyright"
            licenses = debian_licenses(files.read(about).decode()) or [f"see /{about}"]
            qualifiers = {"arch": fields["Architecture"], "distro": f"debian-{release}"}
            yield Part("deb", fields["Package"], fields["Version"], licenses, qualifiers)


def debian_licenses(about: str) -> list[str]:
    """Return the names of licenses in the text of a Debian copyright file, none if it is not machine-readable."""
    found = re.findall(r"^License: *(\S.*)", about, re.MULTILINE) if about.startswith("Format") else []
    names = {each.strip() for line in found if len(line) < _SHORT for each in _JOINED.split(line)}
    return sorted(map(_spdx, names))


def _spdx(name: str) -> str:
    """Return the SPDX identifier of a license that Debian names otherwise, or the same name."""
    versioned = _VERSIONED.fullmatch(name)
    if versioned is None:
        return _SPDX.get(name, name)
    kind, major, minor, later = versioned.groups()
    return f"{kind}-{major}.{minor or 0}-{'or-later' if later else 'only'}"


def _shipped(path: Path, parts: Iterable[Part]) -> Component:
    digest = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())
    return Component(
        name=path.name,
        bom_ref=path.name,
        type=ComponentType.CONTAINER if "-image-" in path.name else ComponentType.FILE,
        hashes=[digest],
        components=[_component(part, ComponentType.LIBRARY, f"{path.name}#") for part in parts],
    )


def _component(part: Part, kind: ComponentType, within: str) -> Component:
    is_debian = part.kind == "deb"
    purl = PackageURL(part.kind, "debian" if is_debian else None, part.name, part.version, dict(part.qualifiers))
    return Component(
        name=part.name,
        version=part.version,
        purl=purl,
        bom_ref=f"{within}{purl}",
        type=kind,
        licenses=_licenses(part),
    )


def _licenses(part: Part) -> list[License]:
    """Return the licenses; an expression stands alone, and Debian's names are none."""
    factory = LicenseFactory()
    if part.kind == "pypi":
        return [factory.make_from_string(each) for each in part.licenses]
    found = list[License]()
    for name in part.licenses:
        try:
            found.append(factory.make_with_id(name))
        except InvalidSpdxLicenseException:
            found.append(factory.make_with_name(name))
    return found
