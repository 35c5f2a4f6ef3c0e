"""Markers of tests: those that `make test` leaves out, and time limits. Each has a reason.

`make test` leaves out tests marked `slow`, and those marked `needs`: a Debian package that it does not install. `make
test-rest` runs these: it unpacks the packages into a folder.
"""

from typing import Final

import pytest

REASONS = {
    "chromium": "a browser",
    "firewalld": "a service, and dbus-daemon for its bus",
    "iperf3": "a service",
    "kea": "services (kea-dhcp4-server, kea-dhcp6-server)",
    "rsync": "a service",
    "skopeo": "it depends on GnuPG, whose agents are services of each user",
    "systemd": "services",
    "umoci": "it makes and unpacks images, which are loaded by skopeo",
    "vagrant": "virtual machines",
}
"""The packages that tests may be marked with, and why `make test` does not install them."""

IMAGES = pytest.mark.needs("skopeo", "umoci")
"""The mark of tests whose containers have an image."""

LINES = (
    "needs(package, ...): needs Debian packages that make test does not install",
    "slow(reason): make test leaves it out; the reason names the tests that look at the same there",
    "mostly_slow(n, reason): every n-th row of the table is in make test, and the others are slow",
    "time_limit(seconds, reason): may take longer than pytest's option `timeout`",
    "one_row_in(n): run every n-th row only, all with --all-rows",
)
"""The project's markers, for `pytest --markers`."""

_REASONED: Final = (
    ("slow", [str], "is slow without a reason"),
    ("mostly_slow", [int, str], "is mostly slow without a number of rows and a reason"),
    ("time_limit", [int, str], "has a time limit without seconds and a reason"),
)


def apply_markers(item: pytest.Item) -> None:
    """Give a test its time limit. Raises pytest.UsageError for a marker without its reason."""
    for marker in item.iter_markers("needs"):
        for package in marker.args:
            if package not in REASONS:
                message = f"{item.nodeid} needs {package!r}, which tests/markers.py does not name"
                raise pytest.UsageError(message)
    for name, kinds, message in _REASONED:
        for marker in item.iter_markers(name):
            if [type(each) for each in marker.args] != kinds:
                raise pytest.UsageError(f"{item.nodeid} {message}: {marker.args!r}")
    if limit := item.get_closest_marker("time_limit"):
        item.add_marker(pytest.mark.timeout(limit.args[0]))
