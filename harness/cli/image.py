"""`cni-harness image`: the images that this program's own runtime has."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, needs_root, verb
from harness.output import TextTable

if TYPE_CHECKING:
    from harness.cri.messages import Image

_SHORT_ID = 12


@verb(
    "image",
    examples={
        "image load web.tar": "Load the images of an archive",
        "image list": "List the images",
    },
)
@click.argument("action", type=click.Choice(["load", "list", "rm"]))
@click.argument("names", nargs=-1, metavar="[FILE...|IMAGE...]")
def command(settings: Settings, *, action: str, names: tuple[str, ...]) -> int:
    """Load images from files, list them, or remove them.

    `load` takes OCI image layouts, as folders or archives, and archives of `docker save`. Nothing is fetched from a
    registry.
    """
    from harness.containerd.container_store import ContainerStore
    from harness.containerd.images import Images

    folder = settings.open_node().folder
    containers = ContainerStore(folder)
    images = Images(folder, lambda: {each.record().image_id for each in containers.all()})
    if action != "list":
        needs_root(f"image {action}", "unpacks files of any owner")
        if not names:
            raise click.UsageError(f"image {action}: name a file" if action == "load" else "image rm: name an image")
    if action == "load":
        _show(settings, [image for name in names for image in images.load(Path(name))])
    elif action == "rm":
        for name in names:
            if images.image_status(name) is None:
                raise click.ClickException(f"no image {name}")
            images.remove_image(name)
    else:
        _show(settings, images.list_images())
    return 0


def _show(settings: Settings, images: "list[Image]") -> None:
    rows = [
        [", ".join(each.repo_tags), each.id.removeprefix("sha256:")[:_SHORT_ID], f"{each.size / 1e6:.1f} MB"]
        for each in images
    ]
    document = {"images": [each.encode() for each in images]}
    settings.emit(document, TextTable(("IMAGE", "ID", "SIZE"), rows))
