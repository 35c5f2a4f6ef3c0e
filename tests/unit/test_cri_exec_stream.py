"""A command by WebSocket, with both versions of the protocol: containerd has version 4 alone, so a peer is made here.

The peer runs the command as a process. tests/runtime has terminals and exit codes, with containerd.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

SCRIPT = """
import sys
from harness.cri.remote.exec_stream import execute_with_own_streams
sys.exit(execute_with_own_streams(sys.argv[1], terminal=False, stdin=True))
"""
END_OF_STDIN = b"\xff\x00"


@contextmanager
def peer(version: str, command: list[str]) -> Iterator[str]:
    """Serve one command as a runtime does; yields its URL."""

    def run(connection: ServerConnection) -> None:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in connection:
                if message == END_OF_STDIN:
                    break
                assert isinstance(message, bytes)
                assert message[0] == 0
                process.stdin.write(message[1:])
                process.stdin.flush()
                if version.startswith("v4"):
                    break  # it hears of no end
            process.stdin.close()
            connection.send(b"\x01" + process.stdout.read())
        causes = [{"reason": "ExitCode", "message": str(process.returncode)}]
        connection.send(b"\x03" + json.dumps({"status": "Failure", "details": {"causes": causes}}).encode())

    with serve(run, "127.0.0.1", 0, subprotocols=[Subprotocol(version)], compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/exec/token"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("version", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
def test_streams_and_exit_code_pass(version: str) -> None:
    text = "line\n" * 5000 if version.startswith("v5") else "line\n"

    with peer(version, ["sh", "-c", "cat; exit 5"]) as url:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, url], input=text, capture_output=True, text=True, check=False, timeout=60
        )

    assert done.returncode == 5
    assert done.stdout == text
    if version.startswith("v5"):
        assert done.stderr == ""


def test_a_connection_that_ends_early_is_an_error() -> None:
    def hang_up(connection: ServerConnection) -> None:
        connection.close()

    with serve(hang_up, "127.0.0.1", 0, subprotocols=[Subprotocol("v4.channel.k8s.io")]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}/exec/token"
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, url], input="", capture_output=True, text=True, check=False, timeout=60
        )
        server.shutdown()
        thread.join()

    assert done.returncode == 1
    assert "RuntimeServiceError: the runtime ended the connection without the command's exit code" in done.stderr
