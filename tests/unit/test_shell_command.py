"""An execution as a command for a shell: the shell executes the plugin in the same way."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.shell_command import one_line_command, shell_command

ENVIRON = {
    "CNI_IFNAME": "eth0",
    "CNI_COMMAND": "DEL",
    "CNI_NETNS": "",
    "CNI_ARGS": 'A=$HOME;B=`id`;C=it\'s "so"',
    "CNI_HARNESS_NODE": "not a variable of the protocol",
    "SECRET": "not to be told",
}
INPUTS = {
    "json": b'{"name": "it\'s $HOME `id`", "text": "\xc2\x9b2J"}',
    "json in lines": b'{\n  "name": "net"\n}\n',
    "none": b"",
    "no json": b"it's {\nnone",
}


@pytest.mark.parametrize("stdin", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("form", ["line", "lines"])
def test_the_shell_executes_the_same(stdin: bytes, form: str, tmp_path: Path) -> None:
    plugin = tmp_path / "my plugin"
    plugin.write_text(f"#!/bin/sh\nenv -0 | grep -z ^CNI >'{tmp_path}/environ'\ncat >'{tmp_path}/stdin'\n")
    plugin.chmod(0o755)
    lines = [*shell_command(str(plugin), ENVIRON, stdin)] if form == "lines" else []
    command = "\n".join(lines) or one_line_command(str(plugin), ENVIRON, stdin)
    shell = "sh" if form == "lines" else "bash"
    subprocess.run([shell, "-c", command], env={"PATH": "/usr/bin:/bin"}, check=True)

    got = dict(each.split("=", 1) for each in (tmp_path / "environ").read_text().split("\0") if each)
    assert got == {name: ENVIRON[name] for name in ("CNI_ARGS", "CNI_COMMAND", "CNI_IFNAME", "CNI_NETNS")}
    read = (tmp_path / "stdin").read_bytes()
    if stdin.startswith(b"{"):
        assert json.loads(read) == json.loads(stdin)
        assert form == "lines" or "\n" not in command
    else:
        assert read.rstrip(b"\n") == stdin
    assert "\x9b" not in command


def test_the_verb_comes_first() -> None:
    assert one_line_command("/b/p", ENVIRON, b"{}").startswith("CNI_COMMAND=DEL CNI_ARGS='")
    assert one_line_command("/b/p", {"CNI_COMMAND": "VERSION"}, b"{}") == "CNI_COMMAND=VERSION /b/p <<< '{}'"
