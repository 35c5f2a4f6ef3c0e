"""The verdict as a badge: a small picture in SVG, which loads nothing."""

from html import escape
from typing import Final

from harness.conformance.examination import Examination
from harness.conformance.features import FeatureState, standing_of_all
from harness.conformance.report.heading import verdict

_GROUND: Final = {FeatureState.PASS: "#1a7f37", FeatureState.PARTIAL: "#8a6100", FeatureState.FAIL: "#b3261e"}
"""White on each has a contrast of 4.5 or more."""
_HEIGHT: Final = 20
_PADDING: Final = 7
_NARROW: Final = frozenset("fijlrt.,:;1 ")
"""Characters of about half the usual width."""


def to_svg(examination: Examination) -> str:
    """Return the badge: the specification on the left, the verdict on the right, in green, brown or red.

    A run that was cut short is at most partial.
    """
    text = verdict(examination.findings)
    state = standing_of_all(examination.findings).core if examination.findings else FeatureState.PARTIAL
    if examination.cut_short and state is FeatureState.PASS:
        state = FeatureState.PARTIAL
    name, _, said = text.partition(" core: ") if " core: " in text else ("CNI", "", text)
    if examination.cut_short:
        said += " (incomplete)"
    return _drawing(name, f"core: {said}" if " core: " in text else said, _GROUND[state], text)


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
