"""Images of the built-in runtime: loaded from files by skopeo, unpacked by umoci."""

import gzip
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.containerd.images import Images
from harness.cri.service import ImageNotFoundError, RuntimeServiceError
from tests.builtin_containers import BUSYBOX
from tests.markers import IMAGES

pytestmark = [pytest.mark.sudo, IMAGES]


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "node")


def test_a_layout_is_loaded_from_its_folder(images: Images, busybox_layout: Path) -> None:
    (image,) = images.load(busybox_layout)

    assert (image.repo_tags, image.user) == ([BUSYBOX], "web")
    assert image.repo_digests[0].startswith("images.test/busybox@sha256:")
    assert images.list_images() == [image]
    root = images.rootfs(image.id)
    assert (root / "bin/busybox").read_bytes() == Path("/bin/busybox").read_bytes()
    assert str((root / "bin/sh").readlink()) == "busybox"


@pytest.mark.parametrize("name", [BUSYBOX, "sha256", "id", "prefix"])
def test_an_image_has_several_names(images: Images, busybox_layout: Path, name: str) -> None:
    (image,) = images.load(busybox_layout)
    names = {"sha256": image.repo_digests[0], "id": image.id, "prefix": image.id.removeprefix("sha256:")[:12]}

    assert images.image_status(names.get(name, name)) == image


def test_an_image_that_is_absent_has_no_status(images: Images, busybox_layout: Path) -> None:
    images.load(busybox_layout)

    assert images.image_status("busybox") is None


def test_short_image_names_resolve_as_in_docker(images: Images, archives: dict[str, Path]) -> None:
    (image,) = images.load(archives["docker"])

    assert image.repo_tags == ["docker.io/library/small:latest"]
    for name in ("small", "small:latest", "library/small", "docker.io/small"):
        assert images.image_status(name) == image
    assert images.image_status("small:2") is None


@pytest.mark.parametrize("kind", ["oci", "docker", "docker-gzip"])
def test_archives_are_loaded(images: Images, archives: dict[str, Path], busybox_layout: Path, kind: str) -> None:
    (image,) = images.load(archives[kind])

    (original,) = Images(images.folder / "other").load(busybox_layout)
    assert image.id == original.id
    assert (images.rootfs(image.id) / "bin/busybox").exists()


def test_all_images_of_a_file_are_loaded(images: Images, two_images: Path) -> None:
    loaded = images.load(two_images)

    assert [image.repo_tags for image in loaded] == [["images.test/a:1"], ["images.test/b:1"]]
    assert len({image.id for image in loaded}) == 2


def test_a_tag_moves_to_the_image_that_is_loaded_last(images: Images, two_images: Path) -> None:
    first, second = images.load(two_images)
    index = two_images / "index.json"
    index.write_text(
        index.read_text().replace("images.test/a:1", "moved").replace("images.test/b:1", "images.test/a:1")
    )

    images.load(two_images)

    assert images.image_status("images.test/a:1") == images.image_status(second.id)
    assert images.image_status(first.id).repo_tags == ["docker.io/library/moved:latest"]  # type: ignore[union-attr]


def test_a_file_of_another_kind_is_refused(images: Images, tmp_path: Path) -> None:
    text, archive = tmp_path / "text", tmp_path / "archive.tar"
    text.write_text("no image")
    with tarfile.open(archive, "w") as tar:
        tar.add(text, "file")

    with pytest.raises(
        RuntimeServiceError, match=f"{archive}: neither an OCI image layout .* nor an archive of `docker"
    ):
        images.load(archive)
    with pytest.raises(RuntimeServiceError, match=f"{text}: "):
        images.load(text)
    with pytest.raises(RuntimeServiceError, match="neither an OCI image layout"):
        images.load(tmp_path)
    assert list(images.folder.iterdir()) == []


def test_a_damaged_layer_is_refused(images: Images, busybox_layout: Path, tmp_path: Path) -> None:
    layout = tmp_path / "damaged"
    shutil.copytree(busybox_layout, layout)
    largest = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(b"x" * largest.stat().st_size)

    with pytest.raises(RuntimeServiceError, match="skopeo: "):
        images.load(layout)
    assert list(images.folder.iterdir()) == []


def test_a_missing_tool_is_named(images: Images, busybox_layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(RuntimeServiceError, match=r"images need skopeo .*apt-get install skopeo"):
        images.load(busybox_layout)


def test_pull_of_a_missing_image_is_refused(images: Images, busybox_layout: Path) -> None:
    with pytest.raises(ImageNotFoundError, match="fetches nothing from registries; load the image from a file"):
        images.pull_image("busybox")
    (image,) = images.load(busybox_layout)

    assert images.pull_image(BUSYBOX) == image.id


def test_an_image_is_removed(images: Images, busybox_layout: Path) -> None:
    images.load(busybox_layout)

    images.remove_image(BUSYBOX)
    images.remove_image(BUSYBOX)

    assert images.list_images() == []
    assert list(images.folder.iterdir()) == []


def test_an_image_in_use_stays(images: Images, busybox_layout: Path, tmp_path: Path) -> None:
    (image,) = images.load(busybox_layout)
    used = Images(tmp_path / "node", lambda: {image.id})

    with pytest.raises(RuntimeServiceError, match="in use by a container"):
        used.remove_image(BUSYBOX)
    assert used.list_images() == [image]


def test_leftovers_of_crashes_are_removed(images: Images, busybox_layout: Path) -> None:
    (image,) = images.load(busybox_layout)
    for name in (".load-abc", ".removed-def", "0123"):
        (images.folder / name / "rootfs").mkdir(parents=True)

    images.recover()

    assert [image.id.removeprefix("sha256:")] == [path.name for path in images.folder.iterdir()]


@pytest.fixture(scope="module")
def archives(busybox_layout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The busybox image as archives of an OCI layout and of `docker save`."""
    folder = tmp_path_factory.mktemp("archives")
    oci, docker, compressed = (folder / name for name in ("oci.tar", "docker.tar", "docker.tar.gz"))
    with tarfile.open(oci, "w") as archive:
        for path in sorted(busybox_layout.iterdir()):
            archive.add(path, path.name)
    source = f"oci:{busybox_layout}:{BUSYBOX}"
    subprocess.run(
        ["skopeo", "--insecure-policy", "copy", source, f"docker-archive:{docker}:small:latest"],
        check=True,
        capture_output=True,
    )
    compressed.write_bytes(gzip.compress(docker.read_bytes(), 1))
    return {"oci": oci, "docker": docker, "docker-gzip": compressed}


@pytest.fixture
def two_images(busybox_layout: Path, tmp_path: Path) -> Path:
    """A layout with two images that differ in their command alone."""
    layout = tmp_path / "two"
    shutil.copytree(busybox_layout, layout)
    index = json.loads((layout / "index.json").read_text())
    for manifest in index["manifests"]:
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "a"}
    (layout / "index.json").write_text(json.dumps(index))
    subprocess.run(
        ["umoci", "config", "--image", f"{layout}:a", "--tag", "b", "--config.cmd", "/bin/true"],
        check=True,
        capture_output=True,
    )
    text = (layout / "index.json").read_text()
    for tag in ("a", "b"):
        text = text.replace(f'"{tag}"', f'"images.test/{tag}:1"')
    (layout / "index.json").write_text(text)
    return layout
