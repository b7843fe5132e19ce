"""Pairs in batches of few shapes, so that each shape comes often enough to be captured in a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.base.ladder import round_rows, round_up
from regard.base.shared_batch import Share
from regard.data.batches.batch import PairBatch
from regard.data.text.special_tokens import Special

RATIO = 1.2  # between the lengths that batches are rounded up to: 14 up to 60 tokens
SHORTEST = 8  # tokens; shorter sides are padded to so many


@dataclass(frozen=True)
class FewShapes:
    """The same batches of another set of pairs, in the same order, with more padding and with empty rows: a source
    of the end token alone, without a target. Neither counts in a loss."""

    data: Any
    batch_tokens: int
    special: Special
    most_source: int  # tokens that the model reads, and writes
    most_target: int

    def __len__(self) -> int:
        return len(self.data)

    @property
    def longest_source(self) -> int:
        return int(self.data.longest_source)

    def order(self, epoch: int) -> Iterable[Any]:
        found: Iterable[Any] = self.data.order(epoch)
        return found

    def bookmark(self, item: Any) -> list[int]:
        """That of the set, if it has any."""
        return list(self.data.bookmark(item)) if hasattr(self.data, "bookmark") else []

    def order_from(self, epoch: int, index: int, bookmark: Sequence[int]) -> tuple[int, Iterable[Any]]:
        """That of the set, or the order from its beginning."""
        if hasattr(self.data, "order_from"):
            first, items = self.data.order_from(epoch, index, bookmark)
            return int(first), items
        return 0, self.order(epoch)

    def batch(self, item: Any) -> PairBatch:
        return self.rounded(self.data.batch(item))

    def share(self, item: Any, share: Share) -> tuple[PairBatch, int]:
        """As it is: several processes capture nothing."""
        batch, total = self.data.share(item, share)
        return batch, int(total)

    def rounded(self, batch: PairBatch) -> PairBatch:
        """Both sides padded to the same length, as far as the model takes it."""
        count, longest = len(batch.source), max(batch.source.shape[1], batch.target.shape[1])
        length = max(SHORTEST, round_up(longest, RATIO))
        rows = round_rows(count, max(SHORTEST, longest), RATIO, self.batch_tokens)

        def enlarged(x: Tensor, value: int, most: int) -> Tensor:
            more = max(0, min(length, most) - x.shape[1])  # what is too long as it is, is for the model to say
            return F.pad(x, (0, more, 0, rows - count), value=value)

        pad, read = self.special.pad, self.most_source
        written = self.most_target + 1  # the start token is not written
        source, mask = enlarged(batch.source, pad, read), enlarged(batch.source_mask, False, read)
        source[count:, 0], mask[count:, 0] = self.special.end, True
        target, target_mask = enlarged(batch.target, pad, written), enlarged(batch.target_mask, False, written)
        return PairBatch(source, mask, target, target_mask)
