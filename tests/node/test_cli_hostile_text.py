"""No verb passes control characters of plugins, pods, lists and files on to the terminal."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from click import Context

from harness.cli.command_line import Verbs
from harness.output import UNPRINTABLE
from tests.cli import on_a_terminal
from tests.manifests import KubeletNode, container, pod

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("all verbs on a terminal; test_output_escapes and test_cli_terminal escape text in make test"),
]

MARK = "NASTY"
HOSTILE = f"{MARK}\x1b]0;t\x07\x1b[2J\x9b1m\u202eb\u2066"
LINK = f"{MARK}\x1b]0;\x07\u202e"
"""At most 15 bytes: a name that a pod with NET_ADMIN may give to an interface."""
OWN = re.compile(r"\r\n|\x1b\[[0-9;]*m|\r\x1b\[K|\x1b\[\?25[hl]|\r")
"""Colours, the erased line of a progress, the cursor of a progress bar, and line ends of a terminal."""

PLUGIN = """\
error() {
  printf 'log \\033]0;t\\007\\033[2J\\302\\233 NASTY\\n' >&2
  printf '%s' '{"cniVersion": "1.1.0", "code": 100, "msg": MESSAGE, "details": MESSAGE}'
  exit 1
}
case "$CNI_COMMAND $CNI_ARGS" in
VERSION*) printf '{"cniVersion": "1.1.0", "supportedVersions": ["1.0.0", "1.1.0", MESSAGE]}' ;;
ADD*bad*) error ;;
ADD*) printf '%s' '{"cniVersion": "1.1.0", "interfaces": [{"name": MESSAGE}, {"name": "eth0", "sandbox": "/x"}]}' ;;
'') printf 'CNI nasty plugin v\\033]0;t\\007NASTY\\n' >&2; exit 1 ;;
*) error ;;
esac
""".replace("MESSAGE", json.dumps(HOSTILE))

CALLS: dict[str, list[list[str]]] = {
    "add": [["bad", "bad2", "-vv"], ["bad", "--trace"]],
    "check": [["-vv"], ["-o", "json"], ["-o", "yaml"]],
    "list": [[f"--bin-dir=/{HOSTILE}"]],
    "inspect": [["good"], ["good", "-o", "json"], ["good", "-o", "yaml"], [HOSTILE]],
    "connect": [["good", "--network", HOSTILE], ["good", "--network", "net", "--ifname", HOSTILE]],
    "disconnect": [["good", "--network", HOSTILE]],
    "exec": [["good", HOSTILE]],
    "run": [["-f", "{manifests}/refused.json"], ["-f", "{manifests}/broken.yaml"]],
    "get": [["pods", HOSTILE]],
    "describe": [["ended"], ["ended", "-o", "json"], ["ended", "-o", "yaml"]],
    "logs": [["ended", "-c", HOSTILE]],
    "kubelet": [["--plugin-timeout", HOSTILE]],
    "image": [["load", f"/{HOSTILE}"]],
    "networks": [[], [HOSTILE]],
    "validate": [[]],
    "status": [[]],
    "gc": [[]],
    "repair": [[]],
    "topology": [[], ["--format", "svg"]],
    "path": [["good", HOSTILE]],
    "explain": [["good", "-o", "-"]],
    "diagnose": [[]],
    "snapshot": [[]],
    "diff": [["{folder}/hostile-before.json"]],
    "agent": [["--manifests", "{manifests}/hostile-node.json", "--dry-run"], ["--manifests", f"/{HOSTILE}"]],
    "nodes": [["exec", HOSTILE, "true"]],
    "version": [[]],
    "conformance": [["--skip", HOSTILE]],
    "new-plugin": [[HOSTILE]],
    "options": [[HOSTILE]],
    "bench": [["--bin-dir", f"/{HOSTILE}"]],
    "doctor": [[]],
    "install": [["--bin-dir", "{folder}/in " + HOSTILE, "--no-units"]],
    "uninstall": [["--bin-dir", "{folder}/in " + HOSTILE]],
    "serve": [["--workers", HOSTILE]],
    # The last ones: they take the pods.
    "delete": [[HOSTILE]],
    "del": [["good", "--diff"]],
}
SILENT = {"doctor"}
"""It shows no hostile name: the runtimes' configuration is the machine's own."""


@pytest.fixture
def node(kubelet_node: KubeletNode) -> KubeletNode:
    """A node with a pod, an ended pod of a manifest, and a plugin, all of them hostile."""
    node = kubelet_node
    node.plugin("nasty", PLUGIN)
    node.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "nasty", HOSTILE: HOSTILE}]})
    (node.conf_dir / f"90-{HOSTILE}.conflist").write_text(json.dumps({"name": HOSTILE, "cniVersion": HOSTILE}))
    (good,) = node.add("good")
    subprocess.run(["ip", "-n", Path(good["netns"]).name, "link", "add", LINK, "type", "bridge"], check=True)
    subprocess.run(["ip", "-n", node.node, "link", "add", LINK, "type", "bridge"], check=True)
    said = f"printf '{MARK}\\033]0;t\\007\\342\\200\\256\\033[2J' | tee /dev/termination-log; exit 3"
    ended = pod("ended", container("app", ["sh", "-c", said]), hostNetwork=True, restartPolicy="Never")
    ended["metadata"]["annotations"] = {"note": f"{HOSTILE}\nStatus: forged"}
    node.run("run", "-f", str(node.write(ended)), check=False)
    refused = pod("refused", container("app", [HOSTILE]), restartPolicy=HOSTILE, **{HOSTILE: HOSTILE})
    node.write(refused)
    (node.manifests / "broken.yaml").write_text(f"kind: Pod\n{MARK}: [\x9b\u202e\n")
    claims = {"podCIDRs": [HOSTILE], "providerID": HOSTILE}
    hostile_node = {"kind": "Node", "metadata": {"name": HOSTILE}, "spec": claims}
    named = {"kind": "Node", "metadata": {"name": MARK}, "spec": claims}
    nodes = {"kind": "List", "items": [named, hostile_node]}
    (node.manifests / "hostile-node.json").write_text(json.dumps(nodes))
    before = node.json("snapshot")
    (node.folder / "hostile-before.json").write_text(
        json.dumps(before).replace(json.dumps(LINK)[1:-1], f"{MARK}\\u202e2")
    )
    return node


def shown_raw(text: str) -> list[str]:
    """Return the lines with characters that this program has not meant."""
    return [line for line in OWN.sub("\n", text).splitlines() if UNPRINTABLE.search(line)]


def test_table_of_calls_has_every_verb() -> None:
    verbs = Verbs("cni-harness").list_commands(Context(Verbs("cni-harness")))

    assert sorted(CALLS) == sorted(verbs)


@pytest.mark.time_limit(600, "it calls each verb")
def test_no_verb_passes_hostile_text_on(node: KubeletNode) -> None:
    raw, silent = [], []
    for verb, calls in CALLS.items():
        shown = ""
        for call in calls:
            words = [word.format(manifests=node.manifests, folder=node.folder) for word in call]
            shown += on_a_terminal(node, verb, *words, columns=200, ends_well=False)
        raw += [(verb, line) for line in shown_raw(shown)]
        if MARK not in shown:
            silent.append(verb)

    assert raw == []
    assert set(silent) <= SILENT
