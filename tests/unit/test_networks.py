"""Network configurations are read as libcni reads them, and mistakes are said in one line."""

import json
from pathlib import Path

import pytest

from harness.libcni.networks import (
    NetworkError,
    NetworkList,
    load_networks,
    parse_network_list,
    read_network_file,
)

BRIDGE: dict[str, object] = {"type": "bridge", "bridge": "cni0"}


def listed(**keys: object) -> dict[str, object]:
    return {"cniVersion": "1.1.0", "name": "mynet", "plugins": [BRIDGE], **keys}


def parsed(**keys: object) -> NetworkList:
    return parse_network_list(json.dumps(listed(**keys)).encode())


def put(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_a_list_is_read_with_its_plugins_in_order() -> None:
    text = json.dumps(listed(plugins=[BRIDGE, {"type": "portmap", "capabilities": {"portMappings": True}}]))

    network = parse_network_list(text.encode(), Path("/etc/cni/net.d/10-mynet.conflist"))

    assert network.name == "mynet"
    assert network.cni_version == "1.1.0"
    assert [plugin.type for plugin in network.plugins] == ["bridge", "portmap"]
    assert network.plugins[0].raw == BRIDGE
    assert (network.disable_check, network.disable_gc) == (False, False)
    assert network.raw == text.encode()
    assert network.source == Path("/etc/cni/net.d/10-mynet.conflist")


def test_only_capabilities_declared_true_count() -> None:
    network = parsed(plugins=[{"type": "a", "capabilities": {"mac": True, "ips": False, "dns": None}}])

    assert network.plugins[0].capabilities == {"mac"}


def test_keys_of_plugins_are_read_without_regard_to_case_but_kept_as_written() -> None:
    written = {"TYPE": "bridge", "Capabilities": {"mac": True}, "IPAM": {"Type": "host-local"}}

    plugin = parsed(plugins=[written]).plugins[0]

    assert (plugin.type, plugin.capabilities, plugin.delegate) == ("bridge", frozenset({"mac"}), "host-local")
    assert plugin.raw == written


def test_keys_of_lists_are_known_in_their_own_spelling_only() -> None:
    network = parsed(DisableCheck=True, CNIVERSION="0.4.0")

    assert not network.disable_check
    assert network.cni_version == "1.1.0"


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        ({"cniVersion": "0.4.0"}, "0.4.0"),
        ({"cniVersion": ""}, "0.1.0"),
        ({"cniVersion": None}, "0.1.0"),
        ({"cniVersions": []}, "1.1.0"),
        ({"cniVersions": ["0.3.1", "1.0.0", "0.4.0"], "cniVersion": None}, "1.0.0"),
        ({"cniVersions": ["1.0.0", "1.1.0"], "cniVersion": "0.4.0"}, "1.1.0"),
        ({"cniVersions": ["0.3.1"], "cniVersion": "1.0.0"}, "1.0.0"),
        ({"cniVersions": ["1.0.0", "1.2.0", "9.0.0"], "cniVersion": "2.0.0"}, "1.0.0"),
        ({"cniVersions": ["1.0.5", "0.4.0"], "cniVersion": None}, "0.4.0"),
    ],
)
def test_the_highest_version_known_is_selected(keys: dict[str, object], selected: str) -> None:
    assert parsed(**keys).cni_version == selected


@pytest.mark.parametrize(
    ("written", "read"),
    [(True, True), (False, False), ("true", True), ("False", False), ("TRUE", True), (None, False)],
)
def test_switches_are_booleans_or_their_words(written: object, read: object) -> None:
    network = parsed(disableCheck=written, disableGC=written)

    assert (network.disable_check, network.disable_gc) == (read, read)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], "configuration: expected an object, got [1]"),
        (listed(name=None), "name: missing network name"),
        (listed(name=5), "name: expected a string, got 5"),
        (listed(name="a/b"), 'name: invalid characters in network name "a/b"'),
        (listed(name="../up"), 'name: invalid characters in network name "../up"'),
        (listed(cniVersion=1.0), "cniVersion: expected a string, got 1.0"),
        (listed(cniVersion="1.0.x"), 'got "1.0.x"'),
        (listed(cniVersion="7.0.0"), 'cniVersion: this runtime does not know "7.0.0"'),
        (listed(cniVersions="1.0.0"), 'cniVersions: expected a list, got "1.0.0"'),
        (listed(cniVersions=["1.0.0", 2]), "cniVersions[1]: expected a string, got 2"),
        (listed(cniVersions=["one"]), 'got "one"'),
        (listed(disableCheck="yes"), 'disableCheck: expected true or false, got "yes"'),
        (listed(disableGC=1), "disableGC: expected true or false, got 1"),
        (listed(loadOnlyInlinedPlugins="no"), 'loadOnlyInlinedPlugins: expected true or false, got "no"'),
        (listed(plugins=None, loadOnlyInlinedPlugins=True), "plugins: required key is missing"),
        (listed(plugins=None), 'plugins: network "mynet" has no plugins'),
        (listed(plugins=[]), 'plugins: network "mynet" has no plugins'),
        (listed(plugins={"type": "a"}), 'plugins: expected a list, got {"type": "a"}'),
        (listed(plugins=[BRIDGE, "b"]), 'plugins[1]: expected an object, got "b"'),
        (listed(plugins=[{}]), "plugins[0].type: required key is missing"),
        (listed(plugins=[{"type": ""}]), 'plugins[0].type: expected the name of an executable, got ""'),
        (listed(plugins=[{"type": "../sh"}]), 'plugins[0].type: expected the name of an executable, got "../sh"'),
        (listed(plugins=[{"type": ".."}]), 'plugins[0].type: expected the name of an executable, got ".."'),
        (listed(plugins=[{"type": 7}]), "plugins[0].type: expected a string, got 7"),
        (
            listed(plugins=[{"type": "a", "capabilities": {"mac": "yes"}}]),
            'plugins[0].capabilities.mac: expected true or false, got "yes"',
        ),
        (listed(plugins=[{"type": "a", "ipam": "dhcp"}]), 'plugins[0].ipam: expected an object, got "dhcp"'),
        (listed(plugins=[{"type": "a", "ipam": {"type": 1}}]), "plugins[0].ipam.type: expected a string, got 1"),
    ],
)
def test_errors_name_file_key_and_value(document: object, message: str) -> None:
    with pytest.raises(NetworkError) as raised:
        parse_network_list(json.dumps(document).encode(), Path("/conf/9.conflist"))

    assert str(raised.value).startswith("/conf/9.conflist: ")
    assert message in str(raised.value)
    assert str(raised.value).count("/conf/9.conflist") == 1
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1, column 1: not JSON"),
        (b'{"name": "a",\n  plugins: []}', "line 2, column 3: not JSON"),
        (b'{"name": "a"} x', "line 1, column 15: not JSON"),
        (b'{"name": "\xff"}', "byte 10: not UTF-8"),
        (b"\xef\xbb\xbf{}", "line 1, column 1: not JSON"),
        (b'{"name": "a", "name": "b"}', 'name: the key is written twice in one object, last as "b"'),
        (b'{"name": "a", "rate": NaN}', "NaN is not a number of JSON"),
        (b'{"name": "a", "rate": 1e999}', "1e999 is beyond a 64-bit number"),
        (b'{"name": ' + b"1" * 5000 + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_invalid_json_is_located_by_line_and_column(text: bytes, message: str) -> None:
    with pytest.raises(NetworkError) as raised:
        parse_network_list(text, Path("x.conflist"))

    assert str(raised.value).startswith("x.conflist: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("suffix", [".conf", ".json"])
def test_a_file_with_one_plugin_is_a_list_of_it(tmp_path: Path, suffix: str) -> None:
    single = {"CNIVersion": "0.4.0", "Name": "solo", "type": "bridge", "mtu": 9000}
    path = put(tmp_path / f"10-solo{suffix}", single)

    network = read_network_file(path)

    assert (network.name, network.cni_version) == ("solo", "0.4.0")
    assert network.plugins[0].raw == single
    assert parse_network_list(network.raw).plugins == network.plugins


def test_a_list_in_a_file_for_one_plugin_is_pointed_out(tmp_path: Path) -> None:
    path = put(tmp_path / "10.conf", listed())

    with pytest.raises(NetworkError, match=r'10\.conf: plugins: .* ends in "\.conflist"'):
        read_network_file(path)


def test_single_plugin_without_name_is_loaded_as_by_libcni(tmp_path: Path) -> None:
    """The list of many a test node is 98-noop.conf, which makes the node ready: no pod uses it."""
    path = put(tmp_path / "98-noop.conf", {"cniVersion": "0.3.1", "type": "noop"})

    network = read_network_file(path)

    assert (network.name, [plugin.type for plugin in network.plugins]) == ("", ["noop"])
    with pytest.raises(NetworkError, match=r"98-noop\.conf: name: missing network name"):
        network.require_name()


def test_list_without_name_is_refused_in_any_file(tmp_path: Path) -> None:
    path = put(tmp_path / "10.conflist", {"cniVersion": "1.0.0", "plugins": [BRIDGE]})

    with pytest.raises(NetworkError, match=r"10\.conflist: name: missing network name"):
        read_network_file(path)


@pytest.mark.parametrize("name", ["a/b", "../up"])
def test_single_plugin_with_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / "10.conf", {"cniVersion": "1.0.0", "name": name, "type": "bridge"})

    with pytest.raises(NetworkError, match="name: invalid characters"):
        read_network_file(path)


def test_plugins_of_the_networks_folder_are_appended_by_file_name(tmp_path: Path) -> None:
    path = put(tmp_path / "10-mynet.conflist", listed())
    put(tmp_path / "mynet" / "20.conf", {"type": "tuning"})
    put(tmp_path / "mynet" / "10.conf", {"type": "portmap"})
    put(tmp_path / "mynet" / "30.json", {"type": "ignored"})

    network = read_network_file(path)

    assert [plugin.type for plugin in network.plugins] == ["bridge", "portmap", "tuning"]
    assert parse_network_list(network.raw).plugins == network.plugins


def test_a_list_may_have_all_its_plugins_in_the_folder(tmp_path: Path) -> None:
    path = put(tmp_path / "10-mynet.conflist", {"name": "mynet", "cniVersion": "1.0.0"})
    put(tmp_path / "mynet" / "10.conf", {"type": "portmap"})

    assert [plugin.type for plugin in read_network_file(path).plugins] == ["portmap"]


def test_folder_is_ignored_with_load_only_inlined_plugins(tmp_path: Path) -> None:
    path = put(tmp_path / "10-mynet.conflist", listed(loadOnlyInlinedPlugins=True))
    put(tmp_path / "mynet" / "10.conf", {"type": "portmap"})

    assert [plugin.type for plugin in read_network_file(path).plugins] == ["bridge"]


def test_an_error_in_the_folder_names_its_own_file(tmp_path: Path) -> None:
    path = put(tmp_path / "10-mynet.conflist", listed())
    culprit = put(tmp_path / "mynet" / "10.conf", {"type": 3})

    with pytest.raises(NetworkError) as raised:
        read_network_file(path)

    assert str(raised.value) == f"{culprit}: type: expected a string, got 3"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"gone\.conflist: No such file or directory"):
        read_network_file(tmp_path / "gone.conflist")


def test_networks_come_by_file_name_and_other_files_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "30-c.json", {"name": "c", "type": "x"})
    put(tmp_path / "10-a.conflist", listed(name="a"))
    put(tmp_path / "20-b.conf", {"name": "b", "type": "x"})
    put(tmp_path / "05-no.conflist.bak", listed(name="no"))
    (tmp_path / "00-folder.conflist").mkdir()

    assert [network.name for network in load_networks(tmp_path)] == ["a", "b", "c"]


def test_the_first_file_of_a_name_counts_but_a_list_goes_before_a_single_plugin(tmp_path: Path) -> None:
    put(tmp_path / "10.conf", {"name": "net", "type": "single"})
    put(tmp_path / "20.conflist", listed(name="net", plugins=[{"type": "first"}]))
    put(tmp_path / "30.conflist", listed(name="net", plugins=[{"type": "second"}]))

    assert [network.plugins[0].type for network in load_networks(tmp_path)] == ["first"]


def test_no_folder_is_no_networks(tmp_path: Path) -> None:
    assert load_networks(tmp_path / "none") == []


def test_broken_file_is_an_error_without_an_error_handler(tmp_path: Path) -> None:
    put(tmp_path / "10.conflist", listed())
    put(tmp_path / "20.conflist", {"name": "broken"})
    errors: list[NetworkError] = []

    networks = load_networks(tmp_path, on_error=errors.append)

    assert [network.name for network in networks] == ["mynet"]
    assert ["20.conflist" in str(error) for error in errors] == [True]
    with pytest.raises(NetworkError, match="broken"):
        load_networks(tmp_path)
