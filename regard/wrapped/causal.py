"""Language models of transformers: they continue a text, with the keys and values of what was read as the state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention import GrowingMemory, Memory
from regard.errors import BadInput, RunError
from regard.layers.state import State
from regard.wrapped.base import NO_LIMIT, Wrapped


class WrappedLanguageModel(Wrapped):
    """Continues a text: `AutoModelForCausalLM`."""

    @property
    def max_target_positions(self) -> int:
        """The most tokens it sees at once."""
        return self.config.max_positions

    @property
    def _counts_places(self) -> bool:
        """Whether it can be told where a text begins behind padding, or needs not."""
        return "position_ids" in self._takes or self.config.max_positions >= NO_LIMIT

    def states(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> states (B, T, dim) of the last layer."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        given = self.taken(
            input_ids=tokens, attention_mask=real.long(), position_ids=_places(real), use_cache=False
        )
        last: Tensor = self.inner.base_model(**given)[0]
        return last

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of each next token."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        given = self.taken(
            input_ids=tokens, attention_mask=real.long(), position_ids=_places(real), use_cache=False
        )
        logits: Tensor = self.inner(**given).logits
        return logits

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read a prompt (B, S), padded on the left, without its last token, which is the first given to `step`."""
        if not source.shape[1]:
            return State((), (tuple(GrowingMemory() for _ in self._sites), mask.sum(1)))
        real = None if bool(mask.all()) else mask
        _, pasts = self._read(source, mask, _places(mask), [])
        kept = tuple(GrowingMemory(keys, values, real, source.shape[1]) for keys, values in pasts)
        return State((), (kept, mask.sum(1)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        befores, place = state.rows
        memories: list[Memory] = [past.memory for past in befores if past.size]
        hidden = befores[0].mask is not None
        seen = memories[0].mask if memories and hidden else tokens.new_ones(len(tokens), befores[0].size)
        assert seen is not None
        mask = torch.cat([seen.bool(), tokens.new_ones(len(tokens), 1, dtype=torch.bool)], 1)
        logits, pasts = self._read(tokens[:, None], mask, place[:, None], memories)
        size = befores[0].size + 1
        kept = tuple(GrowingMemory(keys, values, mask if hidden else None, size) for keys, values in pasts)
        return logits, State((), (kept, place + 1), state.width)

    def _read(
        self, tokens: Tensor, mask: Tensor, places: Tensor, memories: list[Memory]
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The logits behind the last token, and the keys and values of every layer."""
        if not self._counts_places and not bool(mask.all()):
            raise BadInput(
                f"{self.config.architecture} counts padding as positions, so texts of different lengths cannot be "
                "continued together; give one at a time"
            )
        cache = cache_of((memory.keys, memory.values) for memory in memories)
        given = self.taken(
            input_ids=tokens,
            attention_mask=mask.long(),
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        told = self.inner(**given)
        return told.logits[:, -1], pasts_of(told.past_key_values, self.config.architecture)


def _places(mask: Tensor) -> Tensor:
    """Positions count real tokens only."""
    return (mask.long().cumsum(1) - 1).clamp_min(0)


def cache_of(pasts: Any) -> Any:
    """Keys and values as transformers keeps them; all are kept, also where a layer looks at a window."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    for keys, values in pasts:
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def pasts_of(cache: Any, architecture: str) -> list[tuple[Tensor, Tensor]]:
    """The keys and values of every layer."""
    pasts = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in cache.layers]
    if not pasts or not all(isinstance(side, Tensor) for past in pasts for side in past):
        raise RunError(
            f"{architecture} keeps a state that is no keys and values, and cannot be stepped through here"
        )
    return pasts  # type: ignore[return-value]
