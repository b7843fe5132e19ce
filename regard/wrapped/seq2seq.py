"""Encoder-decoders of transformers: they read a text as a memory and write another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention import GrowingMemory, Memory
from regard.layers.state import State
from regard.wrapped.base import Wrapped
from regard.wrapped.causal import cache_of, pasts_of

Encoded = tuple[Tensor, Tensor]  # states (B, S, D) and mask (B, S)


class WrappedTranslator(Wrapped):
    """Reads a text and writes another: `AutoModelForSeq2SeqLM`."""

    sides = True

    @property
    def max_target_positions(self) -> int:
        """The most tokens it can write."""
        return self.config.max_positions

    @property
    def max_source_positions(self) -> int:
        """The most tokens it can read."""
        return self.config.max_positions

    @property
    def alignment(self) -> str:
        """Cross-attention of the last layer but one aligns best (Garg et al. 2019)."""
        across = [name for name in self._sites.values() if name.endswith(".cross")]
        return across[max(0, len(across) - 2)] if across else super().alignment

    def check_source(self, source: Tensor) -> None:
        """ValueError where a source has more tokens than the model takes."""
        if source.shape[1] > self.max_source_positions:
            raise ValueError(
                f"a source of {source.shape[1]} tokens is longer than the {self.max_source_positions} this model "
                "takes; shorten or split it"
            )

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        """source (B, S) -> states (B, S, D), and where they are real"""
        self.check_source(source)
        states: Tensor = self.inner.get_encoder()(input_ids=source, attention_mask=mask.long())[0]
        return states, mask

    def decode(self, target: Tensor, states: Tensor, mask: Tensor) -> Any:
        """Teacher forcing: target (B, T), already shifted right -> states of the decoder and no looks."""
        told = self.inner.get_decoder()(
            input_ids=target, encoder_hidden_states=states, encoder_attention_mask=mask.long(), use_cache=False
        )
        return told[0], []

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of a target already shifted right."""
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        states, mask = self.encode(source, mask)
        return self._logits(target, states, mask, None).logits

    def _logits(self, target: Tensor, states: Any, mask: Tensor, cache: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return self.inner(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask.long(),
            decoder_input_ids=target,
            past_key_values=cache,
            use_cache=cache is not None,
        )

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S); `step` writes the target."""
        states, _ = self.encode(source, mask)
        place = torch.zeros(len(source), dtype=torch.long, device=source.device)
        # What is looked at is computed by the first step, and the same ever after.
        return State((Memory(states[:, None], states[:, None], mask), ()), ((), place))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        from transformers.cache_utils import EncoderDecoderCache

        (read, across), (befores, place) = state.memory, state.rows
        fan = len(tokens) // len(read.keys)

        def fanned(x: Tensor) -> Tensor:
            return x if fan == 1 else x.repeat_interleave(fan, 0)

        own = cache_of((past.memory.keys, past.memory.values) for past in befores)
        other = cache_of((fanned(memory.keys), fanned(memory.values)) for memory in across)
        told = self._logits(
            tokens[:, None], fanned(read.keys[:, 0]), fanned(read.mask), EncoderDecoderCache(own, other)
        )
        name = self.config.architecture
        pasts = pasts_of(told.past_key_values.self_attention_cache, name)
        size = pasts[0][0].shape[-2]
        grown = tuple(GrowingMemory(keys, values, None, size) for keys, values in pasts)
        if not across:
            pairs = pasts_of(told.past_key_values.cross_attention_cache, name)
            across = tuple(Memory(keys[::fan], values[::fan], read.mask) for keys, values in pairs)
        return told.logits[:, -1], State((read, across), (grown, place + 1), state.width)
