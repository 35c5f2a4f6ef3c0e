"""`python -m tools.pictures` writes the pictures of the documentation. Root records the terminal, in half a minute."""

import tempfile
from pathlib import Path

from tests.fresh_machine import as_fresh_machine
from tests.nodes import Node
from tools.pictures import pod, terminal_svg, topology
from tools.pictures.cast import RECORDING, record


def main() -> None:
    """Write all pictures."""
    pod.PICTURE.write_text(pod.drawing())
    topology.PICTURE.write_text(topology.drawing())
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
