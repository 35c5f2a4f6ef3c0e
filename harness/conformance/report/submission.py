"""The report for the folder reports/: small enough to be kept in a repository, with every failure and no transcript."""

import shlex
from hashlib import sha256
from pathlib import Path
from typing import Final

import yaml

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.document import header, standing_entry, summary
from harness.conformance.report.markdown import escaped, overview, reproduction
from harness.conformance.report.outline import PluginReport, plugin_reports
from harness.conformance.report.wording import TOLD, facts, notes
from harness.files import write_atomically
from harness.output import printable

KIND: Final = "cni-harness conformance report"
"""The value of the key `kind`."""
REPORT: Final = "report.yaml"
PAGE: Final = "README.md"
_SEAL_LINES: Final = 2


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


def to_yaml(examination: Examination) -> str:
    """Return the report as YAML: the IDs of the checks by outcome, and the facts about failures, errors and warnings.

    Paths below the working folder are relative, so that reports of different machines can be compared.
    """
    found = {
        "kind": KIND,
        **header(examination),
        "command": shlex.join(examination.command),
        "plugins": [_plugin(each, examination) for each in plugin_reports(examination)],
    }
    text: str = yaml.dump(_plain(found), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def write_folder(examination: Examination, folder: Path) -> None:
    """Write the report and a page about it into a folder, which is named after the project. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"# {escaped(folder.name)}\n",
        *overview(examination),
        f"[{REPORT}]({REPORT}) has every check. docs/conformance-report.md explains the words.\n",
        *reproduction(examination),
    ]
    page, report = _without_folder("\n".join(lines)).encode(), to_yaml(examination).encode()
    write_atomically(folder / PAGE, page)
    write_atomically(folder / REPORT, report + seal(page, report))


def seal(page: bytes, report: bytes) -> bytes:
    """Return the last lines of a report: the SHA-256 of its page and of the lines before."""
    return f"page_sha256: {sha256(page).hexdigest()}\nreport_sha256: {sha256(report).hexdigest()}\n".encode()


def is_unmodified(folder: Path) -> bool:
    """Tell whether the two files in a folder are as the suite wrote them. Raises OSError."""
    page, whole = (folder / PAGE).read_bytes(), (folder / REPORT).read_bytes()
    report = b"".join(whole.splitlines(keepends=True)[:-_SEAL_LINES])
    return whole == report + seal(page, report)


def _plugin(report: PluginReport, examination: Examination) -> dict[str, object]:
    subject = report.subject
    return {
        "plugin": subject.type,
        "network": subject.network.name,
        "profile": str(subject.profile),
        "cni_version": subject.network.cni_version,
        **standing_entry(report.standing),
        **({"left_for_good": list(report.left_for_good)} if report.left_for_good else {}),
        "summary": {name: number for name, number in summary(report.findings).items() if number},
        "told": [_told(finding, examination) for finding in report.told],
        "pass": sorted(report.passed),
        "not_examined": report.not_examined,
        "not_applicable": report.not_applicable,
    }


def _told(finding: Finding, examination: Examination) -> dict[str, object]:
    return {
        "check": finding.check.id,
        "level": str(finding.check.level),
        "outcome": str(finding.outcome),
        **({} if finding.outcome in TOLD else {"detail": finding.detail}),
        **{name: fact for name, fact in facts(finding) if name != "sent"},
        **dict(notes(finding, examination.arguments)),
    }


def _without_folder(text: str) -> str:
    return text.replace(f"{Path.cwd()}/", "")


def _plain(value: object) -> object:
    """Return a document whose texts have no control characters, and no path of the working folder."""
    if isinstance(value, str):
        return _without_folder(printable(value))
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
