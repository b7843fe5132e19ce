"""A random order of any number of things that takes no memory: each place is computed when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ROUNDS = 8


class Permutation:
    """The numbers 0 to count - 1 in an order that is a function of the seed. `permutation(places)` are the numbers
    at these places.

    A Feistel network permutes all numbers of `bits` bits: each round changes one half by a hash of the other half
    and a key, which can be undone whatever the hash. A number that is too large is permuted again until it is small
    enough (cycle walking), which needs less than two tries on average."""

    def __init__(self, count: int, seed: Sequence[int]) -> None:
        self.count = count
        bits = max(2, (count - 1).bit_length())
        self.low = np.uint64(bits // 2)
        self.masks = [np.uint64((1 << half) - 1) for half in (bits - bits // 2, bits // 2)]
        self.keys = np.random.SeedSequence(list(seed)).generate_state(ROUNDS, np.uint64)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        numbers = self._permute(np.asarray(places).astype(np.uint64))
        while (outside := numbers >= self.count).any():
            numbers[outside] = self._permute(numbers[outside])
        return numbers.astype(np.int64)

    def _permute(self, numbers: np.ndarray) -> np.ndarray:
        halves = [numbers >> self.low, numbers & self.masks[1]]
        for turn, key in enumerate(self.keys):
            changed = turn % 2
            halves[changed] ^= _hash(halves[1 - changed] ^ key) & self.masks[changed]
        return halves[0] << self.low | halves[1]


def _hash(numbers: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64 (Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ numbers >> np.uint64(shift)) * np.uint64(factor)
    return numbers ^ numbers >> np.uint64(31)
