"""A training goes on with the data it was begun with: data.json in its folder says what that was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from regard.base.digests import Digest, differences
from regard.base.files import LARGEST_JSON, is_there, parse_json, read_bytes, write_file
from regard.errors import DataError, RunError
from regard.learn.progress import say
from regard.runs.replacing import DATA

ACCEPT = "--accept-changed-data (in Python: accept_changed_data=True)"
SHOWN = 5  # files that an error names


def record(folder: Path, found: Mapping[str, Digest]) -> None:
    """Write down what a training reads; of generated data there is nothing to write."""
    if found:
        write_file(folder / DATA, (json.dumps(found, indent=1) + "\n").encode())


def check_same(folder: Path, now: Mapping[str, Digest], *, accept: bool) -> list[str]:
    """How the data differs from what the training in the folder was begun with; DataError unless that is accepted.
    Runs from before there was such a record go on without this check."""
    then = _recorded(folder)
    changed = [] if then is None else differences(then, now)
    if changed and not accept:
        shown = [*changed[:SHOWN], *([f"and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else [])]
        raise DataError(
            f"the data is not what the training in {folder} was begun with: {'; '.join(shown)}. Put it back to go "
            "on exactly as if the training had not stopped, take another --out, or go on with the data as it is: "
            f"{ACCEPT}"
        )
    for change in changed:
        say(f"Going on with changed data: {change}")
    return changed


def _recorded(folder: Path) -> dict[str, Digest] | None:
    path = folder / DATA
    if not is_there(path):
        return None
    try:
        found = parse_json(read_bytes(path, LARGEST_JSON))
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise ValueError("it must have an object for each file")
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error}); delete it to go on without comparing the data") from None
    return found
