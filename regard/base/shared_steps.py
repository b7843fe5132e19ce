"""Gradients of what all steps of a recurrence share, its weights and its memory: computed once for all steps.

Autograd computes the gradient of a shared tensor at every step and adds it to those of the other steps: T small
products, and T - 1 sums as large as the tensor. Here each step keeps the factors of its product in the backward
pass, and after the last step one product makes the gradient:

    y_t = x_t W^T        dW = sum_t g_t^T x_t = [g_1; ..; g_T]^T [x_1; ..; x_T]

Steps read an alias of the tensor. Its node in the graph runs when the nodes of all steps have run, also where these
returned no gradient for it; then it takes what they kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.hooks import has_hooks

Factors = tuple[Tensor, ...]
Together = Callable[[list[Factors]], tuple[Tensor, ...]]  # from the factors of all steps to the gradients


class Kept:
    """The factors that steps keep for the gradient of what they share, in each backward pass: a graph may be used
    for several, and for some of its steps only."""

    def __init__(self) -> None:
        self.passes: dict[int, list[Factors]] = {}

    def add(self, *factors: Tensor) -> None:
        self.passes.setdefault(torch._C._current_graph_task_id(), []).append(factors)

    def take(self) -> list[Factors]:
        return self.passes.pop(torch._C._current_graph_task_id(), [])


class _Alias(torch.autograd.Function):
    """Tensors as the steps read them."""

    @staticmethod
    def forward(
        ctx: Any, kept: Kept, together: Together, dtype: torch.dtype, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kept, ctx.together, ctx.dtypes = kept, together, [x.dtype for x in tensors]
        aliases = [x.to(dtype).contiguous() for x in tensors]
        return tuple(x.view_as(x) if alias is x else alias for x, alias in zip(tensors, aliases, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        steps = ctx.kept.take()
        found = list(grads)
        for place, grad in enumerate(ctx.together(steps) if steps else ()):
            other = found[place]
            found[place] = grad if other is None else grad + other
        sums = (x if x is None else x.to(dtype) for x, dtype in zip(found, ctx.dtypes, strict=True))
        return None, None, None, *sums


class Sharing:
    """What the steps of one recurrence share: a memory, and the weights of the layers that `linear` is given."""

    def __init__(self, memory: tuple[Tensor, ...]) -> None:
        self.memory = memory
        self.aliases: dict[Any, tuple[tuple[Tensor, ...], Kept, tuple[Tensor, ...]]] = {}
        self.layers: dict[Any, tuple[Kept, tuple[Tensor, ...]] | None] = {}  # by layer and dtype; None: not shared

    def alias(self, together: Together, dtype: torch.dtype, *tensors: Tensor) -> tuple[Kept, tuple[Tensor, ...]]:
        """The tensors for a step, in this dtype, cast once for all steps; and where the step keeps its factors."""
        key = (together, dtype, *map(id, tensors))
        if key not in self.aliases:
            kept = Kept()
            self.aliases[key] = tensors, kept, _Alias.apply(kept, together, dtype, *tensors)
        _, kept, aliases = self.aliases[key]
        return kept, aliases


_sharing: ContextVar[Sharing | None] = ContextVar("sharing", default=None)  # of this thread


def steps_share(*memory: Tensor) -> AbstractContextManager[None]:
    """Inside are all steps of a recurrence, each of which looks at this memory."""
    plain = torch.compiler.is_compiling() or not torch.is_grad_enabled()
    return nullcontext() if plain else _steps_share(memory)


@contextmanager
def _steps_share(memory: tuple[Tensor, ...]) -> Iterator[None]:
    before = _sharing.set(Sharing(memory))
    try:
        yield
    finally:
        _sharing.reset(before)


def sharing() -> Sharing | None:
    """What the steps share, inside `steps_share` and where gradients are wanted."""
    return None if torch.compiler.is_compiling() or not torch.is_grad_enabled() else _sharing.get()


def sharing_of(part: Tensor) -> Sharing | None:
    """The same, if this is a part of the memory."""
    shared = sharing()
    return shared if shared is not None and any(part is each for each in shared.memory) else None


def product_dtype(x: Tensor) -> torch.dtype:
    """In which dtype a product with x is computed."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if _is_cast(x, kind) else x.dtype


def _is_cast(x: Tensor, kind: str) -> bool:
    return torch.is_autocast_enabled(kind) and x.is_floating_point() and x.dtype != torch.float64


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """layer(x), for a step of a recurrence."""
    shared = sharing()
    if shared is None:
        return layer(x)
    dtype = product_dtype(x)
    if (layer, dtype) not in shared.layers:
        shared.layers[layer, dtype] = _aliases(shared, layer, dtype)
    of_layer = shared.layers[layer, dtype]
    if of_layer is None:
        return layer(x)
    kept, aliases = of_layer
    out: Tensor = _Linear.apply(kept, x.to(dtype).flatten(0, -2), *aliases)
    return out if x.dim() == 2 else out.unflatten(0, x.shape[:-1])


def _aliases(shared: Sharing, layer: nn.Linear, dtype: torch.dtype) -> tuple[Kept, tuple[Tensor, ...]] | None:
    """Of the weights of a layer; None: it is called as it is."""
    if not _is_plain(layer) or product_dtype(layer.weight) != dtype:
        return None
    if layer.bias is None:
        return shared.alias(of_products, dtype, layer.weight)
    return shared.alias(_of_linear, dtype, layer.weight, layer.bias)


def product(x: Tensor, weight: Tensor, plus: Tensor | None = None) -> Tensor:
    """x W^T of x (B, N, in) and W (B, out, in), plus a tensor of its size, for a step of a recurrence."""
    shared = sharing()
    dtype = product_dtype(x)
    if shared is None or dtype != product_dtype(weight):
        return x @ weight.mT if plus is None else torch.baddbmm(plus, x, weight.mT)
    kept, (alias,) = shared.alias(of_products, dtype, weight)
    more = () if plus is None else (plus.to(dtype),)
    out: Tensor = _Product.apply(kept, x.to(dtype), alias, *more)
    return out


def _is_plain(layer: nn.Linear) -> bool:
    """Whether it is torch's own and nobody watches its calls."""
    weight = layer.weight if type(layer) is nn.Linear else None
    return type(weight) in (nn.Parameter, Tensor) and not has_hooks(layer)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kept: Kept, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.kept, ctx.biased = kept, bool(bias)
        return F.linear(x, weight, *bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        bias = (grad.sum(0),) if ctx.biased and torch.is_grad_enabled() else (None,) * ctx.biased
        for_x = grad @ weight if ctx.needs_input_grad[1] else None
        if torch.is_grad_enabled():  # this gradient is to be differentiated
            return None, for_x, grad.mT @ x, *bias
        if ctx.needs_input_grad[2]:
            ctx.kept.add(grad, x)
        return None, for_x, None, *bias


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kept: Kept, x: Tensor, weight: Tensor, *plus: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.kept, ctx.plus = kept, bool(plus)
        return torch.baddbmm(plus[0], x, weight.mT) if plus else x @ weight.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        plus = (grad,) * ctx.plus
        for_x = grad @ weight if ctx.needs_input_grad[1] else None
        if torch.is_grad_enabled():
            return None, for_x, grad.mT @ x, *plus
        if ctx.needs_input_grad[2]:
            ctx.kept.add(grad, x)
        return None, for_x, None, *plus


def of_products(steps: list[Factors]) -> tuple[Tensor, ...]:
    """sum_t left_t^T right_t"""
    left, right = joined(steps)
    return (left.to(right.dtype).mT @ right,)


def _of_linear(steps: list[Factors]) -> tuple[Tensor, ...]:
    """The same, and the gradient of the bias."""
    left, right = joined(steps)
    return left.mT @ right, left.sum(0)


def joined(steps: list[Factors]) -> Factors:
    """The factors of all steps, one behind the other."""
    return tuple(parts[0] if len(parts) == 1 else torch.cat(parts, -2) for parts in zip(*steps, strict=True))
