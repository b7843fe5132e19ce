"""Prompts and responses: a language model reads both, and only the response enters the loss.

    prompt <|endoftext|> response <|endoftext|>

The end token between them begins the response, as it begins any text, so a prompt that ends with it is answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from regard.base.ladder import round_rows, round_up
from regard.data.batches.batch import Pair, RowNumbers, Rows, check_batching, draw_batches
from regard.data.batches.few_shapes import RATIO
from regard.data.text.windows import TextBatch
from regard.errors import DataError


class PromptedData(RowNumbers):
    """Encoded pairs without end tokens (they are added here), batched by token count."""

    def __init__(
        self, pairs: Sequence[Pair], *, batch_tokens: int, seed: int, end: int, few_shapes: int = 0
    ) -> None:
        """`few_shapes`: with more padding, up to so many input tokens, and empty rows, so that each shape comes
        often enough to be captured; 0: as they are."""
        if not pairs:
            raise DataError("there must be at least one pair of prompt and response, got none")
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.rows = Rows([[*prompt, end, *response, end] for prompt, response in pairs])
        self.asked = np.array([len(prompt) for prompt, _ in pairs])  # the place of the first end token
        self.batch_tokens, self.seed, self.end, self.few_shapes = batch_tokens, seed, end, few_shapes
        self.lengths = self.rows.lengths() - 1  # input tokens

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        """The epoch's batches as row indices, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        return draw_batches(self.lengths, batch_tokens=self.batch_tokens, generator=generator)

    def batch(self, rows: np.ndarray) -> TextBatch:
        """Padded on the right, where no token before it sees the padding. The end token before the response is the
        first input that is counted: it predicts the response's first token."""
        width, count = int(self.lengths[rows].max()), len(rows)
        if self.few_shapes:
            count = round_rows(count, width, RATIO, self.batch_tokens)
            width = round_up(width, RATIO, self.few_shapes)
        tokens = np.full((count, width + 1), self.end)
        for place, row in enumerate(rows):
            tokens[place, : self.lengths[row] + 1] = self.rows[row]
        inputs, asked, length = np.arange(width), self.asked[rows][:, None], self.lengths[rows][:, None]
        counted = np.zeros((count, width), bool)
        counted[: len(rows)] = (inputs >= asked) & (inputs < length)
        return TextBatch(torch.from_numpy(tokens), torch.from_numpy(counted), None)

    def __iter__(self) -> Iterator[TextBatch]:
        return map(self.batch, self.order())
