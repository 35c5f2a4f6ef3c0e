"""The version for examining a plugin: the highest of its list that it and all plugins around it speak."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from harness.conformance.subject import Subject
from harness.libcni.execute import Executor, PluginError
from harness.libcni.outcome import decode_versions
from harness.runtime.site import Site

__all__ = ["in_common_version"]


def in_common_version(subject: Subject, state_dir: Path, timeout: float) -> Subject:
    """Return the subject in the highest version that its list and all its plugins have (SPEC.md section 1).

    If no version is common, or a plugin does not answer VERSION, the subject stays in the highest of the list. A plugin
    may take `timeout` seconds for its VERSION. Raises OSError.
    """
    network = subject.network
    if len(network.cni_versions) < 2:  # noqa: PLR2004 -- a choice needs two
        return subject
    with Site(state_dir, "conformance") as site:
        spoken = site.node().run(_spoken_by_all, subject, timeout)
    common = [version for version in network.cni_versions if version in spoken]
    return replace(subject, network=replace(network, cni_version=common[-1])) if common else subject


def _spoken_by_all(subject: Subject, timeout: float) -> Collection[str]:
    """Ask each of the plugins, and return the versions that all of them have; none if one did not answer."""
    executor = Executor(subject.bin_dirs, timeout=timeout)
    plugins = (*subject.before, subject.plugin)
    names = ({plugin.type for plugin in plugins} | {plugin.delegate for plugin in plugins}) - {""}
    stdin = json.dumps({"cniVersion": subject.network.cni_version}).encode()
    try:
        return set.intersection(*(set(decode_versions(executor.run(name, "VERSION", stdin, {}))) for name in names))
    except PluginError:
        return ()
