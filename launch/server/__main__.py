"""`python -m launch.server`: the server, in the foreground."""

import sys

from .server import main

sys.exit(main())
