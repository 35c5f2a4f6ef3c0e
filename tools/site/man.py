"""Manual pages of section 8, made of the command line's own help: `python -m tools.site.man FOLDER`."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.locations import own_version
from tools.site.command_line import Verb, verbs

_SHARED: Final = "The options of cni-harness(8) may stand here, too."


def write_manual_pages(folder: Path) -> list[Path]:
    """Write a page for `cni-harness` and for each verb, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    described = list(verbs())
    written = []
    for verb in described:
        path = folder / f"{_file_name(verb)}.8"
        path.write_text(manual_page(verb, described))
        written.append(path)
    return written


def manual_page(verb: Verb, described: Sequence[Verb]) -> str:
    """Return one page in the language of man(7)."""
    return "\n".join(_lines(verb, described)) + "\n"


def _lines(verb: Verb, described: Sequence[Verb]) -> Iterator[str]:
    name = _file_name(verb)
    # No date: the same source gives the same page.
    yield f'.TH "{name.upper()}" "8" "" "cni-harness {own_version()}" "cni-harness"'
    yield from (".SH NAME", f"{name} \\- {_roff(verb.summary)}")
    yield from (".SH SYNOPSIS", f"\\fB{_roff(verb.name)}\\fR {_roff(verb.usage)}", ".SH DESCRIPTION")
    for paragraph in verb.paragraphs:
        yield from (".PP", _roff(paragraph))
    if verb.examples:
        yield ".SH EXAMPLES"
    for line, purpose in verb.examples:
        yield from (".TP", f"\\fB{_roff(line)}\\fR", _roff(purpose))
    if below := [each for each in described if _is_below(each, verb)]:
        yield ".SH VERBS"
        for each in below:
            yield from (".TP", f"\\fB{_roff(each.name)}\\fR", _roff(each.summary))
    yield ".SH OPTIONS"
    for names, words in verb.options:
        yield from (".TP", f"\\fB{_roff(names)}\\fR", _roff(words))
    if " " in verb.name:
        yield from (".PP", _SHARED)
    others = [_file_name(each) for each in described if each is not verb]
    yield from (".SH SEE ALSO", ", ".join(f"\\fB{_roff(other)}\\fR(8)" for other in others))


def _is_below(verb: Verb, above: Verb) -> bool:
    return verb.name.rpartition(" ")[0] == above.name


def _file_name(verb: Verb) -> str:
    return verb.name.replace(" ", "-")


def _roff(text: str) -> str:
    """Escape text, and set `code` in bold. A line must not begin with a control character."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    write_manual_pages(Path(sys.argv[1]))
