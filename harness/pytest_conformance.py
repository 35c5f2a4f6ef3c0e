"""The conformance suite as pytest items: three lines in the `conftest.py` of a plugin's author, an item for each check.

    from harness.pytest_conformance import conformance

    conformance(bin_dir="build", conf="my.conflist")

An item is `conftest.py::conformance::bridge[del-twice]` and has the marker `conformance`. A check that does not apply
is skipped with the reason, a warning is a `ConformanceWarning`, a failure is told as `cni-harness conformance` does.
Like tests with the marker `sudo`, the items run as root, or are skipped. No plugin is executed until one of them runs.
"""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

__all__ = ["ConformanceWarning", "Declaration", "conformance", "pytest_collect_file", "pytest_configure"]

_DECLARED: Final = "__conformance__"
"""What a conftest is given to keep what it declared."""


class ConformanceWarning(UserWarning):
    """The plugin does not do what is no more than a convention, or permitted."""


class Declaration(NamedTuple):
    """What one call of `conformance` said."""

    name: str
    bin_dirs: tuple[Path, ...]
    conf: Path
    plugins: tuple[str, ...]
    profile: str | None
    checks: tuple[str, ...]
    watched: tuple[Path, ...]
    prepare: Path | None
    timeout: float


def conformance(  # noqa: PLR0913 -- most calls give two, by name
    *,
    bin_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    conf: str | os.PathLike[str],
    name: str = "conformance",
    plugins: Sequence[str] = (),
    profile: str | None = None,
    checks: Sequence[str] = (),
    watch: Sequence[str | os.PathLike[str]] = (),
    prepare: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> None:
    """Have the plugins of a network list examined: to be called in a conftest.py, whose folder paths count from.

    Args:
        bin_dir: the folder of the executables, or several, in which they are looked for in this order.
        conf: the network list, or the configuration of one plugin.
        name: what the items are below, where one conftest.py declares several lists.
        plugins: only these of the list; otherwise all, and the IPAM plugins that they delegate to.
        profile: "interface", "chained" or "ipam": what the plugins are where their place in the list does not tell.
        checks: only these.
        watch: folders where the plugin keeps files, which it may not leave there.
        prepare: an executable that makes on each node what the plugins need there.
        timeout: how long one execution may take, in seconds.

    Raises pytest.UsageError where this is no conftest.py, or the name is taken.
    """
    frame = inspect.currentframe()
    caller: dict[str, Any] = frame.f_back.f_globals if frame and frame.f_back else {}
    conftest = Path(caller.get("__file__", ""))
    if conftest.name != "conftest.py":
        raise pytest.UsageError(f"{conftest}: conformance() is for a conftest.py")
    declared: dict[str, Declaration] = caller.setdefault(_DECLARED, {})
    if name in declared:
        raise pytest.UsageError(f"{conftest}: conformance() twice with the name {name!r}: give one another name=")
    folder = conftest.parent
    several = [bin_dir] if isinstance(bin_dir, (str, os.PathLike)) else bin_dir
    declared[name] = Declaration(
        name=name,
        bin_dirs=tuple(folder / each for each in several),
        conf=folder / conf,
        plugins=tuple(plugins),
        profile=profile,
        checks=tuple(checks),
        watched=tuple(folder / each for each in watch),
        prepare=None if prepare is None else folder / prepare,
        timeout=timeout,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "conformance: a check of the conformance suite for CNI plugins")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect what a conftest.py has declared, and nothing of any other file."""
    # A conftest.py that pytest has loaded is a plugin of that name, and no other file is.
    conftest = parent.config.pluginmanager.get_plugin(str(file_path))
    if not getattr(conftest, _DECLARED, None):
        return None
    from harness.conformance.items import ConformanceFile

    declaring: ConformanceFile = ConformanceFile.from_parent(parent, path=file_path)
    declaring.declared = getattr(conftest, _DECLARED)
    return declaring
