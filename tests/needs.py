"""Debian packages that `make test` does not install, and tests marked with one: `@pytest.mark.needs("firewalld")`.

`make test` leaves the marked tests out. `make test-rest` unpacks the packages into a folder and runs them.
"""

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


def refuse_unknown(item: pytest.Item) -> None:
    """Raise pytest.UsageError if a test is marked with a package that has no reason."""
    for marker in item.iter_markers("needs"):
        for package in marker.args:
            if package not in REASONS:
                message = f"{item.nodeid} needs {package!r}, which tests/needs.py does not name"
                raise pytest.UsageError(message)
