"""pytest's collectors and items for declared conformance suites; the checks run in another process."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from cni_harness_pytest.declaration import ConformanceWarning, Declaration, Session, declared_by

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

_SESSION: Final = pytest.StashKey[Session]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "conformance: a check of the conformance suite for CNI plugins")
    config.stash[_SESSION] = Session()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process of the checks. Another plugin's `pytest_configure` may have failed before ours ran."""
    if (session := config.stash.get(_SESSION, None)) is not None:
        session.end()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the declarations of a conftest.py, and nothing of any other file."""
    # A conftest.py that pytest has loaded is a plugin of that name, and no other file is.
    declared = declared_by(parent.config.pluginmanager.get_plugin(str(file_path)))
    if not declared:
        return None
    declaring: ConformanceFile = ConformanceFile.from_parent(parent, path=file_path)
    declaring.declared = declared
    return declaring


class ConformanceFile(pytest.File):
    """A conftest.py with declarations."""

    declared: dict[str, Declaration]

    def collect(self) -> Iterator["ConformanceSuite"]:
        """Yield a collector for each declaration."""
        for name, declaration in self.declared.items():
            suite: ConformanceSuite = ConformanceSuite.from_parent(self, name=name)
            suite.declaration = declaration
            yield suite


class ConformanceSuite(pytest.Collector):
    """The plugins of one network list."""

    declaration: Declaration

    def collect(self) -> Iterator["ConformanceItem"]:
        """Yield each check of each plugin."""
        answer = self.config.stash[_SESSION].ask(verb="collect", declaration=self.declaration)
        if "error" in answer:
            raise self.CollectError(answer["error"])
        for name in answer["items"]:
            item: ConformanceItem = ConformanceItem.from_parent(self, name=name)
            item.add_marker("conformance")
            if self.config.pluginmanager.hasplugin("sudo"):
                item.add_marker("sudo")
            yield item


class ConformanceItem(pytest.Item):
    """One check of one plugin."""

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the declaring file; the text of a failure has all else."""
        return self.path, None, self.nodeid.partition("::")[2]

    def runtest(self) -> None:
        """Have the check run, and fail, skip, warn or pass as it did."""
        if os.geteuid() != 0:
            pytest.skip("needs root: it makes network namespaces")
        assert isinstance(self.parent, ConformanceSuite)  # noqa: S101 -- for the types
        answer = self.config.stash[_SESSION].ask(verb="run", declaration=self.parent.declaration, item=self.name)
        if "error" in answer:
            pytest.fail(answer["error"], pytrace=False)
        if answer["known"]:
            pytest.xfail(answer["known"])
        if answer["outdated"]:
            warnings.warn(answer["outdated"], ConformanceWarning, stacklevel=1)
        match answer["outcome"]:
            case "n/a" | "not examined":
                pytest.skip(answer["text"])
            case "fail" | "error":
                pytest.fail(answer["text"], pytrace=False)
            case "warn":
                warnings.warn(answer["text"], ConformanceWarning, stacklevel=1)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: "TracebackStyle | None" = None
    ) -> "str | TerminalRepr":
        """Return the text alone of a warning that is an error."""
        if isinstance(excinfo.value, ConformanceWarning):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)
