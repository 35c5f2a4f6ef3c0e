"""The page of `cni-harness explain`: one HTML file without scripts, which loads nothing."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from harness.views.explanation import Explanation
from harness.views.sequence_svg import sequence_svg
from harness.views.topology import Topology
from harness.views.topology_svg import svg

__all__ = ["page"]

_ROOM = "harness.views"


def page(explanation: Explanation) -> str:
    """Return the page. Everything that a plugin or a file has said is escaped."""
    environment = Environment(
        loader=PackageLoader(_ROOM),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = files(_ROOM).joinpath("templates/explain.css").read_text(encoding="utf-8")
    text = environment.get_template("explain.html.j2").render(
        it=explanation,
        style=Markup(style),  # noqa: S704 -- our own file
        sequence=Markup("\n".join(sequence_svg(explanation.arrows))),  # noqa: S704 -- it escapes its texts
        before=_drawing(explanation.before),
        after=_drawing(explanation.after),
    )
    return text + "\n"


def _drawing(topology: Topology | None) -> Markup:
    return Markup("\n".join(svg(topology)) if topology is not None else "")  # noqa: S704 -- it escapes its texts
