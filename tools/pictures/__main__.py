"""`python -m tools.pictures` writes the pictures of README.md. Root makes a new recording; it takes half a minute."""

import tempfile
from pathlib import Path

from tests.fresh_machine import as_fresh_machine
from tests.nodes import Node
from tools.pictures import pod, terminal_svg
from tools.pictures.cast import RECORDING, record


def main() -> None:
    """Write all pictures."""
    pod.PICTURE.write_text(pod.drawing())
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        try:
            cast = record(as_fresh_machine(node, Path(folder)))
        finally:
            node.close()
    RECORDING.write_text(cast.document())
    terminal_svg.PICTURE.write_text(terminal_svg.drawing(cast))


if __name__ == "__main__":
    main()
