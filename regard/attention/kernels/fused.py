"""torch's fused kernels of scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.kernels.projections import real_heads
from regard.attention.packing import Packing
from regard.base.shared_change import SharedChange

HALF = (torch.float16, torch.bfloat16)
SHORT = 64  # places: flash attention pads fewer to tiles, and its backward pass writes and reads all of that


def fused_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float,
    scale: float,
    fixed_length: bool = False,
) -> Tensor:
    """One kernel that stores no Q x K tensor. It needs keys and values of equal width, so the narrower ones are
    zero-padded.

    In half precision on a GPU torch prefers cuDNN's kernel, which plans anew for every shape (60 ms on an H200 with
    torch 2.11). The lengths of texts vary from batch to batch and grow while decoding, so it is avoided unless
    `fixed_length`: for the patches of images it is the fastest. Short rows that are learned from are not for flash
    attention: of 1,024 rows of 16 places and 4 heads it takes 0.58 ms forward and backward there, the
    memory-efficient kernel 0.17 ms."""
    width, wanted = values.shape[-1], max(keys.shape[-1], values.shape[-1])
    query, keys, values = (
        x if x.shape[-1] == wanted else F.pad(x, (0, wanted - x.shape[-1])) for x in (query, keys, values)
    )
    avoid = query.is_cuda and query.dtype in HALF and not fixed_length and not torch.compiler.is_compiling()
    short = avoid and torch.is_grad_enabled() and max(query.shape[-2], keys.shape[-2]) <= SHORT
    with without_cudnn() if avoid else nullcontext(), without_flash() if short else nullcontext():
        read = F.scaled_dot_product_attention(query, keys, values, mask, dropout, causal, scale=scale)
    return read[..., :width]


def masked_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, bias: Tensor | None, *, dropout: float, scale: float
) -> Tensor:
    """Attention where the mask is True, with a bias of the scores; both are (Q, K), (B, Q, K) or (B, H, Q, K). A
    query that may look nowhere reads 0: the kernel would give NaN, so there it looks everywhere."""
    mask = mask.unsqueeze(1) if mask.dim() == 3 else mask  # a head dimension to broadcast over
    looks = mask.any(-1, keepdim=True)
    if bias is None:
        mask = mask | ~looks
    else:
        bias = bias.unsqueeze(1) if bias.dim() == 3 else bias
        mask = torch.where(mask, bias.to(query.dtype), torch.finfo(query.dtype).min)
    read = fused_attention(query, keys, values, mask=mask, dropout=dropout, scale=scale)
    return real_heads(read, looks)


def causal_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    strict: bool,
    dropout: float,
    scale: float,
) -> Tensor:
    """Causal attention of a whole sequence. The kernel takes either a mask or causality, so padding becomes an
    extra feature: 1 in every query, 0 in visible keys, a large negative number in masked keys. A query that has
    only padding before it reads padding, whose values are 0. strict: query t sees keys 0 .. t - 1."""
    if mask is not None:
        low = -3e4 if keys.dtype == torch.float16 else -1e30
        lift = torch.zeros_like(keys[..., :1]).masked_fill(~mask[:, None, :, None], low)
        keys, query = torch.cat([keys, lift], -1), torch.cat([query, torch.ones_like(query[..., :1])], -1)
    if not strict:
        return fused_attention(query, keys, values, causal=True, dropout=dropout, scale=scale)
    first, values = torch.zeros_like(values[..., :1, :]), values[..., :-1, :]
    read = fused_attention(query[..., 1:, :], keys[..., :-1, :], values, causal=True, dropout=dropout, scale=scale)
    return torch.cat([first, read], -2)


def _disable_cudnn() -> Callable[[], None]:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    return lambda: torch.backends.cuda.enable_cudnn_sdp(before)


def _disable_flash() -> Callable[[], None]:
    before = torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(False)
    return lambda: torch.backends.cuda.enable_flash_sdp(before)


without_cudnn, without_flash = SharedChange(_disable_cudnn), SharedChange(_disable_flash)


def has_packed_kernel(query: Tensor, values: Tensor, scale: float) -> bool:
    """Whether `packed_attention` can be called: flash attention, in half precision on a GPU that has it (Ampere or
    newer)."""
    size = query.shape[-1]
    return (
        query.is_cuda
        and query.dtype in HALF
        and size == values.shape[-1]
        and size % 8 == 0
        and size <= 256
        and scale == size**-0.5
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )


def packed_attention(query: Tensor, keys: Tensor, values: Tensor, packing: Packing) -> Tensor:
    """Each packed row looks at itself, in one kernel without padding: (1, .., N, D) -> (1, .., N, D).

    This is the operator that `torch.nn.attention.varlen` calls; importing that module takes seconds, since it
    imports torch's compiler too."""
    query, keys, values = (x[0].movedim(-2, 0) for x in (query, keys, values))  # (N, .., D)
    flat = query.dim() == 2
    if flat:
        query, keys, values = query[:, None], keys[:, None], values[:, None]
    longest = packing.mask.shape[1]
    starts = packing.starts
    no_dropout, not_causal, no_debug = 0.0, False, False
    read = torch.ops.aten._flash_attention_forward(
        query, keys, values, starts, starts, longest, longest, no_dropout, not_causal, no_debug
    )[0]
    return (read[:, 0] if flat else read).movedim(0, -2)[None]
