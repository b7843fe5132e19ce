"""Watch torch's nn.MultiheadAttention, with or without need_weights.

A forward hook computes the weights once more from the same inputs. In eval mode torch has a fast path that calls no
hook of a layer's parts, so it is disabled as long as a trace watches; outputs then differ by float rounding, about
1e-7. All threads share that switch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.record import Trace, watching
from regard.base.shared_change import SharedChange

SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def _disable_fast_path() -> Callable[[], None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    return lambda: torch.backends.mha.set_fastpath_enabled(before)


_no_fast_path = SharedChange(_disable_fast_path)


def is_attention(module: nn.Module) -> bool:
    return isinstance(module, nn.MultiheadAttention)


@contextmanager
def watch(seen: Trace, modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within it, the trace sees what these modules do in its thread."""
    ours = [module for module in modules if is_attention(module)]
    with ExitStack() as stack:
        if ours:
            stack.enter_context(_no_fast_path())
        for module in ours:
            stack.callback(module.register_forward_hook(partial(_hook, seen), with_kwargs=True).remove)
        yield


def _hook(seen: Trace, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
    if seen in watching(module):
        call = SIGNATURE.bind(module, *args, **kwargs).arguments
        query, key, value = (call[name] for name in ("query", "key", "value"))
        _show(seen, module, query, key, value, call.get("attn_mask"), call.get("key_padding_mask"))


@torch.no_grad()
def _show(
    seen: Trace,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    padding: Tensor | None,
) -> None:
    """The weights of the traced queries, of all heads, without dropout."""
    if query.dim() == 2:  # without a batch
        query, key, value = (x.unsqueeze(0 if module.batch_first else 1) for x in (query, key, value))
        padding = None if padding is None else padding[None]
    if module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))  # (Q, B, E)
    rows = seen.take(module, len(query), len(key))
    if not rows:
        return
    mask = None if mask is None else mask[..., rows, :]
    separate = not module._qkv_same_embed_dim
    _, weights = F.multi_head_attention_forward(
        query[rows],
        key,
        value,
        module.embed_dim,
        module.num_heads,
        module.in_proj_weight,
        module.in_proj_bias,
        module.bias_k,
        module.bias_v,
        module.add_zero_attn,
        0.0,
        module.out_proj.weight,
        module.out_proj.bias,
        training=False,
        key_padding_mask=padding,
        need_weights=True,
        attn_mask=mask,
        use_separate_proj_weight=separate,
        q_proj_weight=module.q_proj_weight,
        k_proj_weight=module.k_proj_weight,
        v_proj_weight=module.v_proj_weight,
        average_attn_weights=False,
    )
    assert weights is not None
    allowed = _allowed(mask, padding, module.num_heads)
    if allowed is not None:
        more = weights.shape[-1] - allowed.shape[-1]  # the places of add_bias_kv and add_zero_attn
        allowed = F.pad(allowed, (0, more), value=True)
        weights = weights.masked_fill(~allowed, 0)  # NaN where a query may look nowhere
    seen.keep_weights(module, weights, allowed)
    if seen.beside:
        sides = _sides(module, query[rows], key, value)
        scores = _scores(sides["queries"], sides["keys"], mask, padding)
        hidden = scores if allowed is None else scores.masked_fill(~allowed[..., : len(key)], -torch.inf)
        made = {kind: partial(seen.of_heads, x) for kind, x in (sides | {"scores": hidden}).items()}
        seen.keep_beside(module, made)


def _sides(module: Any, *sides: Tensor) -> dict[str, Tensor]:
    """Query, key and value (L, B, E), projected and split into heads (B, H, L, D). The places that add_bias_kv and
    add_zero_attn add to the memory are not among them."""
    weights = module.in_proj_weight
    weights = (
        (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight) if weights is None else weights.chunk(3)
    )
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    projected = (F.linear(x, *layer) for x, *layer in zip(sides, weights, biases, strict=True))
    split = (x.unflatten(-1, (module.num_heads, -1)).permute(1, 2, 0, 3) for x in projected)
    return dict(zip(("queries", "keys", "values"), split, strict=True))


def _scores(queries: Tensor, keys: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor:
    """(B, H, Q, K), with what masks of floats add to them."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + (mask if mask.dim() == 2 else mask.unflatten(0, (-1, queries.shape[1])))
    if padding is not None and padding.dtype != torch.bool:
        scores = scores + padding[:, None, None]
    return scores


def _allowed(mask: Tensor | None, padding: Tensor | None, heads: int) -> Tensor | None:
    """True where a query may look, broadcastable to (B, H, Q, K). torch's boolean masks are the other way round."""
    allowed = None
    if mask is not None:
        allowed = ~mask if mask.dtype == torch.bool else ~mask.isneginf()
        allowed = allowed[None, None] if allowed.dim() == 2 else allowed.unflatten(0, (-1, heads))
    if padding is not None:
        real = (~padding if padding.dtype == torch.bool else ~padding.isneginf())[:, None, None]
        allowed = real if allowed is None else allowed & real
    return allowed
