"""What the tests of several kinds of picture share."""

import base64
import io

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def open_image():
    """The pixels of a data: URL; `alpha`: with their opacity."""

    def opened(url, alpha=False):
        start, _, body = url.partition(",")
        assert start == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(body))) as image:
            return np.asarray(image.convert("RGBA" if alpha else "RGB")).astype(int)

    return opened
