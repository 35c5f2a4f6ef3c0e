"""Counts two habits that make prose hard to read: `what is ...` as a noun, and `where there is ...` as a condition.

`python -m tools.prose [PATH]...` reads Markdown, docstrings, and comments of Python, shell, make and C. It prints each
place, then the counts per 1,000 words for each folder. With `--at-most N` the exit code is 1 above N in any of them.

It also counts unclear names of test functions: their subject, condition or outcome has no noun. With
`--names-at-most N` the exit code is 1 above N such names.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parent.parent
HABITS: Final = {
    "what is": re.compile(
        r"\bwhat (?:is|are|was|were|has|have|had|a|an|the|it|its|they|that|this|each|no|nobody|any|another|one"
        r"|must|may|can|cannot|could|does|do|did|we|you|he|she)\b",
        re.IGNORECASE,
    ),
    "where there": re.compile(r"\bwhere (?:there|nothing|none|no|nobody|neither|it|one|that)\b", re.IGNORECASE),
}
"""Each habit with its pattern. A sentence that ends with a question mark is left out."""

_UNCLEAR: Final = re.compile(
    r"""(?<=_)(?:
        # a relative without its noun
        what(?:ever)? | where(?:ver)? | which(?:ever)? | who(?:m|se|ever)? | those | that_of | (?:the_)?ones?_that
        # a pronoun instead of a noun
        | (?:any|every|no|some)_?body(?:_?s)?(?:_elses?)? | another_?s | th(?:at|is)_ones | theirs
        | none_(?:is|of) | that_(?:are|is)_none
        # idioms
        | told | no_(?:business|obstacle|reason|say) | goes_also | all_the_same | as_ever | of_before | somehow
        | (?:comes?|came)_to_no_end | sent_away
    )(?=_|$)
    | (?<=^test_)(?:and|but|it|nor|so|them|then|they)(?=_)  # the subject is in the test above
    """,
    re.VERBOSE,
)
"""Words that make a test's name unclear. A relative directly behind its noun is accepted: "pod that has no address"."""

_CODE: Final = re.compile(
    r"^ *(`{3,4})[^\n]*\n.*?^ *\1 *$|``.*?``|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL | re.MULTILINE
)
_SENTENCE_END: Final = re.compile(r"(?<=[.?!:;|])\s+|\n\s*\n")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
_HASH_COMMENT: Final = re.compile(r"(?:^|\s)#(?!!)\s?(.*)$")
_TEST: Final = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_C_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class Passage(NamedTuple):
    """A piece of prose, and its first line in the file."""

    path: Path
    line: int
    text: str


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of one file. Raises OSError, SyntaxError."""
    text = path.read_text(errors="replace")  # a test has a file in another encoding
    if path.suffix == ".md":
        yield Passage(path, 1, _without_code(text))
    elif path.suffix == ".py":
        yield from _python(path, text)
    elif path.suffix in {".c", ".h"}:
        for found in _C_COMMENT.finditer(text):
            yield Passage(path, text.count("\n", 0, found.start()) + 1, found[0])
    elif path.suffix == ".sh" or path.name in {"Makefile", "run"}:
        for number, line in enumerate(text.splitlines(), 1):
            if comment := _HASH_COMMENT.search(line):
                yield Passage(path, number, comment[1])


def _without_code(text: str) -> str:
    # Line breaks stay, so that lines can be counted.
    return _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def _python(path: Path, text: str) -> Iterator[Passage]:
    for node in ast.walk(ast.parse(text)):
        # A string that is a statement documents the name before it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Passage(path, node.lineno, _without_code(node.value.value))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [(each.start[0], each.string.lstrip("# ")) for each in tokens if each.type == tokenize.COMMENT]
    # A comment of several lines is one passage: sentences go across lines.
    while comments:
        line, words = comments.pop(0)
        block = [words]
        while comments and comments[0][0] == line + len(block):
            block.append(comments.pop(0)[1])
        yield Passage(path, line, "\n".join(block))


def habits(passage: Passage) -> Iterator[tuple[str, int, str]]:
    """Yield each habit that is found: its name, the line and the words."""
    begin = 0
    for end in [*(each.end() for each in _SENTENCE_END.finditer(passage.text)), len(passage.text)]:
        sentence = passage.text[begin:end]
        if not sentence.rstrip().endswith("?"):
            for habit, pattern in HABITS.items():
                for found in pattern.finditer(" ".join(sentence.split("\n"))):
                    line = passage.line + passage.text.count("\n", 0, begin + found.start())
                    yield habit, line, found[0]
        begin = end


def names_of_tests(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each test function in a Python file, or in a template of one. Raises OSError."""
    if path.name.endswith((".py", ".py.in")):
        text = path.read_text(errors="replace")
        for found in _TEST.finditer(text):
            yield text.count("\n", 0, found.start(1)) + 1, found[1]


def unclear_words(name: str) -> str | None:
    """Return the first words that make a test's name unclear, None if there are none."""
    found = _UNCLEAR.search(name)
    return found and found[0]


def unclear_names(files: Iterable[Path]) -> list[str]:
    """Return the places of test functions with unclear names, one a line. Raises OSError."""
    return [
        f"{_short(path)}:{line}: {name} ({words})"
        for path in files
        for line, name in names_of_tests(path)
        if (words := unclear_words(name))
    ]


def rates(files: Iterable[Path]) -> tuple[list[str], dict[str, Counter[str]]]:
    """Return the places, one a line, and for each folder the counts of words and habits."""
    places: list[str] = []
    counts: dict[str, Counter[str]] = {}
    for path in files:
        short = _short(path)
        of_folder = counts.setdefault(short.parts[0] if len(short.parts) > 1 else ".", Counter())
        for passage in passages(path):
            of_folder["words"] += len(_WORD.findall(passage.text))
            for habit, line, words in habits(passage):
                of_folder[habit] += 1
                places.append(f"{short}:{line}: {words}")
    return places, counts


def _short(path: Path) -> Path:
    return path.resolve().relative_to(_ROOT) if path.resolve().is_relative_to(_ROOT) else path


def _tracked(paths: list[str]) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *paths],
        cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    return sorted(file for name in listed.split("\0") if name and (file := _ROOT / name).is_file())


def main() -> int:
    """Print places and rates, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="files and folders of the project; all of it unless given")
    parser.add_argument("--at-most", type=float, default=float("inf"), metavar="N", help="per 1,000 words")
    parser.add_argument("--names-at-most", type=float, default=float("inf"), metavar="N", help="names of tests")
    options = parser.parse_args()
    files = _tracked(options.paths)
    places, counts = rates(files)
    names = unclear_names(files)
    for place in places + names:
        sys.stdout.write(f"{place}\n")
    counts["total"] = sum(counts.values(), Counter())
    worst = 0.0
    for folder, count in counts.items():
        shares = {habit: 1000 * count[habit] / max(count["words"], 1) for habit in HABITS}
        worst = max(worst, *shares.values())
        told = ", ".join(f'"{habit}" {share:.1f}' for habit, share in shares.items())
        sys.stdout.write(f"{folder:12} {count['words']:7} words; per 1,000: {told}\n")
    number = sum(1 for path in files for _ in names_of_tests(path))
    sys.stdout.write(f"{len(names)} of {number} names of tests are unclear\n")
    return int(worst > options.at_most or len(names) > options.names_at_most)


if __name__ == "__main__":
    sys.exit(main())
