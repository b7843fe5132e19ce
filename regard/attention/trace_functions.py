"""Watch modules that attend by torch's functions: F.scaled_dot_product_attention in any module, and softmax in an
attention layer of `transformers` that does not ask for an attention function (DeBERTa, BLOOM, XLNet).

While such a module runs in the thread of a trace, a mode of torch's sees the functions it calls. They are called as
before; the weights of scaled_dot_product_attention are computed once more from its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import trace_transformers
from regard.attention.record import Trace, active
from regard.attention.weigh import masked_softmax
from regard.base.dtype import at_least_float32

FUSED = "scaled_dot_product_attention"
SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
HIDDEN = -5e29  # lower scores are those of masked places; in half precision, half of the lowest
HEADS = ("num_heads", "num_attention_heads", "n_heads")  # as layers of transformers call their number
DEPTH = 3  # of functions that call functions
# Layers of transformers whose softmax is over the places of a window or of a few blocks, in an order of their own.
PARTIAL = ("Sparse", "Longformer", "LEDEncoder", "Deformable")


def is_attention(module: nn.Module) -> bool:
    kind: Any = type(module)
    return _attends(kind) and not trace_transformers.is_attention(module)


@cache
def _attends(kind: Any) -> bool:
    library = kind.__module__.split(".")[0]
    if library in ("torch", "regard"):
        return False
    if library == "transformers":
        whole = "Attention" in kind.__name__ and not any(part in kind.__name__ for part in PARTIAL)
        return whole and any(_calls(kind, name) for name in ("softmax", "Softmax", FUSED))
    return _calls(kind, FUSED)


def _calls(kind: type[nn.Module], name: str) -> bool:
    """Whether its methods name this function, or functions of their modules that they call do."""
    own = (
        base for base in kind.__mro__ if issubclass(base, nn.Module) and base.__module__.split(".")[0] != "torch"
    )
    methods = (
        getattr(value, "__func__", value) for base in own for value in vars(base).values()
    )  # also static ones
    return any(_names(method, name, DEPTH) for method in methods if isinstance(method, FunctionType))


def _names(function: FunctionType, name: str, depth: int) -> bool:
    function = unwrap(function)
    names = set(_names_in(function.__code__))
    if name in names:
        return True
    called = (function.__globals__.get(other) for other in names) if depth else ()
    ours = (other for other in called if isinstance(other, FunctionType) and other is not function)
    return any(not other.__module__.startswith("torch.") and _names(other, name, depth - 1) for other in ours)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


@contextmanager
def watch(seen: Trace, sites: Iterable[nn.Module]) -> Iterator[None]:
    """Within it, the trace sees what those of these modules do that it watches. Sites of other kinds are shown by
    themselves, so what they call is not shown again."""
    sites = list(sites)
    with ExitStack() as stack:
        if any(seen.watches(module) and is_attention(module) for module in sites):
            mode = _Functions(seen)
            for module in sites:
                stack.callback(module.register_forward_pre_hook(mode.open, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(mode.close, with_kwargs=True, always_call=True).remove)
        yield


class _Functions(TorchFunctionMode):
    """Active while a site runs; the innermost one called the function."""

    def __init__(self, seen: Trace):
        super().__init__()
        self.seen = seen
        self.running: list[tuple[nn.Module, int]] = []  # the open sites, with the calls shown of each

    def open(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or self.seen not in active.get():
            return
        if not self.running:
            self.__enter__()
        self.running.append((module, 0))

    def close(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or self.seen not in active.get():
            return
        self.running.pop()
        if not self.running:
            self.__exit__(None, None, None)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output, given = function(*args, **(kwargs or {})), kwargs or {}
        module, shown = self.running[-1]
        if not (self.seen.watches(module) and is_attention(module)):
            return output
        if function is F.scaled_dot_product_attention:
            self._show_fused(module, shown > 0, *args, **given)
        elif function in SOFTMAX and (heads := _heads(module, output, *args, **given)):
            both = (args[0] if args else given["input"], output)
            self._show_softmax(module, shown > 0, *(x.reshape(-1, heads, *x.shape[-2:]) for x in both))
        else:
            return output
        self.running[-1] = module, shown + 1
        return output

    @torch.no_grad()
    def _show_fused(
        self,
        module: nn.Module,
        again: bool,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        """Without dropout. All dimensions but heads, queries and features are the batch's."""
        (*lead, count, width), size = query.shape, key.shape[-2]
        rows = self.seen.take(module, count, size, again=again)
        if not rows:
            return
        allowed = (
            None if attn_mask is None else attn_mask if attn_mask.dtype == torch.bool else ~attn_mask.isneginf()
        )
        if is_causal:
            allowed = torch.ones(count, size, dtype=torch.bool, device=query.device).tril()
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scores = at_least_float32(query[..., rows, :] @ key.transpose(-2, -1))
        scores = scores * (1 / math.sqrt(width) if scale is None else scale)
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            scores = scores + _of_rows(attn_mask, rows)
        allowed = None if allowed is None else _of_rows(allowed, rows).expand(scores.shape)
        weights = masked_softmax(scores, allowed).to(query.dtype)
        batch = (math.prod(lead[:-1]), lead[-1]) if len(lead) > 1 else (lead[0] if lead else 1, 1)

        def whole(x: Tensor) -> Tensor:
            return x.reshape(*batch, *x.shape[-2:])

        def traced(make: Callable[[], Tensor]) -> Tensor:
            return self.seen.of_heads(whole(make()))

        self.seen.keep_weights(module, whole(weights), None if allowed is None else whole(allowed))
        sides: dict[str, Callable[[], Tensor]] = {
            "scores": lambda: scores if allowed is None else scores.masked_fill(~allowed, -torch.inf),
            "queries": lambda: query[..., rows, :],
            "keys": lambda: key,
            "values": lambda: (
                value.repeat_interleave(query.shape[-3] // value.shape[-3], -3) if enable_gqa else value
            ),
        }
        self.seen.keep_beside(module, {kind: partial(traced, make) for kind, make in sides.items()})

    @torch.no_grad()
    def _show_softmax(self, module: nn.Module, again: bool, scores: Tensor, weights: Tensor) -> None:
        """(B, H, Q, K), before dropout"""
        rows = self.seen.take(module, weights.shape[-2], weights.shape[-1], again=again)
        if rows:
            low = max(HIDDEN, torch.finfo(scores.dtype).min / 2)
            allowed = scores[..., rows, :] > low
            self.seen.keep_weights(module, weights[..., rows, :].masked_fill(~allowed, 0), allowed)
            hidden = scores[..., rows, :].masked_fill(~allowed, -torch.inf)
            self.seen.keep_beside(module, {"scores": lambda: self.seen.of_heads(hidden)})


def _of_rows(mask: Tensor, rows: list[int]) -> Tensor:
    """The rows of a mask (.., Q, K), which may be one for all queries."""
    return mask[..., rows, :] if mask.dim() > 1 and mask.shape[-2] > 1 else mask


def _heads(module: nn.Module, weights: Tensor, input: Any = None, dim: int = -1, *_: Any, **options: Any) -> int:
    """How many heads the weights of a layer of transformers have: (B, H, Q, K) or (B H, Q, K). 0: no weights."""
    if type(module).__module__.split(".")[0] != "transformers" or dim not in (-1, weights.dim() - 1):
        return 0
    if weights.dim() == 4:
        return weights.shape[1]
    heads = next((number for name in HEADS if isinstance(number := getattr(module, name, None), int)), 0)
    return heads if weights.dim() == 3 and heads and len(weights) % heads == 0 else 0
