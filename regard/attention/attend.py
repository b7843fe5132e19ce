"""A query looks at a memory: the place where attention happens.

Three papers compute it elsewhere too, each held to `Attend` by a test, since their steps follow one another and
autograd would keep the whole memory of every step, or the launches of every step would take longer than its work:

    models/lstmn/tape.py, kernels.py    the tape of an LSTMN over a whole sequence
                                        tests/models/lstmn/test_tape.py, test_kernels.py
    models/ntm/step.py, kernels.py      the addressing, writing and reading of a Neural Turing machine
                                        tests/models/ntm/test_memory.py, test_sequence.py
    models/snail/kernels.py             the look of an agent that plays a whole trial in one kernel; no gradient
                                        tests/models/snail/test_kernels.py

So does a decoding step of a whole stack of blocks: layers/fused_step_cuda.py, layers/loop_step_cuda.py,
tests/layers/test_fused_step.py.

`tests/attention/test_only_place.py` fails where any other file of `layers` or `models` weighs keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

import torch
from torch import Tensor, nn

from regard.attention.kernels.few import has_kernel_for_few, has_kernel_for_look, look_once, read_few
from regard.attention.kernels.fused import (
    causal_attention,
    fused_attention,
    has_packed_kernel,
    masked_attention,
    packed_attention,
)
from regard.attention.kernels.products import weighted_sums
from regard.attention.kernels.step_look import has_kernel_for_step, look_of_step
from regard.attention.memory import Memory
from regard.attention.packing import Packing
from regard.attention.question import Question
from regard.attention.record import Trace, tracing, watching
from regard.attention.score import Additive, Score, gather
from regard.attention.shapes import check_batch, check_memory, check_width
from regard.attention.weigh import Hard, Places, Weigh, Weighed
from regard.base.arguments import checked
from regard.base.dropout import drop
from regard.base.exporting import exporting
from regard.base.shared_steps import sharing_of
from regard.base.short_repr import short_repr
from regard.errors import BadInput


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
        """The weights over all `size` places of the memory (B, .., Q, K), of these queries and heads."""

        def take(x: Tensor) -> Tensor:
            x = x.expand_as(self.weights)[..., rows, :]
            return x[:, heads] if heads is not None and x.dim() == 4 else x

        weights = take(self.weights)
        if self.places is None:
            return weights
        full = weights.new_zeros(*weights.shape[:-1], size)
        return full.scatter_add(-1, take(self.places.index).clamp(0, size - 1), weights)


@checked
class Attend(nn.Module):
    """e = score(q, k), a = weigh(e), read = sum_i a_i v_i.

    causal: a query at step t sees places 0 .. t; strict: 0 .. t - 1. fixed_length: all calls have the same lengths
    (the patches of an image), so that a kernel which plans for each shape may be used. Calling the module may use
    the fused kernel; `look` is exact and returns weights and scores. `allowed` is the mask of both, except that the
    fused kernel has a faster form of causality (`causal_attention`); a test checks that the two agree."""

    looks_back = False  # True: a memory holds the places before a query's own, and no others
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
            raise BadInput("strict=True hides the current place from causal attention, so it needs causal=True")
        if not 0 <= dropout < 1:
            raise BadInput(f"dropout must lie in [0, 1), got {dropout}")
        self.score = score
        self.weigh = weigh if weigh is not None else Weigh()
        self.causal, self.strict, self.dropout, self.fixed_length = causal, strict, dropout, fixed_length

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> Memory:
        """Prepare a memory once for all queries. Masked keys and values are zeroed, so NaN cannot leak."""
        check_width("the keys of this score", keys, self.score.key_dim)
        values = keys if values is None else values
        check_memory(keys, values, mask)
        if mask is not None:
            hidden = ~mask.view(mask.shape[0], *[1] * (keys.dim() - 3), -1, 1)  # (B, .., K, 1)
            same = values is keys
            keys = keys.masked_fill(hidden, 0)
            values = keys if same else values.masked_fill(hidden, 0)
        return Memory(self.score.keys(keys), values, mask)

    def allowed(self, question: Question, memory: Memory, places: Tensor | None = None) -> Tensor | None:
        """The mask of places each query may look at, broadcastable to (B, .., Q, S); None: everywhere."""
        ones = [1] * (question.query.dim() - 3)
        masks = [] if question.mask is None else [question.spread(question.mask, memory.size, places)]
        if question.bias is not None:
            masks.append(~question.spread(question.bias, memory.size, places).isneginf())
        if places is not None:
            masks.append(memory.select(places))
        elif memory.mask is not None:
            masks.append(memory.mask.view(memory.mask.shape[0], *ones, 1, -1))
        if self.causal and not self._is_alone(question):  # else the newest place sees the whole memory
            masks.append(self._past(question, memory, places, ones))
        return reduce(torch.logical_and, masks) if masks else None

    def _is_alone(self, question: Question) -> bool:
        """Is it the query of the newest place, and of no other?"""
        newest = question.newest and question.query.shape[-2] == 1
        return newest and not self.strict and question.since is None

    def _past(self, question: Question, memory: Memory, places: Tensor | None, ones: list[int]) -> Tensor:
        position = self._positions(question, memory)
        if position.dim() == 2:
            position = position.view(position.shape[0], *ones, -1)
        if places is None:
            places = torch.arange(memory.size, device=position.device)
        past = places < position[..., None] if self.strict else places <= position[..., None]
        if question.since is not None:
            past = past & (places >= question.since.view(question.since.shape[0], *ones, -1, 1))
        return past

    def _positions(self, question: Question, memory: Memory) -> Tensor:
        position = question.positions()
        return position + memory.size - position.shape[0] if question.newest else position

    def forward(self, query: Tensor | Question, memory: Memory) -> Tensor:
        """What each query reads: (B, .., Q, V)."""
        return self._read(self._ask(query), memory)

    def look(self, query: Tensor | Question, memory: Memory) -> Look:
        """The exact read, with weights, scores and, for hard attention, the chosen place."""
        question = self._ask(query)
        if question.packing is not None:
            raise BadInput("look does not take packed rows; pass the unpacked query and a memory with a mask")
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
        question.check(memory.size)

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
            raise BadInput(f"packed rows need soft attention, not {type(self.weigh).__name__}; unpack them first")
        for field in fields(question):
            if field.name not in ("query", "packing") and getattr(question, field.name) is not field.default:
                raise BadInput(f"a packed question takes no {field.name}: each row counts from 0; unpack it first")
        if memory.mask is not None:
            raise BadInput("a packed memory takes no mask: packing has already removed the padding")
        shape = (1, packing.size)
        for name, x in (("query", question.query), ("memory", memory.keys)):
            if (len(x), x.shape[-2]) != shape:
                raise BadInput(f"this packing holds {shape} tokens, got a {name} of {(len(x), x.shape[-2])}")

    def _look(self, question: Question, memory: Memory) -> Look:
        look = self._exact(question, memory)
        for seen in watching(self):
            rows = seen.take(self, question.query.shape[-2], self._looked_at(question, memory.size))
            if look.places is not None:
                seen.keep(self, "centre", look.places.centre, -1)
            if rows:
                seen.keep(self, "weights", look.dense(memory.size, rows, seen.heads), self.calls_add)
                self._keep_mask(seen, self.allowed(question, memory), question, memory, rows)
                if seen.beside:
                    self._keep_beside(seen, *self._part(seen, question, memory, rows))
        return look

    def _looked_at(self, question: Question, size: int) -> int | None:
        """How many places a trace counts; None: the queries go on where those of the last call ended."""
        step = question.newest or question.position is not None or self.calls_add != -2
        return None if step else size

    def _exact(self, question: Question, memory: Memory) -> Look:
        if memory.size == 0:
            return self._look_at_nothing(question, memory)
        if (look := self._look_in_one_kernel(question, memory) or self._look_of_step(question, memory)) is not None:
            return look
        scores, mask, places = self._scored(question, memory)
        weighed = self.weigh(scores, mask, places, question)
        read = self._read_values(weighed, memory.values, places)
        return Look(read, weighed.weights, scores, places, weighed.chosen, weighed.log_probability, weighed.entropy)

    def _look_in_one_kernel(self, question: Question, memory: Memory) -> Look | None:
        """As `_exact`, of one query of each row on a GPU; None: not here."""
        if not self.weigh.fused or not has_kernel_for_look(question.query, memory.keys, memory.values):
            return None
        asked = self.score.asked(question) if self._sees_all(question) else None
        if asked is None:
            return None
        query, v = asked
        keys = memory.keys.to(query.dtype) if v is None else memory.keys
        scale = self.score.scale(query.shape[-1])
        scores, weights, read = look_once(query, keys, memory.values, memory.mask, v, scale=scale)
        return Look(read, weights, scores)

    def _look_of_step(self, question: Question, memory: Memory) -> Look | None:
        """By a kernel, at a memory that the steps of a recurrence share; None: there is no kernel for it."""
        shared = sharing_of(memory.keys)
        usual = type(self.weigh) is Weigh and not self.causal and not (self.training and self.dropout)
        if shared is None or not usual or question.mask is not None or question.bias is not None:
            return None
        additive = self.score if isinstance(self.score, Additive) else None
        if additive is None and not self.score.inner:
            return None
        if not has_kernel_for_step(question.query, memory.keys, memory.values):
            return None
        query = additive.project(question) if additive else self.score.query(question)
        sides = query, memory.keys, memory.values, memory.mask
        v, scale = additive.v if additive else None, self.score.scale(query.shape[-1])
        scores, weights, read = look_of_step(shared, *sides, v=v, scale=scale)
        return Look(read, weights, scores)

    def _look_at_nothing(self, question: Question, memory: Memory) -> Look:
        """An empty memory reads 0."""
        empty = question.query.new_zeros(*question.query.shape[:-1], 0)
        certain = empty.sum(-1) if isinstance(self.weigh, Hard) else None
        read = empty.to(memory.values.dtype) @ memory.values
        return Look(read, empty, empty, log_probability=certain, entropy=certain)

    def _scored(self, question: Question, memory: Memory) -> tuple[Tensor, Tensor | None, Places | None]:
        """The scores of the places that each query looks at, which of these it may look at, and which places these
        are (None: all)."""
        places = self.weigh.places(question, memory)
        query = self.score.query(question)
        # Exported it is for memories of any size, smaller than a window too.
        if places is not None and not exporting() and places.index.shape[-1] < memory.size:
            scores = self.score.compare_at(query, memory.keys, places.index)
            scores = self._biased(scores, question, memory, places.index)
            return scores, self.allowed(question, memory, places.index), places
        scores = self._biased(self.score.compare(query, memory.keys), question, memory)
        mask = self.allowed(question, memory)
        if places is None:
            return scores, mask, None
        inside = places.inside(memory.size)  # the window is as wide as the memory: reading all beats gathering
        return scores, inside if mask is None else mask & inside, places.of_all(memory.size)

    def _biased(self, scores: Tensor, question: Question, memory: Memory, places: Tensor | None = None) -> Tensor:
        if question.bias is None:
            return scores
        return scores + question.spread(question.bias, memory.size, places).to(scores.dtype)

    def _read_values(self, weighed: Weighed, values: Tensor, places: Places | None) -> Tensor:
        """sum_i a_i v_i over the places that were weighed, with dropout of the weights."""
        weights = drop(weighed.weights, self.dropout, self.training)
        if weighed.chosen is not None and not weights.requires_grad:  # only the chosen value is read
            chosen = weighed.chosen[..., None]
            near = gather(values, chosen)  # (B, .., Q, 1, V)
            return weights.gather(-1, chosen).to(near.dtype) * near.squeeze(-2)
        if places is None or places.index.shape[-1] >= values.shape[-2]:
            return weighted_sums(weights.to(values.dtype), values)
        near = gather(values, places.index)  # (B, .., Q, S, V)
        return (weights.to(near.dtype).unsqueeze(-2) @ near).squeeze(-2)

    def _fused(self, question: Question, memory: Memory) -> Tensor:
        """Scaled dot-product attention in one kernel, which stores no Q x K tensor."""
        query, keys, values = self.score.query(question), memory.keys, memory.values
        scale, dropout = self.score.scale(query.shape[-1]), self.dropout if self.training else 0.0
        flat = query.dim() == 3
        if flat:
            query, keys, values = query[:, None], keys[:, None], values[:, None]
        sides = query, keys.to(query.dtype), values.to(query.dtype)
        if self._sees_all(question) and has_kernel_for_few(query, values):
            read = read_few(*sides, memory.mask, scale=scale)
        elif self.causal and self._whole_sequence(question, memory):
            read = causal_attention(*sides, memory.mask, strict=self.strict, dropout=dropout, scale=scale)
        elif (mask := self.allowed(question, memory)) is not None:
            read = masked_attention(*sides, mask, question.bias, dropout=dropout, scale=scale)
        else:
            read = fused_attention(*sides, dropout=dropout, scale=scale, fixed_length=self.fixed_length)
        return read[:, 0] if flat else read

    def _sees_all(self, question: Question) -> bool:
        """Whether queries see all that the memory's mask allows, while decoding."""
        if self.training or tracing() or question.mask is not None or question.bias is not None:
            return False
        return not self.causal or self._is_alone(question)

    def _whole_sequence(self, question: Question, memory: Memory) -> bool:
        """Whether query t is at place t, and sees all that causality and the memory's mask allow."""
        extras = (question.position, question.since, question.mask, question.bias)
        return all(x is None for x in extras) and question.query.shape[-2] == memory.size

    @torch.no_grad()
    def _show(self, seen: Trace, question: Question, memory: Memory) -> None:
        """Compute the weights of the traced heads and queries, in addition to the fused read. Packed rows are
        recorded as the padded batch they come from, with zero weights for padding queries."""
        packing = question.packing
        count, size = (question.query.shape[-2], memory.size) if packing is None else [packing.mask.shape[1]] * 2
        rows = seen.take(self, count, self._looked_at(question, size))
        if not rows:
            return
        if packing is not None:
            question, memory = _unpacked(question, packing, memory, with_values="values" in seen.beside)
        index = torch.tensor(rows, device=question.query.device)
        part, memory = self._part(seen, question, memory, rows)
        scores, mask, _ = self._scored(part, memory)
        weights = self.weigh(scores, mask, None, part).weights
        if packing is not None:
            real = packing.mask.index_select(-1, index)
            weights = weights.masked_fill(~real.view(len(real), *[1] * (weights.dim() - 3), -1, 1), 0)
        seen.keep(self, "weights", weights, self.calls_add, own=True)
        self._keep_mask(seen, mask, part, memory, list(range(len(rows))))
        self._keep_beside(seen, part, memory)

    def _part(self, seen: Trace, question: Question, memory: Memory, rows: list[int]) -> tuple[Question, Memory]:
        """The traced queries and heads."""
        index = torch.tensor(rows, device=question.query.device)
        part = replace(question, position=self._positions(question, memory), newest=False).select(index, seen.heads)
        if seen.heads is None or memory.keys.dim() != 4 or memory.keys.shape[1] == 1:
            return part, memory
        return part, replace(memory, keys=seen.of_heads(memory.keys), values=seen.of_heads(memory.values))

    @torch.no_grad()
    def _keep_beside(self, seen: Trace, question: Question, memory: Memory) -> None:
        """What the weights are computed from, where asked."""
        query = self.score.query(question)

        def scores() -> Tensor:
            scores = self._biased(self.score.compare(query, memory.keys), question, memory)
            mask, places = self.allowed(question, memory), self.weigh.places(question, memory)
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            return scores if places is None else scores.masked_fill(~places.inside(memory.size), -torch.inf)

        sides = {
            "scores": scores,
            "queries": lambda: self.score.plain(query),
            "keys": lambda: self.score.plain(memory.keys),
            "values": lambda: memory.values,
        }
        seen.keep_beside(self, sides, self.calls_add)

    def _keep_mask(
        self, seen: Trace, mask: Tensor | None, question: Question, memory: Memory, rows: list[int]
    ) -> None:
        """Where the queries of these rows may look (B, Q, K), with any head."""
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=question.query.device)
        mask = mask.any(1) if mask.dim() == 4 else mask  # (B or 1, Q or 1, K or 1); a causal mask may have no B
        mask = mask[..., rows, :] if mask.shape[-2] > 1 else mask
        seen.keep(self, "mask", mask.expand(len(question.query), len(rows), memory.size), self.calls_add)


def _unpacked(
    question: Question, packing: Packing, memory: Memory, *, with_values: bool
) -> tuple[Question, Memory]:
    """The padded batch that packed rows come from, its values only where they are asked for."""

    def unpack(x: Tensor) -> Tensor:
        return packing.unpack(x.movedim(-2, 1)).movedim(1, -2)

    query, keys = unpack(question.query), unpack(memory.keys)
    values = unpack(memory.values) if with_values else keys
    return replace(question, query=query, packing=None), Memory(keys, values, packing.mask)
