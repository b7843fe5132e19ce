"""One seed for everything random in a batch."""

from __future__ import annotations

import hashlib


def noise(seed: int, step: int, micro: int) -> int:
    """The seed of batch number `micro` of a step, unrelated to the seeds of other batches."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{step}/{micro}".encode(), digest_size=8).digest())
