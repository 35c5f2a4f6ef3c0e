"""The operations of SPEC.md section 3, on executables that write down their requests."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.libcni.attachment import Attachment
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor, PluginError, PluginNotFoundError
from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.operations import Libcni, plugin_versions
from harness.validation.validate import validate
from skel.errors import CniError
from tests.cli import SYSTEM_PYTHON
from tests.nodes import HANG

RECORDER = """#!{python} -IS
import json, os, sys

here, name = os.path.split(__file__)
config = json.load(sys.stdin)
verb = os.environ["CNI_COMMAND"]
call = {{"plugin": name, "verb": verb, "config": config}}
call["environ"] = {{key: value for key, value in os.environ.items() if key.startswith("CNI_")}}
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps(call) + "\\n")
result = config.get("prevResult", {{"cniVersion": config["cniVersion"], "interfaces": []}})
result.get("interfaces", []).append({{"name": name}})
versions = {{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}}
answer = {{"ADD": result, "VERSION": versions}}.get(verb)
code = 0
override = os.path.join(here, name + "." + verb)
if os.path.exists(override):
    answer = json.load(open(override))
    code = 1 if "code" in answer else 0
if answer is not None:
    print(json.dumps(answer))
sys.exit(code)
"""

POD1 = Attachment(
    "pod1",
    "/run/netns/pod1",
    "eth0",
    (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "pod1")),
    {"portMappings": [{"hostPort": 80}], "mac": "c2:11:22:33:44:55"},
)
BARE_POD1 = Attachment("pod1", "", "eth0")


class Node:
    """Folders with recording plugins, and a runtime on them."""

    def __init__(self, folder: Path) -> None:
        self.bin_dir = folder / "bin"
        self.bin_dir.mkdir()
        self.cached = folder / "cni" / "results" / "mynet-pod1-eth0"
        self.warnings: list[str] = []
        self.cache = ResultCache(folder / "cni", warn=self.warnings.append)
        executor = Executor([self.bin_dir], timeout=HANG)
        self.libcni = Libcni(executor, self.cache, warn=self.warnings.append)
        self.versions = partial(plugin_versions, executor)
        for name in ("first", "second", "third"):
            self.install(name)

    def install(self, name: str) -> None:
        path = self.bin_dir / name
        path.write_text(RECORDER.format(python=SYSTEM_PYTHON))
        path.chmod(0o755)

    def answer(self, plugin: str, verb: str, document: object) -> None:
        """Have a plugin answer with `document`, which is a failure if it has a code."""
        (self.bin_dir / f"{plugin}.{verb}").write_text(json.dumps(document))

    def recover(self, plugin: str, verb: str) -> None:
        (self.bin_dir / f"{plugin}.{verb}").unlink()

    def take_calls(self) -> list[dict[str, Any]]:
        """Return the plugins' requests since the last time."""
        try:
            lines = (self.bin_dir / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        (self.bin_dir / "calls").unlink()
        return [json.loads(line) for line in lines]

    def took(self) -> list[str]:
        return [f"{call['verb']} {call['plugin']}" for call in self.take_calls()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def network(
    version: str = "1.1.0", types: tuple[str, ...] = ("first", "second", "third"), **keys: object
) -> NetworkList:
    plugins = [{"type": name, "capabilities": {"portMappings": True}} for name in types]
    return parse_network_list(json.dumps({"cniVersion": version, "name": "mynet", "plugins": plugins, **keys}).encode())


def names(result: dict[str, Any]) -> list[str]:
    return [interface["name"] for interface in result["interfaces"]]


FAILURE = {"cniVersion": "1.1.0", "code": 11, "msg": "not now", "details": "try later"}


# --- ADD


def test_add_hands_each_result_to_the_next_plugin_and_returns_the_last(node: Node) -> None:
    result = node.libcni.add(network(), POD1)

    calls = node.take_calls()
    assert [(call["verb"], call["plugin"]) for call in calls] == [
        ("ADD", name) for name in ("first", "second", "third")
    ]
    assert "prevResult" not in calls[0]["config"]
    assert names(calls[1]["config"]["prevResult"]) == ["first"]
    assert names(calls[2]["config"]["prevResult"]) == ["first", "second"]
    assert names(result) == ["first", "second", "third"]
    assert result["cniVersion"] == "1.1.0"


def test_every_plugin_is_told_of_the_attachment(node: Node) -> None:
    node.libcni.add(network(), POD1)

    for call in node.take_calls():
        assert call["environ"] == {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": "pod1",
            "CNI_NETNS": "/run/netns/pod1",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=pod1",
            "CNI_PATH": str(node.bin_dir),
        }
        assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 80}]}


def test_the_final_result_is_cached_with_what_was_asked(node: Node) -> None:
    result = node.libcni.add(network(), POD1)

    cached = node.cache.load("mynet", "pod1", "eth0")
    assert cached is not None
    assert cached.result == result
    assert cached.attachment == POD1
    assert parse_network_list(cached.config).plugins == network().plugins


def test_a_result_in_another_version_is_converted_before_it_is_passed_on(node: Node) -> None:
    node.answer("first", "ADD", {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.5/16"}]})

    result = node.libcni.add(network("1.0.0", ("first", "second")), POD1)

    expected = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]}
    assert node.take_calls()[1]["config"]["prevResult"] == expected
    assert result == expected


def test_a_failed_add_is_undone_by_every_plugin_and_raised_with_what_that_said(node: Node) -> None:
    node.answer("second", "ADD", FAILURE)
    node.answer("second", "DEL", {"code": 100, "msg": "cannot"})

    with pytest.raises(PluginError) as raised:
        node.libcni.add(network(), POD1)

    assert (raised.value.plugin, raised.value.code, raised.value.msg, raised.value.details) == (
        "second",
        11,
        "not now",
        "try later",
    )
    assert raised.value.__notes__ == ["and undoing it: plugin second: DEL failed with code 100: cannot"]
    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == [
        "ADD first",
        "ADD second",
        "DEL third",
        "DEL second",
        "DEL first",
    ]
    assert all("prevResult" not in call["config"] for call in calls[2:])
    assert not node.cached.exists()


def test_a_result_that_cannot_be_cached_is_undone(node: Node) -> None:
    node.cached.parent.parent.write_text("a file where the folder should be")

    with pytest.raises(CniError, match="cannot cache the result of attachment eth0 of container pod1") as raised:
        node.libcni.add(network(types=("first",)), POD1)

    assert raised.value.code == 5
    assert node.took() == ["ADD first", "DEL first"]


def test_nothing_runs_where_a_plugin_is_missing(node: Node) -> None:
    with pytest.raises(PluginNotFoundError, match='ADD failed: no executable "fourth"'):
        node.libcni.add(network(types=("first", "fourth")), POD1)

    assert node.took() == []


def test_a_second_add_of_an_attachment_runs_nothing(node: Node) -> None:
    node.libcni.add(network(), POD1)
    content = node.cached.read_bytes()
    node.take_calls()

    with pytest.raises(CniError, match="attachment eth0 of container pod1 to mynet is there already"):
        node.libcni.add(network(), POD1)

    assert node.took() == []
    assert node.cached.read_bytes() == content


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment("", "/n", "eth0"),
        Attachment("a b", "/n", "eth0"),
        Attachment("pod1", "/n", ""),
        Attachment("pod1", "/n", "a-name-that-is-too-long"),
        Attachment("pod1", "/n", ".."),
        Attachment("pod1", "/n", "a:b"),
        Attachment("pod1", "/n", "eth0", (("a", "b;c"),)),
    ],
)
def test_an_attachment_that_cannot_be_runs_nothing(node: Node, attachment: Attachment) -> None:
    with pytest.raises(CniError):
        node.libcni.add(network(), attachment)

    assert node.took() == []


# --- DEL


def test_del_goes_in_reverse_with_the_final_result_and_forgets(node: Node) -> None:
    result = node.libcni.add(network(), POD1)
    node.take_calls()

    node.libcni.delete(network(), POD1)

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["DEL third", "DEL second", "DEL first"]
    assert all(call["config"]["prevResult"] == result for call in calls)
    assert not node.cached.exists()


def test_del_uses_the_arguments_of_the_add_where_it_has_none(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network(types=("first",)), BARE_POD1)

    (call,) = node.take_calls()
    assert call["environ"]["CNI_ARGS"] == "IgnoreUnknown=1;K8S_POD_NAME=pod1"
    assert call["environ"]["CNI_NETNS"] == ""
    assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 80}]}


def test_del_prefers_its_own_arguments(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    node.libcni.delete(
        network(types=("first",)), Attachment("pod1", "", "eth0", (("A", "b"),), {"portMappings": [{"hostPort": 1}]})
    )

    (call,) = node.take_calls()
    assert call["environ"]["CNI_ARGS"] == "A=b"
    assert call["config"]["runtimeConfig"] == {"portMappings": [{"hostPort": 1}]}


def test_del_of_what_is_not_there_still_asks_every_plugin(node: Node) -> None:
    node.libcni.delete(network(), BARE_POD1)

    calls = node.take_calls()
    assert [call["plugin"] for call in calls] == ["third", "second", "first"]
    assert all("prevResult" not in call["config"] for call in calls)


@pytest.mark.parametrize("content", ["", "\0\0\0", '{"kind":"cniCacheV1","containerId":"po', '{"kind":"other"}'])
def test_an_unreadable_cache_file_never_blocks_del(node: Node, content: str) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.cached.write_text(content)

    node.libcni.delete(network(), BARE_POD1)

    assert node.took() == ["DEL third", "DEL second", "DEL first"]
    assert not node.cached.exists()
    assert len(node.warnings) == 1
    assert str(node.cached) in node.warnings[0]


def test_a_cached_result_that_is_none_does_not_block_del(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()
    node.cached.write_text(node.cached.read_text().replace('"interfaces":[', '"ips":5,"interfaces":['))

    node.libcni.delete(network(types=("first",)), BARE_POD1)

    (call,) = node.take_calls()
    assert "prevResult" not in call["config"]
    assert "deleting without its cached result: prevResult.ips: expected a list, got 5" in node.warnings[0]


def test_del_below_0_4_0_has_no_previous_result(node: Node) -> None:
    node.libcni.add(network("0.3.1", ("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network("0.3.1", ("first",)), POD1)

    (call,) = node.take_calls()
    assert "prevResult" not in call["config"]
    assert not node.cached.exists()


def test_del_converts_the_cached_result_when_the_lists_version_changed(node: Node) -> None:
    node.answer("first", "ADD", {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/16"}]})
    node.libcni.add(network("1.0.0", ("first",)), POD1)
    node.take_calls()

    node.libcni.delete(network("0.4.0", ("first",)), POD1)

    (call,) = node.take_calls()
    assert call["config"]["prevResult"] == {
        "cniVersion": "0.4.0",
        "ips": [{"version": "4", "address": "10.1.0.5/16"}],
    }


def test_del_stops_at_a_failure_and_can_be_repeated(node: Node) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.answer("second", "DEL", FAILURE)

    with pytest.raises(PluginError, match="plugin second: DEL failed with code 11: not now; try later"):
        node.libcni.delete(network(), POD1)
    assert node.took() == ["DEL third", "DEL second"]
    node.recover("second", "DEL")
    node.libcni.delete(network(), POD1)

    calls = node.take_calls()
    assert [call["plugin"] for call in calls] == ["third", "second", "first"]
    assert all(names(call["config"]["prevResult"]) == ["first", "second", "third"] for call in calls)
    assert not node.cached.exists()


# --- CHECK


def test_check_asks_every_plugin_with_the_final_result(node: Node) -> None:
    result = node.libcni.add(network(), POD1)
    node.take_calls()

    node.libcni.check(network(), Attachment("pod1", "/run/netns/pod1", "eth0"))

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["CHECK first", "CHECK second", "CHECK third"]
    assert all(call["config"]["prevResult"] == result for call in calls)
    assert calls[0]["environ"]["CNI_ARGS"] == "IgnoreUnknown=1;K8S_POD_NAME=pod1"
    assert node.cached.exists()


def test_check_stops_at_a_failure(node: Node) -> None:
    node.libcni.add(network(), POD1)
    node.take_calls()
    node.answer("second", "CHECK", FAILURE)

    with pytest.raises(PluginError, match="plugin second: CHECK failed with code 11"):
        node.libcni.check(network(), POD1)
    assert node.took() == ["CHECK first", "CHECK second"]


def test_check_is_not_for_versions_before_it(node: Node) -> None:
    node.libcni.add(network("0.3.1"), POD1)
    node.take_calls()

    with pytest.raises(CniError, match=r"version 0\.3\.1 has no CHECK") as raised:
        node.libcni.check(network("0.3.1"), POD1)

    assert raised.value.code == 1
    assert node.took() == []


def test_check_asks_nothing_when_disabled(node: Node) -> None:
    node.libcni.check(network(disableCheck=True), POD1)

    assert node.took() == []


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_check_needs_a_cached_result(node: Node, content: str | None) -> None:
    if content is not None:
        node.cached.parent.mkdir(parents=True)
        node.cached.write_text(content)

    with pytest.raises(CniError, match="no cached result of attachment eth0 of container pod1 to mynet"):
        node.libcni.check(network(), POD1)

    assert node.took() == []


# --- GC


def test_gc_deletes_what_is_cached_but_not_valid_and_then_asks_every_plugin(node: Node) -> None:
    for container_id in ("pod1", "pod2", "pod3"):
        node.libcni.add(
            network(), Attachment(container_id, f"/run/netns/{container_id}", "eth0", (("A", container_id),))
        )
    other = parse_network_list(b'{"cniVersion":"1.1.0","name":"other","plugins":[{"type":"first"}]}')
    node.libcni.add(other, POD1)
    node.take_calls()

    undone = node.libcni.gc(network(), [("pod2", "eth0"), ("pod9", "eth0"), ("pod3", "net1")])

    assert [attachment.container_id for attachment in undone] == ["pod1", "pod3"]
    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == [
        *["DEL third", "DEL second", "DEL first"] * 2,
        *["GC first", "GC second", "GC third"],
    ]
    assert [call["environ"]["CNI_CONTAINERID"] for call in calls] == ["pod1"] * 3 + ["pod3"] * 3 + [""] * 3
    assert calls[0]["environ"]["CNI_NETNS"] == "/run/netns/pod1"
    assert calls[0]["environ"]["CNI_ARGS"] == "A=pod1"
    assert names(calls[0]["config"]["prevResult"]) == ["first", "second", "third"]
    valid = [
        {"containerID": "pod2", "ifname": "eth0"},
        {"containerID": "pod9", "ifname": "eth0"},
        {"containerID": "pod3", "ifname": "net1"},
    ]
    for call in calls[6:]:
        assert call["config"]["cni.dev/valid-attachments"] == valid
        assert call["config"]["cni.dev/attachments"] == valid
        assert call["environ"]["CNI_PATH"] == str(node.bin_dir)
    assert [cached.attachment.container_id for cached in node.cache.attachments()] == ["pod2", "pod1"]


def test_gc_goes_on_past_failures_and_reports_them_together(node: Node) -> None:
    for container_id in ("pod1", "pod2"):
        node.libcni.add(network(types=("first",)), Attachment(container_id, "", "eth0"))
    node.take_calls()
    node.answer("first", "DEL", FAILURE)
    node.answer("first", "GC", FAILURE)

    with pytest.raises(ExceptionGroup, match="garbage collection of network mynet") as raised:
        node.libcni.gc(network(types=("first", "gone", "second")), [])

    of_each_pod = [
        'plugin gone: DEL failed: no executable "gone" (searched: ' + str(node.bin_dir) + ")",
        "plugin first: DEL failed with code 11: not now; try later",
    ]
    assert [str(error) for error in raised.value.exceptions] == [
        *of_each_pod,
        *of_each_pod,
        "plugin first: GC failed with code 11: not now; try later",
        'plugin gone: GC failed: no executable "gone" (searched: ' + str(node.bin_dir) + ")",
    ]
    assert raised.value.exceptions[0].__notes__ == ["stale attachment: container pod1, eth0"]
    assert node.took() == ["DEL second", "DEL first", "DEL second", "DEL first", "GC first", "GC second"]
    assert len(node.cache.attachments()) == 2


def test_gc_below_1_1_0_is_deletes_only(node: Node) -> None:
    node.libcni.add(network("1.0.0", ("first",)), POD1)
    node.take_calls()

    node.libcni.gc(network("1.0.0", ("first",)), [])

    assert node.took() == ["DEL first"]


def test_gc_does_nothing_when_disabled(node: Node) -> None:
    node.libcni.add(network(types=("first",)), POD1)
    node.take_calls()

    assert node.libcni.gc(network(types=("first",), disableGC="true"), []) == []

    assert node.took() == []
    assert node.cached.exists()


# --- STATUS, VERSION, validation


def test_status_asks_every_plugin_without_an_attachment(node: Node) -> None:
    node.libcni.status(network())

    calls = node.take_calls()
    assert [f"{call['verb']} {call['plugin']}" for call in calls] == ["STATUS first", "STATUS second", "STATUS third"]
    assert calls[0]["environ"] == {
        "CNI_COMMAND": "STATUS",
        "CNI_CONTAINERID": "",
        "CNI_NETNS": "",
        "CNI_IFNAME": "",
        "CNI_ARGS": "",
        "CNI_PATH": str(node.bin_dir),
    }
    assert calls[0]["config"] == {
        "cniVersion": "1.1.0",
        "name": "mynet",
        "type": "first",
        "capabilities": {"portMappings": True},
    }


def test_status_raises_the_first_failure(node: Node) -> None:
    node.answer("second", "STATUS", {"code": 50, "msg": "no addresses left"})

    with pytest.raises(PluginError) as raised:
        node.libcni.status(network())

    assert raised.value.code == 50
    assert node.took() == ["STATUS first", "STATUS second"]


def test_status_below_1_1_0_asks_nothing(node: Node) -> None:
    node.libcni.status(network("1.0.0"))

    assert node.took() == []


def test_versions_are_asked_with_what_old_skeletons_want(node: Node) -> None:
    assert node.versions("first") == ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]

    (call,) = node.take_calls()
    assert call["config"] == {"cniVersion": "1.1.0"}
    assert call["environ"] == {
        "CNI_COMMAND": "VERSION",
        "CNI_CONTAINERID": "",
        "CNI_NETNS": "dummy",
        "CNI_IFNAME": "dummy",
        "CNI_ARGS": "",
        "CNI_PATH": "dummy",
    }


def test_a_good_network_has_no_problems(node: Node) -> None:
    assert validate(network(), node.versions, node.warnings.append) == []
    assert node.warnings == []


def test_problems_of_a_network_are_all_listed_and_oddities_noted(node: Node) -> None:
    node.answer("second", "VERSION", {"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]})
    plugins: list[dict[str, object]] = [
        {"type": "first", "ipam": {"type": "lost"}, "capabilities": {"teleport": True, "mac": True}},
        {"type": "second", "runtimeConfig": {}, "cni.dev/x": 1, "args": {}},
        {"type": "gone"},
    ]

    problems = validate(network(plugins=plugins, disablecheck=True), node.versions, node.warnings.append)

    old = (
        "plugins[1].type: plugin second does not speak version 1.1.0, only 0.4.0, 1.0.0; containerd 2.3 goes NotReady"
        ' with this list: set cniVersion "1.0.0", or use a second that speaks 1.1.0'
    )
    assert problems == [
        f'plugins[0].ipam.type: plugin lost: VERSION failed: no executable "lost" (searched: {node.bin_dir})',
        "plugins[1].runtimeConfig: the key is the runtime's own, what a file says there is ignored",
        "plugins[1].cni.dev/x: the key is the runtime's own, what a file says there is ignored",
        old,
        f'plugins[2].type: plugin gone: VERSION failed: no executable "gone" (searched: {node.bin_dir})',
    ]
    assert node.warnings == [
        'disablecheck: the key is ignored, "disableCheck" was meant',
        "plugins[0].capabilities.teleport: not a capability that CONVENTIONS.md knows",
        "plugins[1].args: the key is reserved, though passed on and widely used",
    ]


# --- a reference plugin


@pytest.fixture
def host_local(tmp_path: Path) -> Callable[[str], NetworkList]:
    def listed(version: str) -> NetworkList:
        ipam = {"type": "host-local", "subnet": "10.9.0.0/29", "dataDir": str(tmp_path / "addresses")}
        plugin = {"type": "host-local", "ipam": ipam}
        return parse_network_list(json.dumps({"cniVersion": version, "name": "mynet", "plugins": [plugin]}).encode())

    return listed


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"])
def test_debians_host_local_serves_a_whole_life(
    tmp_path: Path, host_local: Callable[[str], NetworkList], version: str
) -> None:
    """No mark for root: host-local touches nothing but its folder of addresses."""
    warnings: list[str] = []
    executor = Executor([Path("/usr/lib/cni")])
    libcni = Libcni(executor, ResultCache(tmp_path / "cni", warn=warnings.append), warn=warnings.append)
    listed = host_local(version)
    reserved = tmp_path / "addresses" / "mynet" / "10.9.0.2"

    result = libcni.add(listed, POD1)

    assert result["cniVersion"] == version
    assert "10.9.0.2/29" in json.dumps(result)
    assert reserved.read_bytes() == b"pod1\r\neth0"
    if version in {"0.4.0", "1.0.0"}:
        libcni.check(listed, POD1)
    assert validate(listed, partial(plugin_versions, executor), warnings.append) == []
    libcni.delete(listed, BARE_POD1)
    assert not reserved.exists()
    libcni.delete(listed, BARE_POD1)
    assert warnings == []


def test_debians_host_local_says_what_is_wrong(tmp_path: Path, host_local: Callable[[str], NetworkList]) -> None:
    libcni = Libcni(Executor([Path("/usr/lib/cni")]), ResultCache(tmp_path / "cni", warn=print), warn=print)
    for number in range(3, 8):
        libcni.add(host_local("1.0.0"), Attachment(f"pod{number}", "/proc/self/ns/net", "eth0"))

    with pytest.raises(PluginError, match=r"plugin host-local: ADD failed with code 999: .*no IP addresses available"):
        libcni.add(host_local("1.0.0"), POD1)

    assert len(libcni.gc(host_local("1.0.0"), [("pod3", "eth0")])) == 4
    libcni.add(host_local("1.0.0"), POD1)
