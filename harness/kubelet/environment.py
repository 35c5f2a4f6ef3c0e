"""References to environment variables in commands, arguments and values: `$(NAME)`.

`$$(NAME)` is the text `$(NAME)`; an unknown name stays as it is (Kubernetes' third_party/forked/golang/expansion).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from harness.cri.messages import KeyValue
from harness.kubelet.v1 import V1EnvVar

__all__ = ["expanded", "variables"]

_REFERENCE: Final = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its references replaced."""

    def value(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        return values.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def variables(declared: Iterable[V1EnvVar]) -> list[KeyValue]:
    """Return the variables of a container; each may refer to earlier ones, and a later one of a name counts."""
    values: dict[str, str] = {}
    for each in declared:
        values[each.name] = expanded(each.value, values)
    return [KeyValue(key=name, value=value) for name, value in values.items()]
