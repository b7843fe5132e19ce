"""Encoders of transformers: states, masked words, classes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batches.batch import pad
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import (
    EncodedText,
    LabelledBatch,
    Pair,
    TextEncoding,
    encode_texts,
)
from regard.data.text.tokenizer import Tokenizer
from regard.foreign.tokenizers import FIRST, SECOND, around
from regard.wrapped.base import Wrapped


class TemplateEncoding(TextEncoding):
    """Texts between the special tokens that the tokenizer's post-processor puts around them: `<s> A </s>`,
    `<s> A </s></s> B </s>`."""

    pairs = True

    def __init__(self, most: int):
        self.most = most

    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        firsts, seconds = (encode_texts(tokenizer, [text[side] for text in texts]) for side in (0, 1))
        for (_, second), first, other in zip(texts, firsts, seconds, strict=True):
            template, parts = around(tokenizer.inner, bool(second))
            room = max(0, truncate - sum(i not in (FIRST, SECOND) for i in template))
            keep = min(len(first), max(room - len(other), room // 2)) if second else room
            texts_of = {FIRST: first[:keep], SECOND: other[: max(0, room - min(keep, len(first)))]}
            row: EncodedText = [], []
            for i, part in zip(template, parts, strict=True):
                ids = texts_of.get(i, [i])
                row[0].extend(ids)
                row[1].extend([part] * len(ids))
            yield row, len(row[0]) < len(first) + len(template) - 1 + (len(other) - 1 if second else 0)

    def batch(self, rows: Sequence[EncodedText], special: Special) -> LabelledBatch:
        tokens, mask = pad([ids for ids, _ in rows], special.pad)
        segments, _ = pad([parts for _, parts in rows], 0)
        return LabelledBatch(tokens, segments, mask)


class WrappedEncoder(Wrapped):
    """Gives every token of a text a state; `config.head` says what it predicts beside that."""

    @property
    def encoding(self) -> TemplateEncoding:
        """How it reads texts."""
        return TemplateEncoding(self.config.max_positions)

    @property
    def state_dim(self) -> int:
        """The size of a token's state."""
        return self.config.dim

    @property
    def body(self) -> Any:
        """The model without its head."""
        return self.inner.base_model

    def states(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> (B, T, dim)"""
        last: Tensor = self._told(self.body, tokens, segments, mask)[0]
        return last

    def _told(self, model: Any, tokens: Tensor, segments: Tensor | None, mask: Tensor | None, **more: Any) -> Any:
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        many = getattr(self.inner.config, "type_vocab_size", 0) > 1
        given = self.taken(input_ids=tokens, attention_mask=real.long(), token_type_ids=segments if many else None)
        return model(**given, **more)

    def text_states(self, batch: LabelledBatch) -> Tensor:
        """The last layer's states of texts or pairs of texts: (B, T, dim)"""
        return self.states(batch.tokens, batch.segments, batch.mask)

    def states_of_layers(self, batch: LabelledBatch) -> Tensor:
        """(B, layers + 1, T, dim); layer 0 is what the first block reads."""
        told = self._told(self.body, batch.tokens, batch.segments, batch.mask, output_hidden_states=True)
        return torch.stack(told.hidden_states, 1)

    def state_mask(self, batch: LabelledBatch) -> Tensor:
        """(B, T), True = a real token"""
        return batch.mask

    def forward(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.states(tokens, segments, mask)

    def masked_logits(self, states: Tensor) -> Tensor:
        """Logits of the masked token: states (N, dim) -> (N, V), by the head alone."""
        head = copy.copy(self.inner)
        head._modules = {**self.inner._modules, self.inner.base_model_prefix: Given(states[None])}
        logits: Tensor = head(input_ids=torch.zeros(1, len(states), dtype=torch.long, device=states.device)).logits
        return logits[0]

    def next_logits(self, states: Tensor) -> Tensor:
        raise ValueError(f"{self.config.architecture} does not predict what follows")

    def class_logits(self, batch: LabelledBatch) -> Tensor:
        """Texts or pairs of texts -> (B, classes)"""
        logits: Tensor = self._told(self.inner, batch.tokens, batch.segments, batch.mask).logits
        return logits


class Given(nn.Module):
    """Stands for a model without its head, whose states are known."""

    def __init__(self, states: Tensor):
        super().__init__()
        self.states: Any = states

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=self.states)
