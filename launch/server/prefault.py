"""Memory that a worker will write to, made its own before there is work.

A forked process shares its parent's pages until it writes to one: then the kernel copies it. Python writes wherever it
looks at an object, to its reference count, and so an ADD meets some 900 such pages: 3 ms on a virtual machine. Which
ones they are hardly differs from one execution to the next. A child that rehearses tells (/proc/PID/pagemap and maps of
proc(5)), and each worker has the kernel copy them while it waits (madvise(2)).
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from .syscalls import populate_for_writing

__all__ = ["PAGE_BYTES", "make_own", "own_pages", "spans_of"]

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_ENTRY = struct.Struct("=Q")
# Documentation/admin-guide/mm/pagemap.rst: in memory, and mapped by this process alone.
_OWN = 1 << 63 | 1 << 56
_AT_ONCE = 16
"""Spans between two looks at whether there is work."""


def own_pages() -> list[int]:
    """Return the addresses of the pages that this process shares with nobody: in a child, those it has written to.

    Raises OSError.
    """
    pages = []
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for start, end in list(_writable()):
            entries = os.pread(
                pagemap.fileno(), (end - start) // PAGE_BYTES * _ENTRY.size, start // PAGE_BYTES * _ENTRY.size
            )
            for number, (entry,) in enumerate(_ENTRY.iter_unpack(entries)):
                if entry & _OWN == _OWN:
                    pages.append(start + number * PAGE_BYTES)
    return pages


def spans_of(pages: Iterable[int]) -> list[tuple[int, int]]:
    """Return the addresses and lengths, in bytes, of what adjacent pages make up, of those that this process has.

    Raises OSError.
    """
    mappings = list(_writable())
    spans: list[tuple[int, int]] = []
    for page in sorted(set(pages)):
        if not any(start <= page < end for start, end in mappings):
            continue  # new in the child that has named it
        if spans and sum(spans[-1]) == page:
            spans[-1] = (spans[-1][0], spans[-1][1] + PAGE_BYTES)
        else:
            spans.append((page, PAGE_BYTES))
    return spans


def make_own(spans: Iterable[tuple[int, int]], is_wanted: Callable[[], bool]) -> None:
    """Have the kernel copy these pages now, for as long as nothing else `is_wanted`.

    A kernel before 5.14 does not know how: then each is copied when it is written to.
    """
    for number, (start, length) in enumerate(spans):
        if number % _AT_ONCE == 0 and is_wanted():
            return
        with suppress(OSError):  # what is not there any more needs no copy
            populate_for_writing(start, length)


def _writable() -> Iterator[tuple[int, int]]:
    """Yield the private writable mappings of this process, but for its stack, which grows."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, permissions, *rest = line.split()
            if permissions == "rw-p" and rest[-1] != "[stack]":
                start, _, end = addresses.partition("-")
                yield int(start, 16), int(end, 16)
