"""-vv shows the whole protocol, in a form that can be pasted into a shell."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli import Cli, bridge_network
from tests.nodes import HANG

pytestmark = pytest.mark.sudo


def blocks(trace: str) -> dict[str, str]:
    """The commands of a trace, each with its heading, by plugin and verb."""
    starts = [each.start() for each in re.finditer(r"^# \S{1,12} \S+ [A-Z]+ \d+ ms ", trace, re.MULTILINE)]
    parts = [trace[start:end] for start, end in zip(starts, [*starts[1:], len(trace)], strict=True)]
    return {" ".join(part.split()[2:4]): part for part in parts}


def said(block: str, stream: str) -> str:
    """The comment that has a stream of the plugin, without its signs."""
    _, _, comment = block.partition(f"\n# {stream}:\n")
    lines = [line.removeprefix("# ") for line in comment.splitlines()]
    return "\n".join(line for line in lines if line not in {"stdout:", "stderr:"})


def pasted(cli: Cli, block: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": cli.environment["PATH"]}
    return subprocess.run(
        ["sh"], input=block, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )


def test_pasted_command_repeats_the_traced_call(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    pod = cli.add("pod1")[0]
    traced = blocks(cli.run("check", "pod1", "-vv").stderr)["bridge CHECK"]

    assert "\nEOF\n" in traced
    assert (pasted(cli, traced).returncode, pasted(cli, traced).stdout) == (0, "")
    subprocess.run(["ip", "-n", Path(pod["netns"]).name, "address", "flush", "dev", "eth0"], check=True)
    failed = blocks(cli.run("check", "pod1", "-vv", check=False).stderr)["bridge CHECK"]
    again = pasted(cli, failed)
    assert " exit 1" in failed.splitlines()[0]
    assert again.returncode == 1
    assert json.loads(again.stdout) == json.loads(said(failed, "stdout"))


def test_pasted_add_sees_the_files_of_its_node(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    traced = blocks(cli.run("add", "pod1", "-vv").stderr)["bridge ADD"]
    cli.run("del", "pod1")
    another = re.sub(r"CNI_NETNS=\S+", f"CNI_NETNS=/run/netns/{cli.node}-pod", traced)
    subprocess.run(["ip", "netns", "add", f"{cli.node}-pod"], check=True)
    try:
        made = pasted(cli, another)

        assert (made.returncode, made.stderr) == (0, "")
        addresses = {each["address"] for each in json.loads(made.stdout)["ips"]}
        assert {address.partition("/")[0] for address in addresses} == cli.reservations("net")
        assert cli.addresses(f"/run/netns/{cli.node}-pod", "eth0") == addresses
    finally:
        subprocess.run(["ip", "netns", "del", f"{cli.node}-pod"], check=True)


def test_every_variable_of_the_protocol_is_shown(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})

    traced = blocks(own_cli.run("add", "pod1", "-vv", "--arg", "COLOUR=dark red").stderr)["noop ADD"]

    names = re.findall(r"^  (\w+)=", traced, re.MULTILINE)
    assert names == ["CNI_COMMAND", "CNI_ARGS", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_PATH"]
    assert "COLOUR=dark red'" in traced


def test_delegates_of_our_own_plugins_are_shown(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))

    brief = own_cli.run("add", "pod1", "-v").stderr.splitlines()
    shown = blocks(own_cli.run("check", "pod1", "-vv").stderr)

    assert [" ".join(line.split()[1:3]) for line in brief] == ["bridge ADD", "host-local ADD"]
    assert list(shown) == ["bridge CHECK", "host-local CHECK"]
    assert shown["host-local CHECK"].splitlines()[0].endswith("exit 0, called by bridge")
    assert pasted(own_cli, shown["host-local CHECK"]).returncode == 0
    (own_cli.var_lib_cni / "networks/net/10.77.0.2").unlink()
    assert pasted(own_cli, shown["host-local CHECK"]).returncode == 1


def test_delegate_in_another_language_is_shown_with_its_error(own_cli: Cli) -> None:
    own_cli.plugin(
        "picky",
        """cat > /dev/null; [ "$CNI_COMMAND" = DEL ] && exit
printf 'first\\nsecond \\033[31m\\n' >&2; echo '{"cniVersion": "1.0.0", "code": 100, "msg": "no"}'; exit 1""",
    )
    network = bridge_network("net")
    network["plugins"][0]["ipam"] = {"type": "picky"}
    own_cli.configure(network)

    traced = own_cli.run("add", "pod1", "-vv", check=False).stderr

    shown = blocks(traced)["picky ADD"]
    assert shown.splitlines()[0].endswith(" exit 1, called by bridge")
    assert '#   "code": 100,\n' in shown
    assert "# stderr:\n# first\n# second \\x1b[31m\n" in shown
    assert "\x1b" not in traced


def test_plugins_get_no_trace_variable_without_v(own_cli: Cli) -> None:
    own_cli.plugin(
        "witness", f'cat > /dev/null; env > {own_cli.folder}/$CNI_COMMAND; echo \'{{"cniVersion": "1.0.0"}}\''
    )
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "witness"}]})

    own_cli.run("add", "pod1")
    quiet = (own_cli.folder / "ADD").read_text()
    own_cli.run("add", "pod2", "-v")

    assert "CNI_HARNESS_TRACE" not in quiet
    assert "CNI_HARNESS_TRACE=/proc/" in (own_cli.folder / "ADD").read_text()


def test_input_that_holds_the_end_of_the_document_is_pasted_whole(own_cli: Cli) -> None:
    plugin = {"type": "noop", "note": "EOF\nEOF", "umlaut": "\u00e4\x7f\ud800"}
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [plugin]})
    own_cli.plugin("noop", f'cat > {own_cli.folder}/$CNI_COMMAND; echo \'{{"cniVersion": "1.0.0"}}\'')

    traced = blocks(own_cli.run("add", "pod1", "-vv").stderr)["noop ADD"]
    first = json.loads((own_cli.folder / "ADD").read_text())
    (own_cli.folder / "ADD").unlink()
    pasted(own_cli, traced)

    assert json.loads((own_cli.folder / "ADD").read_text()) == first
