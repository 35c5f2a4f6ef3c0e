"""The JSON Schemas have the plugins' keys: none more, none less."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from harness.libcni.networks import LIST_KEYS
from ipam.dhcp_config import DhcpIpam, ProvidedOption, RequestedOption
from ipam.host_local_config import HostLocalIpam
from ipam.ranges import Range
from ipam.static import StaticAddress, StaticIpam
from plugins.bandwidth import BandwidthConfig
from plugins.bridge.config import BridgeConfig, VlanTrunk
from plugins.dummy import DummyConfig
from plugins.firewall import FirewallConfig
from plugins.host_device.config import HostDeviceConfig
from plugins.ipvlan import IpvlanConfig
from plugins.macvlan import MacvlanConfig
from plugins.noop import NoopConfig
from plugins.portmap import PortmapConfig
from plugins.ptp import PtpConfig
from plugins.sbr import SbrConfig
from plugins.tap import TapConfig
from plugins.tuning import TuningConfig
from plugins.vlan import VlanConfig
from plugins.vrf import VrfConfig
from skel import DNS, Config, Record, Route
from tests.cli import ROOT

SCHEMAS = ROOT / "conf" / "schemas"
DOCUMENTS = {path.name: json.loads(path.read_text()) for path in SCHEMAS.iterdir()}
RUNTIMES = {"runtimeConfig", "prevResult", "cni.dev/valid-attachments", "cni.dev/attachments"}
"""Keys that runtimes add: a file must not have them."""
EDITORS = {"$schema"}


def keys_of(cls: type[Record]) -> set[str]:
    return {known.key for known in cls._fields.values()}


def shared_keys() -> set[str]:
    return set(DOCUMENTS["common.schema.json"]["$defs"]["plugin"]["properties"]) - EDITORS


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bandwidth", BandwidthConfig),
        ("bridge", BridgeConfig),
        ("ipvlan", IpvlanConfig),
        ("dummy", DummyConfig),
        ("host-device", HostDeviceConfig),
        ("firewall", FirewallConfig),
        ("loopback", Config),
        ("macvlan", MacvlanConfig),
        ("noop", NoopConfig),
        ("portmap", PortmapConfig),
        ("ptp", PtpConfig),
        ("sbr", SbrConfig),
        ("vrf", VrfConfig),
        ("tuning", TuningConfig),
        ("vlan", VlanConfig),
        ("tap", TapConfig),
    ],
)
def test_schema_of_a_plugin_has_the_keys_that_it_reads(name: str, config: type[Record]) -> None:
    own = set(DOCUMENTS[f"{name}.schema.json"].get("properties", {}))

    assert own | shared_keys() == (keys_of(config) | {"args"}) - RUNTIMES


@pytest.mark.parametrize(
    ("schema", "config"),
    [
        (DOCUMENTS["dhcp.schema.json"], DhcpIpam),
        (DOCUMENTS["dhcp.schema.json"]["$defs"]["provided"], ProvidedOption),
        (DOCUMENTS["dhcp.schema.json"]["$defs"]["requested"], RequestedOption),
        (DOCUMENTS["host-local.schema.json"], HostLocalIpam),
        (DOCUMENTS["host-local.schema.json"]["$defs"]["range"], Range),
        (DOCUMENTS["static.schema.json"], StaticIpam),
        (DOCUMENTS["static.schema.json"]["$defs"]["address"], StaticAddress),
        (DOCUMENTS["bridge.schema.json"]["properties"]["vlanTrunk"]["items"], VlanTrunk),
        (DOCUMENTS["common.schema.json"]["$defs"]["route"], Route),
        (DOCUMENTS["common.schema.json"]["$defs"]["dns"], DNS),
    ],
    ids=[
        *("dhcp", "provided", "requested", "host-local", "range", "static", "static address"),
        *("vlanTrunk", "route", "dns"),
    ],
)
def test_schema_of_a_section_has_the_keys_that_are_read(schema: dict[str, Any], config: type[Record]) -> None:
    assert set(schema["properties"]) == keys_of(config)
    assert schema["unevaluatedProperties"] is False


def test_schema_of_a_list_has_the_keys_that_libcni_reads() -> None:
    assert set(DOCUMENTS["conflist.schema.json"]["properties"]) - EDITORS == set(LIST_KEYS)


def leaves(schema: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if "type" in schema and isinstance(schema["type"], str):
            yield path, schema
        for key, inner in schema.items():
            if key not in {"if", "not"}:
                yield from leaves(inner, f"{path}/{key}")


def test_every_value_is_described_for_the_message_about_a_wrong_one() -> None:
    untitled = [
        path for name, document in DOCUMENTS.items() for path, leaf in leaves(document, name) if "title" not in leaf
    ]

    assert untitled == []


def test_schemas_are_schemas() -> None:
    for document in DOCUMENTS.values():
        Draft202012Validator.check_schema(document)


def as_an_editor_does(path: Path) -> list[str]:
    """Hold a file against the schema of lists, without our own rules about capitals and null."""
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(document)) for name, document in DOCUMENTS.items()
    )
    validator = Draft202012Validator({"$ref": "conflist.schema.json"}, registry=registry)
    return [error.message for error in validator.iter_errors(json.loads(path.read_text()))]


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.conflist")), ids=lambda path: path.name)
def test_own_lists_fit_the_schemas(path: Path) -> None:
    assert as_an_editor_does(path) == []


def test_an_editor_finds_a_mistyped_key_and_a_bad_value(tmp_path: Path) -> None:
    plugin = {"type": "bridge", "ipMask": True, "vlan": 99999, "ipam": {"type": "host-local", "subnet": "10.0.0.0"}}
    (path := tmp_path / "net.conflist").write_text(json.dumps({"name": "net", "plugins": [plugin]}))

    found = " ".join(as_an_editor_does(path))

    assert "ipMask" in found
    assert "99999" in found
    assert "10.0.0.0" in found
