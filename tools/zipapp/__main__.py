"""`python -m tools.zipapp FILE`: write the archive."""

import sys
from pathlib import Path

from tools.zipapp.archive import write

if __name__ == "__main__":
    write(Path(sys.argv[1]))
