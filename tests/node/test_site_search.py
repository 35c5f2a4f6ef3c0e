"""The site's search in a browser, in pages that are opened from a file."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.browser import WIDE, running_browser
from tests.cli import ROOT
from tests.nodes import until

pytestmark = [pytest.mark.sudo, pytest.mark.needs("chromium")]

FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(each => each.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        check=True,
    )
    return folder


@pytest.mark.parametrize("start", ["index.html", "findings/index.html", "api/skel.html"])
def test_search_from_a_file_finds_a_page_and_asks_no_host(site: Path, start: str) -> None:
    with running_browser() as browser:
        page = browser.open(site / start, WIDE, dark=False)
        page.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
        page.call("Input.insertText", text="statusFailsWhenFull")
        # The page reads its field at a key's end; text alone is seen only while the index is still being loaded.
        page.call("Input.dispatchKeyEvent", type="keyUp", key="l")

        found = until(lambda: page.evaluate(FOUND))

        paths = [Path(unquote(urlparse(link).path)) for link in found]
        assert site / "host-local.html" in paths
        assert [path for path in paths if not path.exists()] == []
        asked = [each["request"]["url"] for each in page.told("Network.requestWillBeSent")]
        assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
        assert [each["entry"]["text"] for each in page.told("Log.entryAdded")] == []
