"""Parts of requests in words."""

import json
from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 2000
"""Characters of a JSON text in a finding."""


def in_json(value: object) -> str:
    """Return a value as compact JSON, cut at 2000 characters."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between."""
    return ", ".join(names) or "nothing"
