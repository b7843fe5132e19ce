"""Generated sets of pairs: dates, copy, reverse, sort, recall.

Each is a pure function of (split, count, seed), on every platform. The split of an example is a function of the
example alone, so that train, valid and test never overlap, whatever the counts and seeds."""

from __future__ import annotations

from collections.abc import Callable

from regard.data.made.dates import dates
from regard.data.made.splits import generator_of, split_of

Pairs = list[tuple[str, str]]
Change = Callable[[list[str]], list[str]]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _sequences(name: str, change: Change, split: str, count: int, seed: int) -> Pairs:
    """3 to 12 letters with spaces between them, and the same letters changed."""
    generator = generator_of(name, split, count, seed)
    pairs: Pairs = []
    while len(pairs) < count:
        letters = generator.choices(LETTERS, k=generator.randint(3, 12))
        source = " ".join(letters)
        if split_of(source) == split:
            pairs.append((source, " ".join(change(letters))))
    return pairs


def copy(split: str, count: int, *, seed: int = 0) -> Pairs:
    """c a b -> c a b"""
    return _sequences("copy", list, split, count, seed)


def reverse(split: str, count: int, *, seed: int = 0) -> Pairs:
    """c a b -> b a c"""
    return _sequences("reverse", lambda letters: letters[::-1], split, count, seed)


def sort(split: str, count: int, *, seed: int = 0) -> Pairs:
    """c a b -> a b c"""
    return _sequences("sort", sorted, split, count, seed)


def recall(split: str, count: int, *, seed: int = 0, distance: int = 10) -> Pairs:
    """k 4 0 7 ? -> k: a letter, digits that do not matter, and the question, `distance` steps after the letter (4
    here). How long can a memory hold it?"""
    if not isinstance(distance, int) or distance < 2:
        raise ValueError(f"distance must be a whole number of at least 2, got {distance!r}")
    generator = generator_of(f"recall {distance}", split, count, seed)
    pairs: Pairs = []
    while len(pairs) < count:
        letter = generator.choice(LETTERS)
        source = " ".join([letter, *generator.choices("0123456789", k=distance - 1), "?"])
        if split_of(source) == split:
            pairs.append((source, letter))
    return pairs


MADE: dict[str, Callable[..., Pairs]] = {
    "dates": dates,
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "recall": recall,
}
