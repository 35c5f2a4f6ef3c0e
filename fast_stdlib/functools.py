"""`functools` without its module, which loads `collections`: 2 ms."""

from fast_stdlib.typing import TYPE_CHECKING

__all__ = ["partial"]

if TYPE_CHECKING:
    from functools import partial
else:
    from _functools import partial
