"""The page of `cni-harness explain`: one HTML file without scripts, which loads nothing."""

from markupsafe import Markup

from harness.html_page import rendered
from harness.views.explanation import Explanation
from harness.views.sequence_diagram import sequence_svg
from harness.views.topology import Topology
from harness.views.topology_svg import svg

_ROOM = "harness.views"


def page(explanation: Explanation) -> str:
    """Return the page. Everything that a plugin or a file has said is escaped."""
    return rendered(
        _ROOM,
        "explain",
        it=explanation,
        sequence=Markup("\n".join(sequence_svg(explanation.arrows))),  # noqa: S704 -- it escapes its texts
        before=_drawing(explanation.before),
        after=_drawing(explanation.after),
    )


def _drawing(topology: Topology | None) -> Markup:
    return Markup("\n".join(svg(topology)) if topology is not None else "")  # noqa: S704 -- it escapes its texts
