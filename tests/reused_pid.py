"""An attack on the server, by a process that ends and leaves its connection to a child.

Run in a PID namespace of its own, where the next PID can be chosen: `python -m tests.reused_pid FOLDER ATTACK PRELUDE`.
What came of it goes to stdout as JSON.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from launch.server.protocol import GO
from tests.nodes import until
from tests.server_client import client, encode_request, request_for
from tests.servers import Server, running_server

VERSION = {"CNI_COMMAND": "VERSION"}

# Arguments: socket, attack, request and `G` as hexadecimal digits, file of the output.
ATTACKER = """
import os, socket, sys
path, attack, request, go, output = sys.argv[1:]
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(path)
def ask():
    namespaces = [os.open("/proc/self/ns/" + name, os.O_RDONLY) for name in ("net", "mnt")]
    files = [os.open(".", os.O_PATH), *namespaces, os.eventfd(1, os.EFD_NONBLOCK), os.open(os.devnull, os.O_RDWR)]
    socket.send_fds(connection, [bytes.fromhex(request)], files)
def go_on():
    connection.send(bytes.fromhex(go))
if attack != "child says all":
    ask()
if attack == "all was said before":
    go_on()
reads, writes = os.pipe()
if os.fork():
    os._exit(0)
os.close(writes)
os.read(reads, 1)  # the parent has ended
try:
    if attack == "child says all":
        ask()
    if attack != "all was said before" and connection.recv(10) == b"R":
        go_on()
    with open(output, "ab", buffering=0) as file:
        while packet := connection.recv(100000):
            if packet != b"R":
                file.write(packet)
except ConnectionError:
    pass
os.rename(output, output + ".done")
"""


def main(folder: Path, attack: str, prelude: str) -> None:
    """Start a server, attack it while it is stopped, and let it go on."""
    output = folder / "output"
    output.touch()
    with running_server(folder, prelude=prelude) as server:
        until(lambda: len(server.workers()) == 4)
        stopped = [server.pid, *server.workers()]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        reused = _attacker(server, attack, output)
        somebody = _process_with_pid(reused)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        until(Path(f"{output}.done").exists)
        with client(server.socket) as another:
            another.call(request_for("noop", VERSION))
        os.kill(somebody, signal.SIGKILL)
        server.stop()
        seen = {
            "output": Path(f"{output}.done").read_text(),
            "output of another": another.stdout.decode(),
            "log": server.log(),
        }
    sys.stdout.write(json.dumps(seen))


def _attacker(server: Server, attack: str, output: Path) -> int:
    """Start the attacker; return its PID when it has ended and its child goes on."""
    request, go = encode_request(request_for("noop", VERSION)), GO
    program = [
        "/usr/bin/python3",
        "-IS",
        "-c",
        ATTACKER,
        str(server.socket),
        attack,
        request.hex(),
        go.hex(),
        str(output),
    ]
    attacker = subprocess.Popen(["setpriv", "--bounding-set=-all", "--inh-caps=-all", *program], cwd="/")
    if attacker.wait() != 0:
        message = f"the attacker ended with {attacker.returncode}"
        raise AssertionError(message)
    return attacker.pid


def _process_with_pid(pid: int) -> int:
    """Start a process with all privileges and this PID, which was another's."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    if child != pid:
        message = f"PID {child} instead of {pid}"
        raise AssertionError(message)
    return child


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
