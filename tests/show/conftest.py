"""What the tests of several kinds of picture share."""

import base64
import io
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image


class Page(HTMLParser):
    """All tags of a page with their attributes, its texts, and its scripts apart."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.scripts, self.inside = [], [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.words).append(data)

    def handle_endtag(self, tag):
        self.inside = None

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def read_page():
    return Page


@pytest.fixture
def open_image():
    """The pixels of a data: URL."""

    def opened(url):
        start, _, body = url.partition(",")
        assert start == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(body))) as image:
            return np.asarray(image.convert("RGB")).astype(int)

    return opened


@pytest.fixture
def run_page(tmp_path):
    """The DOM of a page after its own script, and then ours, have run in a browser."""
    if not shutil.which("chromium"):
        pytest.skip("needs chromium to run the page's script")

    def run(page, script):
        path = tmp_path / "page.html"
        # Modules run one after the other, in the order of the page.
        path.write_text(
            page.replace("</body>", f'<script type="module">{script}</script></body>'), encoding="utf-8"
        )
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'home'}",
            "--dump-dom", str(path),
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return run
