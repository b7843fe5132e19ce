"""Which split an example of a generated set is in, and the random numbers that draw it."""

from __future__ import annotations

import random
import zlib

SPLITS = ("train", "valid", "test")


def check_split(split: str, count: int) -> None:
    """ValueError for an unknown split, or for fewer than one example."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")


def split_of(example: str) -> str:
    """80 % train, 10 % valid, 10 % test."""
    share = zlib.crc32(f"regard:{example}".encode()) % 10
    return "test" if share == 9 else "valid" if share == 8 else "train"


def generator_of(name: str, split: str, count: int, seed: int) -> random.Random:
    check_split(split, count)
    return random.Random(f"{name} {split} {seed}")
