"""A query looks at a memory: the only place where attention happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

import torch
from torch import Tensor, nn

from regard.attention import memory as memories
from regard.attention.kernels.fused import fused_attention, has_packed_kernel, packed_attention
from regard.attention.kernels.products import weighted_sums
from regard.attention.memory import Memory
from regard.attention.packing import Packing
from regard.attention.record import Trace, record, watching
from regard.attention.score import Question, Score, gather
from regard.attention.shapes import check_batch, check_extras, check_memory, check_width
from regard.attention.weigh import Hard, Places, Weigh, Weighed
from regard.base.dropout import drop
from regard.base.short_repr import short_repr


@dataclass(frozen=True)
class Look:
    """One exact read with its weights and scores. S places per query: the window in local attention, else S = K."""

    read: Tensor  # (B, .., Q, V)
    weights: Tensor  # (B, .., Q, S), before dropout
    scores: Tensor  # (B, .., Q, S)
    places: Places | None = None  # which places these are; None: all K, in order
    chosen: Tensor | None = None  # (B, .., Q) the place that hard attention chose
    log_probability: Tensor | None = None  # (B, .., Q) of that place
    entropy: Tensor | None = None  # (B, .., Q) of the distribution it was sampled from

    __repr__ = short_repr

    def dense(self, size: int, rows: list[int] | slice = slice(None), heads: Sequence[int] | None = None) -> Tensor:
        """The weights over all `size` places of the memory (B, .., Q, K), of some queries and some heads."""

        def take(x: Tensor) -> Tensor:
            x = x.expand_as(self.weights)[..., rows, :]
            return x[:, heads] if heads is not None and x.dim() == 4 else x

        weights = take(self.weights)
        if self.places is None:
            return weights
        full = weights.new_zeros(*weights.shape[:-1], size)
        return full.scatter_add(-1, take(self.places.index).clamp(0, size - 1), weights)


class Attend(nn.Module):
    """e = score(q, k), a = weigh(e), read = sum_i a_i v_i.

    causal: a query at step t sees places 0 .. t; strict: 0 .. t - 1. fixed_length: all calls have the same lengths
    (the patches of an image), so that a kernel which plans for each shape may be used. Calling the module may use
    the fused kernel; `look` is exact and returns weights and scores. `allowed` is the mask of both, except that the
    fused kernel has a faster form of causality (`_fused_causal`); a test checks that the two agree."""

    traced = ("weights", "mask", "centre")  # what a trace may see here
    calls_add = -2  # the axis along which the weights of several calls add up in a trace: the queries

    def __init__(
        self,
        score: Score,
        weigh: Weigh | None = None,
        *,
        causal: bool = False,
        strict: bool = False,
        dropout: float = 0.0,
        fixed_length: bool = False,
    ):
        super().__init__()
        if strict and not causal:
            raise ValueError("strict=True hides the current place from causal attention, so it needs causal=True")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        self.score = score
        self.weigh = weigh if weigh is not None else Weigh()
        self.causal, self.strict, self.dropout, self.fixed_length = causal, strict, dropout, fixed_length

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> Memory:
        """Prepare a memory once for all queries. Masked keys and values are zeroed, so NaN cannot leak."""
        check_width("the keys of this score", keys, self.score.key_dim)
        values = keys if values is None else values
        check_memory(keys, values, mask)
        if mask is not None:
            hidden = ~mask.view(len(mask), *[1] * (keys.dim() - 3), -1, 1)  # (B, .., K, 1)
            same = values is keys
            keys = keys.masked_fill(hidden, 0)
            values = keys if same else values.masked_fill(hidden, 0)
        return Memory(self.score.keys(keys), values, mask)

    def rewrite(self, memory: Memory, weights: Tensor, erase: Tensor, add: Tensor) -> Memory:
        """The memory after writing into its values (see `memory.rewrite`), which are also its keys."""
        values = memories.rewrite(memory.values, weights, erase, add)
        return Memory(self.score.keys(values), values, memory.mask)

    def allowed(self, question: Question, memory: Memory, places: Tensor | None = None) -> Tensor | None:
        """The mask of places each query may look at, broadcastable to (B, .., Q, S); None: everywhere."""
        ones = [1] * (question.query.dim() - 3)
        masks = [] if question.mask is None else [question.spread(question.mask, memory.size, places)]
        if question.bias is not None:
            masks.append(~question.spread(question.bias, memory.size, places).isneginf())
        if places is not None:
            masks.append(memory.select(places))
        elif memory.mask is not None:
            masks.append(memory.mask.view(len(memory.mask), *ones, 1, -1))
        alone = question.newest and question.query.shape[-2] == 1 and not self.strict
        if self.causal and not (alone and question.since is None):  # else the newest place sees the whole memory
            masks.append(self._past(question, memory, places, ones))
        return reduce(torch.logical_and, masks) if masks else None

    def _past(self, question: Question, memory: Memory, places: Tensor | None, ones: list[int]) -> Tensor:
        position = self._positions(question, memory)
        if position.dim() == 2:
            position = position.view(len(position), *ones, -1)
        if places is None:
            places = torch.arange(memory.size, device=position.device)
        past = places < position[..., None] if self.strict else places <= position[..., None]
        if question.since is not None:
            past = past & (places >= question.since.view(len(question.since), *ones, -1, 1))
        return past

    def _positions(self, question: Question, memory: Memory) -> Tensor:
        position = question.positions()
        return position + memory.size - len(position) if question.newest else position

    def forward(self, query: Tensor | Question, memory: Memory) -> Tensor:
        """What each query reads: (B, .., Q, V)."""
        return self._read(self._ask(query), memory)

    def look(self, query: Tensor | Question, memory: Memory) -> Look:
        """The exact read, with weights, scores and, for hard attention, the chosen place."""
        question = self._ask(query)
        if question.packing is not None:
            raise ValueError("look does not take packed rows; pass the unpacked query and a memory with a mask")
        self._check(question, memory)
        return self._look(question, memory)

    def _ask(self, query: Tensor | Question) -> Question:
        question = query if isinstance(query, Question) else Question(query)
        check_width("the query of this score", question.query, self.score.query_dim)
        return question

    def _check(self, question: Question, memory: Memory) -> None:
        if question.query.shape[:-2] != memory.keys.shape[:-2]:
            check_batch(question.query, memory.keys)
        check_memory(memory.keys, memory.values, memory.mask)  # it may have been made by hand
        position, beta, since = question.position, question.beta, question.since
        mask, bias, previous = question.mask, question.bias, question.previous
        gate, shift, gamma = question.gate, question.shift, question.gamma
        if position is beta is since is mask is bias is previous is gate is shift is gamma is None:
            return  # the usual case; a decoder's steps are short, so it should cost nothing
        check_extras(question, memory.size)

    def _may_fuse(self, query: Tensor) -> bool:
        dropping = self.training and self.dropout > 0 and not query.is_cuda  # no fused kernel on the CPU has it
        return self.score.inner and self.weigh.fused and not dropping

    def _read(self, question: Question, memory: Memory) -> Tensor:
        if question.packing is not None:
            return self._read_packed(question, question.packing, memory)
        self._check(question, memory)
        if not self._may_fuse(question.query):
            return self._look(question, memory).read
        for seen in watching(self):
            self._show(seen, question, memory)
        return self._fused(question, memory)

    def _read_packed(self, question: Question, packing: Packing, memory: Memory) -> Tensor:
        """Attention within each packed row: (1, .., N, V)."""
        self._check_packed(question, packing, memory)
        for seen in watching(self):
            self._show(seen, question, memory)
        if not packing.size:
            return memory.values  # there are no tokens
        if self._may_fuse(question.query) and not self.causal and not (self.training and self.dropout):
            query = self.score.query(question)
            keys, values = memory.keys.to(query.dtype), memory.values.to(query.dtype)
            if has_packed_kernel(query, values, self.score.scale(query.shape[-1])):
                return packed_attention(query, keys, values, packing)
        reads = []
        sides = (packing.split(x) for x in (question.query, memory.keys, memory.values))
        for group, query, keys, values in zip(packing.groups, *sides, strict=True):
            part, own = replace(question, query=query, packing=None), Memory(keys, values, group.mask)
            reads.append(self._fused(part, own) if self._may_fuse(query) else self._exact(part, own).read)
        return packing.join(reads)

    def _check_packed(self, question: Question, packing: Packing, memory: Memory) -> None:
        if not self.weigh.fused:
            raise ValueError(f"packed rows need soft attention, not {type(self.weigh).__name__}; unpack them first")
        for name in (field.name for field in fields(Question)):
            if name not in ("query", "packing") and getattr(question, name) is not getattr(Question, name):
                raise ValueError(f"a packed question takes no {name}: each row counts from 0; unpack it first")
        if memory.mask is not None:
            raise ValueError("a packed memory takes no mask: packing has already removed the padding")
        shape = (1, packing.size)
        for name, x in (("query", question.query), ("memory", memory.keys)):
            if (len(x), x.shape[-2]) != shape:
                raise ValueError(f"this packing holds {shape} tokens, got a {name} of {(len(x), x.shape[-2])}")

    def _look(self, question: Question, memory: Memory) -> Look:
        look = self._exact(question, memory)
        if look.places is not None:
            record(self, "centre", look.places.centre)
        for seen in watching(self):
            kept = seen.take(self, question.query.shape[-2])
            if kept:
                seen.keep(self, "weights", look.dense(memory.size, kept, seen.heads), self.calls_add)
                self._keep_mask(seen, self.allowed(question, memory), question, memory, kept)
        return look

    def _exact(self, question: Question, memory: Memory) -> Look:
        if memory.size == 0:
            none = question.query.new_zeros(*question.query.shape[:-1], 0)
            certain = none.sum(-1) if isinstance(self.weigh, Hard) else None
            return Look(
                none.to(memory.values.dtype) @ memory.values,
                none,
                none,
                log_probability=certain,
                entropy=certain,
            )
        scores, weighed, places = self._weighed(question, memory)
        weights = drop(weighed.weights, self.dropout, self.training)
        if weighed.chosen is not None and not weights.requires_grad:  # only the chosen value is read
            found = gather(memory.values, weighed.chosen[..., None])  # (B, .., Q, 1, V)
            read = weights.gather(-1, weighed.chosen[..., None]).to(found.dtype) * found.squeeze(-2)
        elif places is None or places.index.shape[-1] >= memory.size:
            read = weighted_sums(weights.to(memory.values.dtype), memory.values)
        else:
            found = gather(memory.values, places.index)  # (B, .., Q, S, V)
            read = (weights.to(found.dtype).unsqueeze(-2) @ found).squeeze(-2)
        return Look(read, weighed.weights, scores, places, weighed.chosen, weighed.log_probability, weighed.entropy)

    def _weighed(self, question: Question, memory: Memory) -> tuple[Tensor, Weighed, Places | None]:
        """Scores and weights of the places that each query looks at."""
        places = self.weigh.places(question, memory)
        query = self.score.query(question)
        wide = places is not None and places.index.shape[-1] >= memory.size
        if places is None or wide:
            scores = self._biased(self.score.compare(query, memory.keys), question, memory)
            mask = self.allowed(question, memory)
            if places is not None:  # a window as wide as the memory: reading all is cheaper than gathering
                every = torch.arange(memory.size, device=scores.device)
                inside = (every >= places.index[..., :1]) & (every <= places.index[..., -1:])  # (B, .., Q, K)
                mask = inside if mask is None else mask & inside
                places = Places(every.expand_as(inside), places.centre)
        else:
            scores = self.score.compare_at(query, memory.keys, places.index)
            scores = self._biased(scores, question, memory, places.index)
            mask = self.allowed(question, memory, places.index)
        return scores, self.weigh(scores, mask, places, question), places

    def _biased(self, scores: Tensor, question: Question, memory: Memory, places: Tensor | None = None) -> Tensor:
        if question.bias is None:
            return scores
        return scores + question.spread(question.bias, memory.size, places).to(scores.dtype)

    def _fused(self, question: Question, memory: Memory) -> Tensor:
        """Scaled dot-product attention in one kernel, which stores no Q x K tensor."""
        query, keys, values = self.score.query(question), memory.keys, memory.values
        scale = self.score.scale(query.shape[-1])
        flat = query.dim() == 3
        if flat:
            query, keys, values = query[:, None], keys[:, None], values[:, None]
        keys, values = keys.to(query.dtype), values.to(query.dtype)
        drop = self.dropout if self.training else 0.0
        extras = (question.position, question.since, question.mask, question.bias)
        plain = all(x is None for x in extras) and query.shape[-2] == keys.shape[-2]
        if self.causal and plain:
            read = self._fused_causal(query, keys, values, memory.mask, scale, drop)
        else:
            mask = self.allowed(question, memory)
            if mask is None:
                read = fused_attention(
                    query, keys, values, dropout=drop, scale=scale, fixed_length=self.fixed_length
                )
            else:
                mask = mask.unsqueeze(1) if mask.dim() == 3 else mask  # a head dimension to broadcast over
                some = mask.any(-1, keepdim=True)  # a query that may look nowhere looks at all and reads 0
                if question.bias is None:
                    mask = mask | ~some
                else:
                    bias = question.bias.unsqueeze(1) if question.bias.dim() == 3 else question.bias
                    mask = torch.where(mask, bias.to(query.dtype), torch.finfo(query.dtype).min)
                read = fused_attention(query, keys, values, mask=mask, dropout=drop, scale=scale)
                read = read.masked_fill(~some, 0)
        return read[:, 0] if flat else read

    def _fused_causal(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, drop: float
    ) -> Tensor:
        """Causal attention of a whole sequence. The kernel takes either a mask or causality, so padding becomes an
        extra feature: 1 in every query, 0 in visible keys, a large negative number in masked keys. A query that has
        only padding before it reads padding, whose values are 0."""
        if mask is not None:
            low = -3e4 if keys.dtype == torch.float16 else -1e30
            lift = torch.zeros_like(keys[..., :1]).masked_fill(~mask[:, None, :, None], low)
            keys, query = torch.cat([keys, lift], -1), torch.cat([query, torch.ones_like(query[..., :1])], -1)
        if self.strict:  # shift: query t may see keys 0 .. t - 1
            query, keys = query[..., 1:, :], keys[..., :-1, :]
            first, values = torch.zeros_like(values[..., :1, :]), values[..., :-1, :]
        read = fused_attention(query, keys, values, causal=True, dropout=drop, scale=scale)
        return torch.cat([first, read], -2) if self.strict else read

    @torch.no_grad()
    def _show(self, seen: Trace, question: Question, memory: Memory) -> None:
        """Compute the weights of the traced heads and queries, in addition to the fused read. Packed rows are
        recorded as the padded batch they come from, with zero weights for padding queries."""
        packing = question.packing
        kept = seen.take(self, question.query.shape[-2] if packing is None else packing.mask.shape[1])
        if not kept:
            return
        if packing is not None:
            padded, keys = (packing.unpack(x.movedim(-2, 1)).movedim(1, -2) for x in (question.query, memory.keys))
            question, memory = replace(question, query=padded, packing=None), Memory(keys, keys, packing.mask)
        rows = torch.tensor(kept, device=question.query.device)
        placed = replace(question, position=self._positions(question, memory), newest=False)
        part = placed.select(rows, seen.heads)
        if seen.heads is not None and memory.keys.dim() == 4 and memory.keys.shape[1] > 1:
            memory = replace(memory, keys=memory.keys[:, seen.heads], values=memory.values[:, seen.heads])
        scores = self._biased(self.score.compare(self.score.query(part), memory.keys), part, memory)
        mask = self.allowed(part, memory)
        weights = self.weigh(scores, mask, None, part).weights
        if packing is not None:
            real = packing.mask.index_select(-1, rows)
            weights = weights.masked_fill(~real.view(len(real), *[1] * (weights.dim() - 3), -1, 1), 0)
        seen.keep(self, "weights", weights, self.calls_add)
        self._keep_mask(seen, mask, part, memory, list(range(len(kept))))

    def _keep_mask(
        self, seen: Trace, mask: Tensor | None, question: Question, memory: Memory, rows: list[int]
    ) -> None:
        """Where the queries of these rows may look (B, Q, K), with any head."""
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=question.query.device)
        mask = mask.any(1) if mask.dim() == 4 else mask  # (B or 1, Q or 1, K or 1); a causal one may have no B
        mask = mask[..., rows, :] if mask.shape[-2] > 1 else mask
        seen.keep(self, "mask", mask.expand(len(question.query), len(rows), memory.size), self.calls_add)
