"""A decoding step of a block on the CPU, for one new place of each row: as `Block.step`, without what only other
calls need. With small models those calls take longer than their products.

Letters: N rows, B sentences, W beams of each, H heads, D features of a head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import GrowingMemory, Memory, MultiHead
from regard.attention.kernels.few import read_now
from regard.attention.record import tracing
from regard.attention.score import ScaledDot


def fits(block: Any, x: Tensor, past: Any, source: Memory | None) -> bool:
    """Whether `step` computes what the block would: soft attention by scaled products, layer norms, nothing that
    hooks or a trace would see."""
    return (
        type(past) is GrowingMemory
        and x.device.type == "cpu"
        and x.dim() == 3
        and x.shape[1] == 1
        and not block.training
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not tracing()
        and block.residual
        and type(block.attend_norm) is nn.LayerNorm
        and block.attend.causal
        and not block.attend.strict
        and (block.cross is None) == (source is None)
        and all(_is_usual(attend) for attend in (block.attend, block.cross) if attend is not None)
    )


def _is_usual(attend: Any) -> bool:
    hooks = attend._forward_hooks or attend._forward_pre_hooks
    return type(attend) is MultiHead and type(attend.score) is ScaledDot and attend.weigh.fused and not hooks


def step(block: Any, x: Tensor, past: GrowingMemory, source: Memory | None) -> tuple[Tensor, GrowingMemory]:
    """x (N, 1, dim), the newest states -> their outputs, and the past with them."""
    attend, rows = block.attend, x.shape[0]
    x = x[:, 0]
    own = block.attend_norm(x) if block.pre else x
    keys, values = (part(own).view(rows, attend.heads, 1, -1) for part in (attend.key, attend.value))
    grown = past.append(Memory(keys, values))
    query = attend.query(own).view(rows, attend.heads, 1, -1)
    x = _added(block, x, attend.out(_read(attend, query, grown.memory).view(rows, -1)), block.attend_norm)
    if source is not None:
        own = block.cross_norm(x) if block.pre else x
        x = _added(block, x, _cross(block.cross, own, source), block.cross_norm)
    if block.feed is not None:
        x = _added(block, x, block.feed(block.feed_norm(x) if block.pre else x), block.feed_norm)
    return x[:, None], grown


def _added(block: Any, x: Tensor, made: Tensor, norm: nn.Module) -> Tensor:
    """x + made, and then the norm where it comes last."""
    x = x + made
    return x if block.pre else norm(x)


def _cross(cross: MultiHead, own: Tensor, source: Memory) -> Tensor:
    """What the beams (N, dim) of each sentence read of it."""
    query = cross.query(own).view(source.keys.shape[0], -1, cross.heads, source.keys.shape[-1]).transpose(1, 2)
    return cross.out(_read(cross, query, source).transpose(1, 2).reshape(own.shape[0], -1))  # of (B, H, W, D)


def _read(attend: MultiHead, query: Tensor, memory: Memory) -> Tensor:
    return read_now(query, memory.keys, memory.values, memory.look, scale=attend.score.scale(query.shape[-1]))
