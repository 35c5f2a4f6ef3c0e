"""A new distribution with one plugin, written from the templates in this folder, with the plugin's name filled in."""

import re
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Final

from launch.installation import plugin_names

_TEMPLATES: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME_MAX: Final = 40
_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "conftest.py": "conftest.py",
    "{name}.conflist": "network.conflist",
    "src/{module}.py": "plugin.py",
    "tests/test_{module}.py": "test_plugin.py",
}
"""Each file of the distribution, and its template; some have a second one, *_chained, for a chained plugin."""


class NewPluginError(Exception):
    """Nothing was written; the message says why."""


def write_distribution(name: str, parent: Path, *, chained: bool = False) -> list[Path]:
    """Write the distribution of a plugin `name` into the new folder of that name in `parent`; return its files.

    The plugin makes an interface, or with `chained` goes after a plugin that does. Raises NewPluginError for an invalid
    name, or a folder or plugin that exists already; OSError.
    """
    folder = parent / name
    module = _module(name, folder)
    words = {"name": name, "module": module, "class_name": "".join(map(str.capitalize, name.split("-")))}
    folder.mkdir()
    written = []
    for place, template in _FILES.items():
        path = folder / place.format(**words)
        path.parent.mkdir(exist_ok=True)
        source = _TEMPLATES / f"{template}.in"
        of_chained = source.with_name(f"{Path(template).stem}_chained{Path(template).suffix}.in")
        text = (of_chained if chained and of_chained.exists() else source).read_text("utf-8")
        path.write_text(Template(text).substitute(words), "utf-8")
        written.append(path)
    return written


def _module(name: str, folder: Path) -> str:
    """Return the name of the plugin's module. Raises NewPluginError."""
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        allowed = f"at most {_NAME_MAX} small letters and digits, with single hyphens between, a letter first"
        raise NewPluginError(f'"{name}" cannot be the name of a plugin and its folder: expected {allowed}')
    if folder.exists():
        raise NewPluginError(f"{folder} is there already")
    if name in plugin_names():
        raise NewPluginError(f'there is a plugin "{name}" already')
    module = name.replace("-", "_")
    if iskeyword(module) or find_spec(module) is not None:
        raise NewPluginError(f'"{name}" cannot be the name of a plugin: Python has a module or a word "{module}"')
    return module
