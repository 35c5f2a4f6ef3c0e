"""The plugin under test in its place: the plugins before it, and those that it delegates to."""

from dataclasses import replace

from harness.libcni.networks import PluginConfig
from tests import findings


def test_executables_include_earlier_plugins_and_delegates() -> None:
    bridge = PluginConfig("bridge", frozenset(), {}, "host-local")
    ptp = PluginConfig("ptp", frozenset(), {}, "host-local")
    subject = replace(findings.subject(), plugin=PluginConfig("tuning", frozenset(), {}), before=(bridge, ptp))

    assert subject.executables == ["tuning", "bridge", "host-local", "ptp"]
