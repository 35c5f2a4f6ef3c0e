"""Texts in the form in which Kubernetes prints them: durations, lists and times."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

_NS: Final = 1_000_000_000


def format_duration(seconds: float) -> str:
    """Return a duration as Go prints a time.Duration: `0s`, `1.5s`, `20ms`, `1m20s`, `1h0m0s`."""
    nanoseconds = round(abs(seconds) * _NS)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds < _NS:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanoseconds >= size:
                return f"{sign}{_decimal(nanoseconds, size)}{unit}"
        return "0s"
    minutes, rest = divmod(nanoseconds, 60 * _NS)
    text = f"{_decimal(rest, _NS)}s"
    if minutes:
        text = f"{minutes % 60}m{text}"
    if minutes >= 60:  # noqa: PLR2004 -- minutes of an hour
        text = f"{minutes // 60}h{text}"
    return sign + text


def _decimal(count: int, unit: int) -> str:
    whole, fraction = divmod(count, unit)
    digits = str(fraction).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def format_strings(strings: Iterable[str]) -> str:
    """Return a list as Go prints a []string: `[a b]`."""
    return f"[{' '.join(strings)}]"


def format_time(seconds: float) -> str:
    """Return a time, in seconds since 1970, as RFC 3339 in UTC with whole seconds (Kubernetes' metav1.Time)."""
    return datetime.fromtimestamp(seconds // 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
