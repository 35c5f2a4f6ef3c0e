"""YAML for people: keys in their order, texts of several lines as blocks."""

from typing import Final

import yaml

_BLOCK: Final = "|"


class _Dumper(yaml.SafeDumper):
    """The safe dumper, with its own way to write texts."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_BLOCK if "\n" in value else None)


_Dumper.add_representer(str, _text)


def to_yaml_text(document: object) -> str:
    """Return the document in YAML, folded at 120 columns."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
