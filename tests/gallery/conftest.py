"""Examples that train do so with few steps here: the functions that are shown are the ones that run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import regard
from regard.gallery import module_of
from regard.learn.progress import silent

SHORT = {"positions": 3, "bottleneck": 2, "alignment": 2, "transformer": 2, "lstmn": 2, "elmo": 2, "norms": 20}
SHORT |= {"scores": 10, "heads": 20, "agent": 2}


FEW = {name: {"data.train_count": 400} for name in ("scores", "bottleneck", "alignment")}
FEW |= {"agent": {"data.batch_size": 32, "data.valid_count": 20}}


def with_few(train: Any, few: dict[str, Any]) -> Any:
    """`regard.train` on less data than an example asks for."""
    return lambda *words, set=(), **options: train(*words, set={**dict(set), **few}, **options)


@pytest.fixture
def short() -> Iterator[Any]:
    """The module of an example, with few training steps; what it keeps is forgotten afterwards."""
    patch, opened = pytest.MonkeyPatch(), []

    def module(name: str) -> Any:
        opened.append(import_module(f"regard.gallery.{module_of(name)}"))
        if name in SHORT:
            patch.setattr(opened[-1], "STEPS", SHORT[name])
        if name in FEW:
            patch.setattr(regard, "train", with_few(regard.train, FEW[name]))
        if name == "bottleneck":
            patch.setattr(opened[-1], "TESTED", 30)
        if name == "agent":
            patch.setattr(opened[-1], "GAMES", 40)
        if name == "heads":
            patch.setattr(opened[-1], "ENCODER", "sentences-bert")  # a small one
        return opened[-1]

    token = silent.set(True)
    yield module
    silent.reset(token)
    patch.undo()
    for one in opened:
        for value in vars(one).values() if hasattr(one, "STEPS") else ():
            if hasattr(value, "cache_clear") and value.__module__ == one.__name__:
                value.cache_clear()
