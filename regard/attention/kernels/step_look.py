"""The look of a recurrent decoder's step, while it learns, in one kernel: scores, weights and what is read, for one
query of each row. Its backward pass is another, and the gradients of the memory are computed for all steps at once
(`base/shared_steps.py`). Small kernels would take longer to launch than to run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.additive import LIMIT, of_keys_and_v_from_projected
from regard.base.shared_steps import Kept, Sharing, of_products, product_dtype

try:
    from regard.attention.kernels import look_cuda, step_look_cuda
except ImportError:  # without Triton
    look_cuda = step_look_cuda = None  # type: ignore[assignment]

MOST_PLACES = 256  # a program holds all of them
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def has_kernel_for_step(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether `look_of_step` can be called."""
    return (
        step_look_cuda is not None
        and query.is_cuda
        and query.dim() == keys.dim() == 3
        and query.shape[1] == 1
        and 0 < len(query) == len(keys)
        and 0 < keys.shape[1] <= MOST_PLACES
        and {query.dtype, keys.dtype, values.dtype} <= set(DTYPES)
    )


def look_of_step(
    shared: Sharing,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    v: Tensor | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """query (B, 1, D), keys (B, K, D) and values (B, K, V) of a memory that steps share, mask (B, K) -> scores and
    weights (B, 1, K), read (B, 1, V). v (D,): of the additive score; queries are then W q, keys exponentials."""
    of_values, (values,) = shared.alias(of_products, product_dtype(values), values)
    if v is None:
        dtype = product_dtype(keys)
        of_keys, aliases = shared.alias(of_products, dtype, keys)
    else:
        dtype = query.dtype
        of_keys, aliases = shared.alias(of_keys_and_v_from_projected, torch.float32, keys, v)
    out: tuple[Tensor, Tensor, Tensor] = _LookOfStep.apply(
        (of_keys, of_values, scale, mask), query.to(dtype), values, *aliases
    )
    return out


class _LookOfStep(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rest: tuple[Kept, Kept, float, Tensor | None],
        query: Tensor,
        values: Tensor,
        keys: Tensor,
        *v: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.of_keys, ctx.of_values, ctx.scale, mask = rest
        mask = None if mask is None else mask.contiguous()
        query, keys, values = query.contiguous(), keys.contiguous(), values.contiguous()
        of_tanh = v[0] if v else None
        scores, weights, read = look_cuda.look_once(
            query, keys, values, mask, of_tanh, scale=ctx.scale, limit=LIMIT, dtype=torch.float32
        )
        ctx.save_for_backward(query, keys, values, of_tanh, mask, weights)
        ctx.set_materialize_grads(False)
        return scores, weights, read

    @staticmethod
    def backward(
        ctx: Any, of_scores: Tensor | None, of_weights: Tensor | None, of_read: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("the kernel of a decoder's look has no gradient of its gradient (create_graph=True)")
        query, keys, values, v, mask, weights = ctx.saved_tensors
        of_weights, of_scores = (x if x is None else x.contiguous() for x in (of_weights, of_scores))
        read = values.new_zeros(len(values), 1, values.shape[-1]) if of_read is None else of_read
        read = read if read.stride(-1) == 1 else read.contiguous()
        slopes, for_query = step_look_cuda.slopes(
            query, keys, values, v, mask, ctx.scale, weights, (read, of_weights, of_scores), LIMIT
        )
        if ctx.needs_input_grad[2]:
            ctx.of_values.add(weights, read)
        if any(ctx.needs_input_grad[3:]):
            ctx.of_keys.add(*((slopes, query) if v is None else (query, slopes, keys, v)))
        return None, for_query, None, *(None for _ in ctx.needs_input_grad[3:])
