"""No module of a plugin keeps anything from one call to the next: a worker of the server executes many."""

from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.module_state import findings

ROOMS = ("fast_stdlib", "skel", "netlink", "firewall", "ipam", "plugins", "launch")
OWNING_THE_PROCESS = ("launch/", "skel/process.py", "skel/delegate.py", "ipam/dhcp_daemon/")
"""A plugin's own process: direct execution, which has no next call; and the DHCP daemon, which executes none."""


def sources() -> dict[str, str]:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    return {path: text for path, text in found.items() if not path.startswith("launch/server/")}


RECORDER = "fast_stdlib/__init__.py", "_local() at import: an object with a state"
"""The recorder of a thread's spans: a call sets it and takes it away, and a worker that finds one left ends itself."""


@pytest.mark.slow("it reads the source of all rooms; the single kinds of state are in make test")
def test_no_state_is_kept() -> None:
    found = [
        each
        for each in findings(sources(), owning_the_process=OWNING_THE_PROCESS)
        if (each.path, each.what) != RECORDER
    ]

    assert [f"{each.path}:{each.line}: {each.what}" for each in found] == []


def test_all_rooms_are_read() -> None:
    rooms = {Path(path).parts[0] for path in sources()}

    assert rooms == {room for room in ROOMS if (ROOT / room).is_dir()}
    assert len(sources()) > 80


PLANTED = {
    "a list that grows": ("seen = []\ndef f(x):\n    seen.append(x)", "seen belongs to the module and is changed"),
    "a table by key": (
        "_known: dict = {}\ndef f(x):\n    _known[x] = 1",
        "_known belongs to the module and is changed",
    ),
    "a key deleted": ("_known = dict()\ndef f(x):\n    del _known[x]", "_known belongs to the module and is changed"),
    "in place": ("KNOWN = set()\ndef f(x):\n    global KNOWN\n    KNOWN |= {x}", "KNOWN belongs to the module"),
    "a queue": ("from collections import deque\nQ = deque()\nf = lambda: Q.popleft()", "Q belongs to the module"),
    "below if": ("if True:\n    seen = {}\ndef f(x):\n    seen.setdefault(x, 1)", "seen belongs to the module"),
    "in a method": ("seen = []\nclass A:\n    def f(self):\n        seen.clear()", "seen belongs to the module"),
    "of a class": (
        "class A:\n    all = []\n    def f(self):\n        A.all.append(self)",
        "A.all belongs to the class",
    ),
    "of cls": (
        "class A:\n    all: list = []\n    @classmethod\n    def f(cls):\n        cls.all.pop()",
        "A.all belongs",
    ),
    "of self": ("class A:\n    all = []\n    def f(self):\n        self.all.append(1)", "A.all belongs to the class"),
    "a global": ("n = 0\ndef f():\n    global n\n    n += 1", "global n"),
    "a cache": ("from functools import cache\n@cache\ndef f(x):\n    return x", "cache on f: it keeps"),
    "a bounded cache": ("import functools\n@functools.lru_cache(maxsize=1)\ndef f(x):\n    return x", "lru_cache on f"),
    "a class's word": ("class A:\n    n = 0\ndef f():\n    A.n = 1", "A.n is set"),
    "a module's word": ("import os\ndef f():\n    os.linesep = ''", "os.linesep is set"),
    "a socket": ("import socket\ns = socket.socket()", "socket() at import"),
    "a thread": ("import threading\nt: object = threading.Thread()", "Thread() at import"),
    "a counter": ("import itertools\nn = itertools.count()", "count() at import"),
    "at fork": ("import os\nos.register_at_fork(before=print)", "os.register_at_fork"),
    "the environment": ("import os\ndef f():\n    return os.environ['PATH']", "os.environ: of the process"),
    "one variable": ("from os import getenv\ndef f():\n    return getenv('PATH')", "os.getenv: of the process"),
    "stdin": ("import sys\ndef f():\n    return sys.stdin.read()", "sys.stdin: of the process"),
    "print": ("def f():\n    print(1)", "print(): stdout is the answer"),
    "the folder": ("import os\ndef f():\n    os.chdir('/')", "os.chdir: of the process"),
    "a program": ("import subprocess\ndef f():\n    subprocess.run(['ip'])", "a program is executed without env="),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_kind_is_found(name: str) -> None:
    text, what = PLANTED[name]

    found = findings({"plugins/planted.py": text}, owning_the_process=OWNING_THE_PROCESS)

    assert [each for each in found if each.what.startswith(what)], found


def test_collection_changed_by_another_module_is_found() -> None:
    planted = {
        "netlink/tables.py": "KNOWN = {}\n",
        "plugins/planted.py": "from netlink.tables import KNOWN as known\ndef f(x):\n    known[x] = 1\n",
    }

    assert [each.what for each in findings(planted)] == ["known belongs to the module and is changed"]


CONSTANT = """
import subprocess
from threading import Lock

TABLE = {4: "one", 6: "two"}
TABLE[8] = "made at import"
names = [name for name in TABLE.values()]

class Keeper:
    slots = ["name"]

    def __init__(self, environ):
        self.slots = []
        self.environ = environ

    def put(self, name):
        self.slots.append(name)
        names = []
        names.append(name)
        with Lock():
            return subprocess.run([TABLE[4]], env=self.environ)

def fill(names):
    names.append(1)
"""


def test_constants_and_attributes_of_objects_are_not_found() -> None:
    assert findings({"plugins/planted.py": CONSTANT}) == []
