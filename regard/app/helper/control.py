"""Starting, seeing and stopping the helper."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.app.helper.client import connected, hear, tell
from regard.app.helper.place import folder, own_folder, socket_path
from regard.errors import BadInput, RunError

# It ends at once where it finds another package than this one, or files that were changed meanwhile.
PROGRAM = "import sys; from regard.app.helper.server import serve; serve(sys.argv[1])"
PATIENCE = 120.0  # seconds until it must have imported everything


def told(word: str, path: Path | None = None) -> dict[str, Any] | None:
    """What the helper at a socket answers to "state" or "stop"; None: there is none."""
    connection = connected(path)
    if connection is None:
        return None
    with connection:
        try:
            tell(connection, {"words": [word]})
            state: dict[str, Any] | None = hear(connection)
        except OSError:  # it ends right now
            return None
    return state


def stop() -> int:
    """Stop every helper of this user, those of other versions too; how many there were."""
    count = 0
    for path in folder().glob("*.sock"):
        if told("stop", path) is not None:
            count += 1
        with suppress(OSError):
            path.unlink()
    return count


def start() -> dict[str, Any]:
    """Start the helper, and wait until it answers."""
    if not hasattr(os, "fork"):
        raise BadInput("a helper in the background needs a system with fork: Linux or macOS")
    if (state := told("state")) is not None:
        return state
    own_folder()
    stop()  # those of other versions
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(socket_path())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if (state := told("state")) is not None:
            return state
        time.sleep(0.05)
    process.kill()
    raise RunError(
        "the helper did not start; see `python -c 'from regard.app.helper.server import serve; serve()'`"
    )


def sentence(state: dict[str, Any] | None) -> str:
    """What there is to say of it."""
    if state is None:
        return "no helper of this version is running; `regard serve --background` starts one"
    minutes, count = (time.time() - state["since"]) / 60, state["commands"]
    return f"a helper is running (process {state['process']}), for {minutes:.0f} minutes; commands so far: {count}"
