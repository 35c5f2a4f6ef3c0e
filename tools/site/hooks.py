"""MkDocs calls this while it builds the site: pages that docs/ does not have, and links as the site needs them.

README.md is the first page. Links to files that are no pages, such as sources, become text: the site has no copy.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.site.command_line import verbs
from tools.site.keys import keys_page

_ROOT: Final = Path(__file__).resolve().parents[2]
_ROOT_PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {site: (_ROOT / name).read_text() for name, site in _ROOT_PAGES.items()}
    pages |= {
        "command-line.md": "\n".join(_command_line()),
        "keys.md": keys_page(),
        "api/skel.md": _api("skel", ["skel"]),
        "api/netlink.md": _api("netlink", _modules("netlink")),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: object) -> str:  # noqa: ANN401 -- MkDocs' Page
    """Rewrite links of the repository into links of the site."""
    site_of = {name: site for name, site in _ROOT_PAGES.items() if files.get_file_from_path(site)}
    source = page.file.src_uri
    at = next((name for name, site in site_of.items() if site == source), f"docs/{source}")

    def rewritten(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target:
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(at), target))
        site = site_of.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
        if not site or files.get_file_from_path(site) is None:
            # A link that is dead in the repository, too, stays: MkDocs fails for it.
            return link[0] if not (_ROOT / there).exists() else text if text.startswith("`") else f"`{text}`"
        return f"{image}[{text}]({posixpath.relpath(site, posixpath.dirname(source) or '.')}{anchor})"

    return _LINK.sub(rewritten, markdown)


def _command_line() -> Iterator[str]:
    yield from ("# The command line", "", "Generated from `cni-harness --help` and the help of each verb.")
    for verb in verbs():
        yield from ("", f"## {verb.name}", "", "```text", f"{verb.name} {verb.usage}", "```", "")
        for paragraph in verb.paragraphs:
            yield from (paragraph.replace("<", "&lt;"), "")
        if verb.examples:
            examples = "\n\n".join(f"# {purpose}\n{line}" for line, purpose in verb.examples)
            yield from ("```sh", examples, "```", "")
        if verb.options:
            yield from ("| option | meaning |", "| --- | --- |")
        for names, words in verb.options:
            # A pipe within backticks ends no cell, and shows a backslash before it.
            yield f"| `{names}` | {words.replace('<', '&lt;').replace('|', '&#124;')} |"


def _api(package: str, modules: list[str]) -> str:
    parts = [f"# API: {package}", "", "Generated from the docstrings.", ""]
    for module in modules:
        parts += [f"## {module}", "", f"::: {module}", ""]
    return "\n".join(parts)


def _modules(package: str) -> list[str]:
    """Name the modules of a package but `__main__` and the face."""
    paths = sorted((_ROOT / package).glob("*.py"))
    return [f"{package}.{path.stem}" for path in paths if not path.stem.startswith("_")]
