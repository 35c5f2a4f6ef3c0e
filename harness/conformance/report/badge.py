"""The verdict as a badge: a small picture in SVG, which loads nothing."""

import re
from html import escape
from typing import Final

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import is_red
from harness.conformance.report.features import FeatureState, standing_of_all
from harness.conformance.report.outline import verdict

_GROUND: Final = {FeatureState.PASS: "#1a7f37", FeatureState.PARTIAL: "#8a6100", FeatureState.FAIL: "#b3261e"}
"""White on each has a contrast of 4.5 or more."""
_VERDICT: Final = re.compile("(pass|fail): (CNI .*?) (works: .*)")
_HEIGHT: Final = 20
_PADDING: Final = 7
_NARROW: Final = frozenset("fijlrt.,:;1 ")
"""Characters of about half the usual width."""


def to_svg(examination: Examination) -> str:
    """Return the badge: the specification on the left, the verdict on the right.

    It is red if the verdict is "fail". It is green if the plugins work, core passes, and the run was not cut short,
    otherwise brown.
    """
    text = verdict(examination.findings)
    found = _VERDICT.fullmatch(text)
    name, said = (found[2], f"{found[1]}: {found[3]}") if found else ("CNI", text)
    if examination.cut_short:
        said += " (incomplete)"
    return _drawing(name, said, _GROUND[_state(examination)], text)


def _state(examination: Examination) -> FeatureState:
    if is_red(examination.findings):
        return FeatureState.FAIL
    if examination.cut_short or not examination.findings:
        return FeatureState.PARTIAL
    found = standing_of_all(examination.findings)
    return FeatureState.PASS if found.works is found.core is FeatureState.PASS else FeatureState.PARTIAL


def _drawing(left: str, right: str, ground: str, title: str) -> str:
    # Each text is stretched to its box: the fonts of the reader's machine do not matter.
    lengths = [_length(left), _length(right)]
    split, whole = lengths[0] + 2 * _PADDING, sum(lengths) + 4 * _PADDING
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{length}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        for text, x, length in ((left, _PADDING, lengths[0]), (right, split + _PADDING, lengths[1]))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{_HEIGHT}" viewBox="0 0 {whole} {_HEIGHT}"'
        f' role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<clipPath id="c"><rect width="{whole}" height="{_HEIGHT}" rx="3"/></clipPath><g clip-path="url(#c)">'
        f'<rect width="{split}" height="{_HEIGHT}" fill="#3b4252"/>'
        f'<rect x="{split}" width="{whole - split}" height="{_HEIGHT}" fill="{ground}"/></g>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )


def _length(text: str) -> int:
    """Return the width of a text in pixels, at 11 pixels of height."""
    # About the widths of Verdana; textLength evens out the rest.
    return round(sum(4.4 if sign in _NARROW else 7.0 for sign in text))
