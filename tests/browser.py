"""A headless Chromium, driven by the Chrome DevTools Protocol over a pipe: pages are opened, measured and pictured."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple

from tests.nodes import HANG

# Debian's script before it, and fontconfig, read files in /etc, which a package that is only unpacked has not.
_CHROMIUM: Final = "/usr/lib/chromium/chromium"
# Without an alias fontconfig takes any font for "monospace". Its package depends on the DejaVu fonts.
_FONTS: Final = """<fontconfig><dir>/usr/share/fonts</dir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>"""

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


class View(NamedTuple):
    """A screen: its size in CSS pixels, and whether it is a phone's."""

    name: str
    width: int
    height: int
    is_phone: bool


WIDE: Final = View("wide", 1400, 900, is_phone=False)
PHONE: Final = View("phone", 390, 844, is_phone=True)


class Browser:
    """A connection to a browser: messages are JSON, each ended by a NUL."""

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._count = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        """Everything that the browser has told without being asked."""

    def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        """Call a method and return its result. Raises AssertionError with the browser's error."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, method: str, session: str) -> None:
        """Wait for an event of a page."""
        while not any(each.get("method") == method and each.get("sessionId") == session for each in self.events):
            self.events.append(self._next())

    def open(self, file: Path, view: View, *, dark: bool) -> "Page":
        """Open a file in a new page and wait until it is drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=view.width,
            height=view.height,
            deviceScaleFactor=1,
            mobile=view.is_phone,
        )
        page.call("Page.navigate", url=file.as_uri())
        self.wait("Page.loadEventFired", session)
        return page

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + HANG
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0], "the browser hangs"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


class Page:
    """An open page."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the page."""
        return self._browser.call(method, self._session, **params)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in JavaScript. Raises AssertionError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def told(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the page's events of one kind."""
        found = [each for each in self._browser.events if each.get("sessionId") == self._session]
        return [each["params"] for each in found if each.get("method") == method]

    def picture(self, file: Path) -> bytes:
        """Write a PNG of the page, at most 4,000 pixels high, and return it."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        png = base64.b64decode(answer["data"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png)
        return png

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run a browser with a profile of its own, and end it."""
    profile = tempfile.mkdtemp(prefix="cni-harness-browser-")
    fonts = Path(profile, "fonts.conf")
    fonts.write_text(_FONTS)
    commands, ours = os.pipe()
    theirs, answers = os.pipe()
    # The browser wants these very descriptors.
    script = f'exec {_CHROMIUM} "$@" 3<&{commands} 4>&{answers}'
    arguments = [*_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(
        ["bash", "-c", script, "bash", *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": profile, "FONTCONFIG_FILE": str(fonts)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(commands, answers),
    ) as process:
        os.close(commands)
        os.close(answers)
        try:
            yield Browser(ours, theirs)
        finally:
            with suppress(OSError):
                os.write(ours, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            os.close(ours)
            os.close(theirs)
            rmtree(profile, ignore_errors=True)
