"""`python -m tools.stubs`: makes the Python modules of harness/cri/remote/api.proto anew.

The modules are in the repository, so that users need no generator. They depend on the generator's version, which
pyproject.toml names.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = Path("harness/cri/remote/api.proto")
NAMES = ("api_pb2.py", "api_pb2.pyi", "api_pb2_grpc.py")


def generate(target: Path) -> None:
    """Write the modules below `target`, in the folders of their packages. Raises CalledProcessError."""
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, PROTO], cwd=ROOT, check=True)


if __name__ == "__main__":
    generate(ROOT)
