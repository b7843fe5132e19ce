"""A decoding step of a stack of blocks in few kernels, each of which reads its weights once: `fused_step_cuda.py`
for one row or two of a language model, `loop_step_cuda.py` for all others."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.kernels.few import MOST_QUERIES, worth
from regard.attention.memory import BufferedMemory, Memory
from regard.attention.record import tracing
from regard.attention.score import ScaledDot
from regard.base.device import shared_memory
from regard.layers.block import KERNEL_NAMES, Block
from regard.layers.positions import Learned, Sinusoidal

try:
    from regard.layers import fused_step_cuda, loop_step_cuda
except ImportError:  # without Triton
    fused_step_cuda = loop_step_cuda = None  # type: ignore[assignment]

log = logging.getLogger("regard.decode")
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MOST_ROWS = 512
MOST_NUMBERS = 1 << 17  # rows x features: with more a step is bound by arithmetic, and cuBLAS is faster
SHARED = 220 << 10  # bytes of shared memory that a program may need: data-centre GPUs since Hopper have them
MOST_WIDTH = 8192  # of an input; a program of one row holds all of it
MOST_HEAD = 128


def try_embed(
    tokens: Tensor, places: Tensor, table: nn.Embedding, positions: nn.Module | None, most: int, scale: float = 1.0
) -> tuple[Tensor, Tensor] | None:
    """scale E[token] + P[place] of tokens and places (N,), of which `most` is an upper bound: (N, dim); and the
    places + 1. None where it is no single kernel."""
    plain = (table, positions.table) if isinstance(positions, Learned) else (table,)
    if (
        fused_step_cuda is None
        or not tokens.is_cuda
        or not isinstance(positions, Learned | Sinusoidal)
        or torch.is_grad_enabled()
        or table.training
        or any(map(_has_hooks, (*plain, positions)))
    ):
        return None
    return fused_step_cuda.embed(tokens, places, table.weight, positions.rows(most, tokens.device), scale)


def try_step(
    x: Tensor, blocks: Sequence[Any], pasts: Sequence[Any], norm: Any, out: Any, sources: Sequence[Any] = ()
) -> Tensor | None:
    """As `step`; None where it cannot be used: the reason is logged, if the pasts are buffers."""
    if not isinstance(pasts[0], BufferedMemory):
        return None
    reason = fits(blocks, x, pasts, sources) or _end_misfit(norm, out, x.dtype, pre=blocks[0].pre)
    if reason:
        _tell(reason)
        return None
    return step(x, blocks, pasts, norm, out, sources)


@cache
def _tell(reason: str) -> None:
    """Once."""
    log.debug("the fused step is not used: %s", reason)


def fits(blocks: Sequence[Any], x: Tensor, pasts: Sequence[Any], sources: Sequence[Any] = ()) -> str:
    """Why `step` cannot take these blocks, x (N, dim), pasts and sources; "": it can."""
    if not x.is_cuda:
        return f"it needs a CUDA GPU, and x is on {x.device}"
    if fused_step_cuda is None:
        return "Triton is not installed"
    if shared_memory(x.device) < SHARED:
        return f"{torch.cuda.get_device_name(x.device)} has too little shared memory"
    return misfit(blocks, x, pasts, sources)


def misfit(blocks: Sequence[Any], x: Tensor, pasts: Sequence[Any], sources: Sequence[Any] = ()) -> str:
    """As `fits`, without what concerns the device."""
    if torch.is_grad_enabled():
        return "gradients are enabled"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast is enabled"
    if tracing():
        return "attention is traced"
    if len(x) > MOST_ROWS or x.numel() > MOST_NUMBERS:
        return f"{len(x)} rows of {x.shape[1]} features are too many"
    if not all(isinstance(past, BufferedMemory) and past.keys.is_contiguous() for past in pasts):
        return "the pasts are not buffers"
    reasons = [_block_misfit(block, past) for block, past in zip(blocks, pasts, strict=True)]
    if sources:
        reasons += [_source_misfit(block.cross, source, x) for block, source in zip(blocks, sources, strict=True)]
    reason = next(filter(None, reasons), "")
    if not reason and any((block.cross is None) == bool(sources) or block.pre != blocks[0].pre for block in blocks):
        reason = "blocks differ, or have cross-attention without a source"
    if not reason and {weight.dtype for block in blocks for weight in block.parameters()} != {x.dtype}:
        reason = f"the weights are not all {x.dtype}, as x is"
    return reason


def _block_misfit(block: Any, past: BufferedMemory) -> str:
    if type(block) is not Block:
        return f"{type(block).__name__} is not a Block"
    if block.feed is None or not block.residual or type(block.attend_norm) is not nn.LayerNorm:
        return "a block has no feed-forward layer, residual connections or layer norms"
    attend, feed = block.attend, block.feed
    dim, ff = attend.query.in_features, feed.inner.out_features
    linear = [part for part in block.modules() if not part._modules and getattr(part, "weight", None) is not None]
    wanted = {
        "is in training mode": not block.training,
        "is not causal": attend.causal and not attend.strict,
        "has another kind of attention": all(map(_is_usual, filter(None, (attend, block.cross)))),
        "has weights of another dtype than bfloat16, float16, float32": attend.query.weight.dtype in DTYPES,
        "has other layers in place of its linear ones": all(
            _is_plain(part) or type(part) is nn.LayerNorm for part in linear
        ),
        "has hooks": not any(map(_has_hooks, block.modules())),
        "has a width that is not a multiple of 16": not dim % 16 and not ff % 16,
        "is too wide": max(dim, ff) <= MOST_WIDTH,
        f"has heads of more than {MOST_HEAD} features": past.keys.shape[-1] <= MOST_HEAD,
        "has an unknown activation": activation_of(block) != "",
    }
    return next((f"a block {reason}" for reason, good in wanted.items() if not good), "")


def _is_usual(attend: Any) -> bool:
    square = attend.query.in_features == attend.query.out_features
    return type(attend) is MultiHead and type(attend.score) is ScaledDot and attend.weigh.fused and square


def _source_misfit(cross: MultiHead | None, source: Memory, x: Tensor) -> str:
    if cross is None or len(x) % len(source.keys):
        return "a block has a source without cross-attention, or of other rows"
    queries = x.view(len(source.keys), -1, cross.heads, x.shape[1] // cross.heads).transpose(1, 2)  # (B, H, Q, D)
    good = queries.shape[2] <= MOST_QUERIES and worth(queries, source.values)
    same = {source.keys.dtype, source.values.dtype} == {x.dtype}
    return "" if good and same else "the source is too long, or of another dtype, or has too many beams"


def _end_misfit(norm: Any, out: Any, dtype: torch.dtype, *, pre: bool) -> str:
    if pre and (type(norm) is not nn.LayerNorm or _has_hooks(norm) or norm.weight.dtype != dtype):
        return f"the last norm is of another kind, or not {dtype}, or has hooks"
    if not _is_plain(out) or _has_hooks(out) or out.weight.dtype != dtype:
        return f"the output layer is of another kind, or not {dtype}, or has hooks"
    return ""


def _is_plain(layer: Any) -> bool:
    """Is it a linear layer whose weights are as kernels read them?"""
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and layer.weight.is_contiguous()


def _has_hooks(part: nn.Module) -> bool:
    """Hooks of a trace do nothing here: if it is of this thread, `tracing` has refused the step already."""
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    return any(not getattr(hook, "of_trace", False) for hook in hooks)


def activation_of(block: Block) -> str:
    """The name of its activation in the kernels; "": unknown."""
    return KERNEL_NAMES.get(block.feed.act, "")


def step(
    x: Tensor, blocks: Sequence[Block], pasts: Sequence[BufferedMemory], norm: nn.LayerNorm | None, out: nn.Linear,
    sources: Sequence[Memory] = (),
) -> Tensor:  # fmt: skip
    """x (N, dim), the embedded tokens -> logits (N, V) in float32. Keys and values are written into the pasts at
    their place. As block.step of each block, with its source for cross-attention, then out(norm(x)); with post-norm
    there is no last norm. The residual stream is float32."""
    dim, ff = out.in_features, blocks[0].feed.inner.out_features
    early, activation = fused_step_cuda.launches_early(x.device), activation_of(blocks[0])
    plan = loop_step_cuda.plan_of(len(x), early=early)
    if norm is not None and not sources and fused_step_cuda.holds(len(x), max(dim, ff) * x.itemsize):
        held = fused_step_cuda.plan_of(len(x), dim, ff, x.dtype, early=early)
        stream = fused_step_cuda.run(x, blocks, pasts, activation, held)
        return loop_step_cuda.logits(stream, norm, out, plan)
    return loop_step_cuda.run(x, blocks, pasts, sources or [None] * len(blocks), norm, out, activation, plan)
