"""A decoding step of a stack of blocks in few kernels, each of which reads its weights once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.memory import BufferedMemory
from regard.attention.record import tracing
from regard.attention.score import ScaledDot
from regard.layers.block import ACTIVATIONS, Block

try:
    from regard.layers import fused_step_cuda
except ImportError:  # without Triton
    fused_step_cuda = None  # type: ignore[assignment]

log = logging.getLogger("regard.decode")
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MOST_ROWS = 128  # with more rows a step is bound by arithmetic, and cuBLAS is faster
SHARED = 220 << 10  # bytes of shared memory that a program may need: data-centre GPUs since Hopper have them
MOST_WIDTH = 8192  # of an input of one row, all of which a program holds
MOST_BYTES = 12288  # of an input of several rows
MOST_HEAD = 128


def try_step(x: Tensor, blocks: Sequence[Any], pasts: Sequence[Any], norm: Any, out: Any) -> Tensor | None:
    """As `step`; None where it cannot be used: the reason is logged, if the pasts are buffers."""
    if not isinstance(pasts[0], BufferedMemory):
        return None
    reason = fits(blocks, x, pasts) or _end_misfit(norm, out, x.dtype)
    if reason:
        _tell(reason)
        return None
    return step(x, blocks, pasts, norm, out)


@cache
def _tell(reason: str) -> None:
    """Once."""
    log.debug("the fused step is not used: %s", reason)


def fits(blocks: Sequence[Any], x: Tensor, pasts: Sequence[Any]) -> str:
    """Why `step` cannot take these blocks, x (N, dim) and pasts; "": it can."""
    if not x.is_cuda:
        return f"it needs a CUDA GPU, and x is on {x.device}"
    if fused_step_cuda is None:
        return "Triton is not installed"
    properties = torch.cuda.get_device_properties(x.device)
    if getattr(properties, "shared_memory_per_block_optin", 0) < SHARED:  # not on ROCm
        return f"{torch.cuda.get_device_name(x.device)} has too little shared memory"
    return misfit(blocks, x, pasts)


def misfit(blocks: Sequence[Any], x: Tensor, pasts: Sequence[Any]) -> str:
    """As `fits`, without what concerns the device."""
    if torch.is_grad_enabled():
        return "gradients are enabled"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast is enabled"
    if tracing():
        return "attention is traced"
    if len(x) > MOST_ROWS:
        return f"{len(x)} rows are more than {MOST_ROWS}"
    if not all(isinstance(past, BufferedMemory) and past.keys.is_contiguous() for past in pasts):
        return "the pasts are not buffers"
    reasons = (_block_misfit(block, past, len(x)) for block, past in zip(blocks, pasts, strict=True))
    reason = next(filter(None, reasons), "")
    if not reason and {weight.dtype for block in blocks for weight in block.parameters()} != {x.dtype}:
        reason = f"the weights are not all {x.dtype}, as x is"
    return reason


def _block_misfit(block: Any, past: BufferedMemory, rows: int) -> str:
    if type(block) is not Block:
        return f"{type(block).__name__} is not a Block"
    attend, feed = block.attend, block.feed
    dim, ff = attend.query.in_features, feed.inner.out_features
    linear = [attend.query, attend.key, attend.value, attend.out, feed.inner, feed.outer]
    wanted = {
        "is in training mode": not block.training,
        "has cross-attention": block.cross is None,
        "has post-norm": block.pre,
        "is not causal": attend.causal and not attend.strict,
        "has another kind of attention": type(attend) is MultiHead
        and type(attend.score) is ScaledDot
        and attend.weigh.fused,
        "has weights of another dtype than bfloat16, float16, float32": attend.query.weight.dtype in DTYPES,
        "has other layers in place of its linear ones": all(map(_is_plain, linear)),
        "has hooks": not any(map(_has_hooks, block.modules())),
        "has a width that is not a multiple of 16": not dim % 16 and not ff % 16,
        "is too wide": max(dim, ff)
        <= (MOST_WIDTH if rows == 1 else MOST_BYTES // attend.query.weight.dtype.itemsize),
        f"has heads of more than {MOST_HEAD} features": past.keys.shape[-1] <= MOST_HEAD,
        "has an unknown activation": activation_of(block) != "",
    }
    return next((f"a block {reason}" for reason, good in wanted.items() if not good), "")


def _end_misfit(norm: Any, out: Any, dtype: torch.dtype) -> str:
    if type(norm) is not nn.LayerNorm or not _is_plain(out) or _has_hooks(norm) or _has_hooks(out):
        return "the last norm or the output layer is of another kind, or has hooks"
    return "" if norm.weight.dtype == out.weight.dtype == dtype else f"the output layer is not {dtype}, as x is"


def _is_plain(layer: Any) -> bool:
    """Is it a linear layer whose weights are as kernels read them?"""
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and layer.weight.is_contiguous()


def _has_hooks(part: nn.Module) -> bool:
    """Hooks of a trace do nothing here: if it is of this thread, `tracing` has refused the step already."""
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    return any(not getattr(hook, "of_trace", False) for hook in hooks)


def activation_of(block: Block) -> str:
    """The name of its activation in the kernels; "": unknown."""
    name = next((name for name, act in ACTIVATIONS.items() if act is block.feed.act), "")
    return {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}.get(name, name)


def step(
    x: Tensor, blocks: Sequence[Block], pasts: Sequence[BufferedMemory], norm: nn.LayerNorm, out: nn.Linear
) -> Tensor:
    """x (N, dim), the embedded tokens -> logits (N, V) in float32. Keys and values are written into the pasts at
    their place. As block.step of each block, then out(norm(x)); the residual stream is float32."""
    dim, ff = out.in_features, blocks[0].feed.inner.out_features
    heads, places = pasts[0].keys.shape[1:3]
    early = fused_step_cuda.launches_early(x.device)
    plan = fused_step_cuda.plan_of(len(x), dim, ff, heads, places, x.dtype, early=early)
    return fused_step_cuda.run(x, blocks, pasts, norm, out, activation_of(blocks[0]), plan)
