"""Pages of HTML of one file, without scripts: a template and a style sheet of a package, in its folder `templates`."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup


def rendered(package: str, name: str, **values: object) -> str:
    """Return the page of the template NAME.html.j2, which gets `values`, and NAME.css as `style`.

    Text is escaped, unless it is Markup. Raises jinja2.UndefinedError for a value that the template lacks.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = files(package).joinpath(f"templates/{name}.css").read_text(encoding="utf-8")
    page = environment.get_template(f"{name}.html.j2").render(style=Markup(style), **values)  # noqa: S704 -- our own file
    return page + "\n"
