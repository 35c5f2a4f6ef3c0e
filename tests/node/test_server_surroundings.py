"""A plugin's surroundings: its caller's, but for the properties of the server that docs/server.md names.

The witness is a foreign IPAM plugin, which `bridge` executes: as a child of the plugin's process it has what that
passes on.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.launcher import launcher_bytes, launcher_text
from tests.attachments import bridge_config
from tests.cli import SYSTEM_PYTHON
from tests.nodes import HANG, Node
from tests.servers import Server, running_server, write_launchers

WITNESS = """#!{python} -IS
import json, os, resource, sys
STATUS = ("Umask", "Uid", "Gid", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
SERVERS = ("SigBlk", "SigIgn", "Groups", "Cpus_allowed")
def text(name):
    with open("/proc/self/" + name, "rb") as file:
        return file.read().decode("latin-1")
def identity(path):
    status = os.stat(path)
    return [status.st_dev, status.st_ino]
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
lines = dict(line.split(":", 1) for line in text("status").splitlines())
seen = {{
    "environ": sorted(text("environ").split("\\0")),
    "arguments": sys.argv,
    "stdin": sys.stdin.read(),
    "cwd": [os.readlink("/proc/self/cwd"), identity(".")],
    "root": [identity("/"), sorted(os.listdir("/mnt"))],
    "namespaces": {{name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}},
    "files": [number for number in range(1024) if is_open(number)],
    "status": {{name: lines[name].strip() for name in STATUS}},
    "of the server": {{
        "status": {{name: lines[name].strip() for name in SERVERS}},
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "open files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "oom_score_adj": text("oom_score_adj"),
        "scheduling": os.sched_getscheduler(0),
        "control group": text("cgroup"),
    }},
}}
with open(f"/proc/{{os.getppid()}}/status") as file:
    seen["grandparent"] = next(int(line.split()[1]) for line in file if line.startswith("PPid"))
with open(sys.argv[0] + ".seen", "w") as file:
    json.dump(seen, file)
open(sys.argv[0] + ".made", "w").close()
print(json.dumps({{"cniVersion": "1.1.0", "ips": [{{"address": "192.0.2.5/24"}}]}}))
"""

PRIVATE_SIGNALS = 0b11 << 31  # 32 and 33, which glibc keeps to itself

# An odd caller: it has changed the properties that a process passes on to its children.
CALLER = """
import os, resource, signal, sys
cwd, program, *locale = sys.argv[1:]
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.chdir(cwd)
if os.listdir(".") == []:
    os.rmdir(os.getcwd())
os.umask(0o027)
os.setpriority(os.PRIO_PROCESS, 0, 4)
os.setgroups([4, 24])
resource.setrlimit(resource.RLIMIT_NOFILE, (900, 1100))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGRTMIN + 3})
with open("/proc/self/oom_score_adj", "w") as file:
    file.write("321")
os.environ.pop("LC_CTYPE", None)  # Python's own
environ = dict(os.environb, EMPTY=b"", ODD=b"\\xff=\\xfe\\n", **{"A.b-c": b"x"})
os.execve(program, [program], {**environ, **dict(variable.split("=") for variable in locale)})
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with other namespaces, limits, environment, umask and working directory than any caller here."""
    folder = tmp_path_factory.mktemp("elsewhere")
    odd = "ulimit -S -n 500; echo 77 >/proc/self/oom_score_adj; mount -t tmpfs none /mnt; exec " + '"$@"'
    with running_server(
        folder,
        prefix=["unshare", "--net", "--mount", "sh", "-c", odd, "sh"],
        env={"PATH": "/nonsense:/usr/bin:/bin", "LANG": "xx_XX", "SERVER": "its own", "TMPDIR": str(folder)},
        cwd=str(folder),
        umask=0o077,
        prelude="import os; os.setpriority(os.PRIO_PROCESS, 0, 2)",
    ) as running:
        yield running


WITH_OTHER_MOUNTS = 'mount -t tmpfs none /mnt && touch /mnt/inside && exec "$@"'


def witnessed(node: Node, bin_dir: Path, cwd: Path, locale: str = "", *, mounts: bool = False) -> dict[str, Any]:
    """The witness's report of an ADD by an odd caller; the ADD is undone."""
    witness = node.bin_dir / "witness"
    witness.write_text(WITNESS.format(python=SYSTEM_PYTHON))
    witness.chmod(0o755)
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": f"{node.path}-pod",
        "CNI_PATH": f"{bin_dir}:{node.bin_dir}",
    }
    config = json.dumps(bridge_config(ipam={"type": "witness"}, isGateway=False))
    caller = [sys.executable, "-I", "-c", CALLER, str(cwd), str(bin_dir / "bridge"), *locale.split()]
    if mounts:
        caller = ["unshare", "--mount", "sh", "-c", WITH_OTHER_MOUNTS, "sh", *caller]

    cwd.mkdir(exist_ok=True)
    added = json.loads(node.run(caller, env={**environ, "CNI_COMMAND": "ADD"}, stdin=config).stdout)
    seen: dict[str, Any] = json.loads(Path(f"{witness}.seen").read_text())
    seen["mode of a new file"] = Path(f"{witness}.made").stat().st_mode
    Path(f"{witness}.made").unlink()
    cwd.mkdir(exist_ok=True)
    node.run(caller, env={**environ, "CNI_COMMAND": "DEL"}, stdin=config)

    assert added["ips"] == [{"address": "192.0.2.5/24", "interface": 2}]
    return seen


@pytest.mark.parametrize("content", [launcher_bytes, launcher_text], ids=["compiled", "python"])
@pytest.mark.parametrize("place", ["node", "other mounts", "deleted directory"])
def test_a_child_of_the_plugin_sees_its_caller(
    node: Node, server: Server, tmp_path: Path, content: Callable[..., bytes], place: str
) -> None:
    node.pod_namespace("pod")
    bin_dir, cwd = tmp_path / "launchers", tmp_path / "cwd"
    cwd.mkdir()
    if place != "deleted directory":
        (cwd / "a file").touch()
    mounts = place == "other mounts"

    write_launchers(bin_dir, content(socket=""))
    direct = witnessed(node, bin_dir, cwd, mounts=mounts)
    write_launchers(bin_dir, content(socket=str(server.socket), timeout=HANG))
    served = witnessed(node, bin_dir, cwd, mounts=mounts)

    assert served.pop("grandparent") == server.pid, server.log()
    assert direct.pop("grandparent") != server.pid
    if place == "deleted directory":  # each was another one
        del served["cwd"][1], direct["cwd"][1]
    if mounts:  # each has its own, made for it: its mounts tell
        del served["namespaces"]["mnt"], direct["namespaces"]["mnt"]
        assert served["root"][1] == ["inside"]
    servers, callers = served.pop("of the server"), direct.pop("of the server")
    assert served == direct
    assert (callers["nice"], callers["oom_score_adj"], callers["open files"]) == (4, "321\n", 900)
    assert (servers["nice"], servers["oom_score_adj"]) == (2, "77\n")
    # Of the signals, only SIGPIPE and SIGXFSZ, which Python ignores.
    masks = [int(servers["status"][name], 16) & ~PRIVATE_SIGNALS for name in ("SigBlk", "SigIgn")]
    assert masks == [0, 0x01001000]


@pytest.mark.parametrize("content", [launcher_bytes, launcher_text], ids=["compiled", "python"])
@pytest.mark.parametrize("locale", ["LC_CTYPE=C", "LANG=C LC_CTYPE=C.UTF-8"])
def test_child_of_a_plugin_has_the_locale_of_the_caller(
    node: Node, server: Server, tmp_path: Path, content: Callable[..., bytes], locale: str
) -> None:
    node.pod_namespace("pod")
    for socket in ("", str(server.socket)):
        bin_dir = write_launchers(tmp_path / "launchers", content(socket=socket, timeout=HANG))

        seen = witnessed(node, bin_dir, tmp_path / "cwd", locale)

        assert [variable for variable in seen["environ"] if variable.startswith(("L", "PY"))] == locale.split()
