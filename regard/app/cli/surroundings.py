"""The environment of the program: streams that are closed or not UTF-8, and the warnings of libraries."""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from regard.base.processes import is_first
from regard.learn.progress import say

DEBUG = "REGARD_DEBUG"
FORMAT = warnings.formatwarning


@contextmanager
def utf8_streams() -> Iterator[None]:
    """Texts are UTF-8 whatever the locale is, as files are. A stream that is closed takes everything in silence."""
    sys.argv = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv]
    with open(os.devnull, "w") as nowhere:
        closed = [name for name in ("stdout", "stderr") if getattr(sys, name) is None]
        for name in closed:
            setattr(sys, name, nowhere)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
                stream.reconfigure(encoding="utf-8", errors=stream.errors)
        try:
            yield
        finally:
            for name in closed:
                setattr(sys, name, None)


@contextmanager
def first_prints() -> Iterator[None]:
    """Of several processes only the first one prints to stdout."""
    if is_first():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def in_plain_words() -> Iterator[None]:
    """A warning is one line without the file and line it comes from, which --debug shows. Which warnings there are
    does not change, but Pillow's of large images is left out."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__name__ == "DecompressionBombWarning":  # large images are reduced as they are read
            return
        if os.environ.get(DEBUG):
            say(FORMAT(message, category, filename, lineno, line).rstrip())
        else:
            say(f"warning: {' '.join(str(message).split())}")

    before, warnings.showwarning = warnings.showwarning, show
    # matplotlib logs a temporary folder's name if it cannot write its cache into the home folder.
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        warnings.showwarning = before
        logger.setLevel(level)
