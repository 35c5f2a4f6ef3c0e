"""`contextlib` without its module, which loads `functools` and `collections`: 2 ms.

`contextmanager` makes no decorators, and its functions have no `__wrapped__`.
"""

from fast_stdlib.typing import TYPE_CHECKING

__all__ = ["contextmanager", "nullcontext", "suppress"]

if TYPE_CHECKING:
    from contextlib import contextmanager, nullcontext, suppress
else:

    def contextmanager(function):
        """Let a function with one `yield` make context managers."""

        def manager(*args, **kwargs):
            return _Generated(function(*args, **kwargs))

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(manager, name, getattr(function, name))
        return manager

    class _Generated:
        """Runs a generator to its `yield`, and to its end after the `with` block."""

        __slots__ = ("_generator",)

        def __init__(self, generator):
            self._generator = generator

        def __enter__(self):
            for value in self._generator:
                return value
            raise RuntimeError("generator didn't yield")

        def __exit__(self, kind, error, trace):
            if kind is None:
                for _ in self._generator:
                    self._generator.close()
                    raise RuntimeError("generator didn't stop")
                return False
            if error is None:
                error = kind()
            try:
                self._generator.throw(error)
            except BaseException as raised:
                if raised is not error and not _is_wrapped(raised, error):
                    # The generator's return, unless the block has raised it.
                    if isinstance(raised, StopIteration):
                        return True
                    raise
                error.__traceback__ = trace
                return False
            self._generator.close()
            raise RuntimeError("generator didn't stop after throw()")

    def _is_wrapped(raised, error):
        """Tell whether a generator has raised RuntimeError in place of the block's StopIteration (PEP 479)."""
        return isinstance(raised, RuntimeError) and isinstance(error, StopIteration) and raised.__cause__ is error

    class nullcontext:  # noqa: N801 -- the name is the standard library's
        """Do nothing; the value of `with` is `value`."""

        __slots__ = ("_value",)

        def __init__(self, value=None):
            self._value = value

        def __enter__(self):
            return self._value

        def __exit__(self, *_):
            return None

    class suppress:  # noqa: N801 -- the name is the standard library's
        """End the `with` block at an exception of one of the given classes, and go on after it."""

        __slots__ = ("_classes",)

        def __init__(self, *classes):
            self._classes = classes

        def __enter__(self):
            return None

        def __exit__(self, kind, *_):
            return kind is not None and issubclass(kind, self._classes)
