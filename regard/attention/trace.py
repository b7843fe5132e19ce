"""Record where a model looks, without changing what it computes.

    with trace(model, "decoder.*.cross", heads=[0, 3], rows=[5]) as seen:
        model(source, target)
    seen["decoder.0.cross"]            # (B, heads, rows, K)

The model may be your own: sites are regard's attention and gates, torch's nn.MultiheadAttention (so
nn.TransformerEncoder and nn.Transformer too), modules that call F.scaled_dot_product_attention, and the attention
of `transformers` models. The weights of the named sites are computed in addition to the usual read, so outputs do
not change by a bit (one exception: `trace_torch`), and without a trace nothing extra is computed.

What a site computes its weights from is recorded where asked, for all or some of these:

    with trace(model, "encoder.0.attend", scores=True, queries=True, keys=True, values=True) as seen:
    seen["encoder.0.attend", "scores"]     # (B, heads, rows, K) before the softmax; -inf where a query may not look
    seen["encoder.0.attend", "queries"]    # (B, heads, rows, D) as they are compared: projected, split into heads
    seen["encoder.0.attend", "keys"]       # (B, heads, K, D), of several calls those of the last
    seen["encoder.0.attend", "values"]     # (B, heads, K, D)

Layers of `transformers` that ask its AttentionInterface have no scores of their own to record. Gates have names:
`seen["stages.0.0.excite", "gate"]` (B, C); of recurrent layers `seen["encoder.l0", "forget"]` (N, T, D), or
"input", "output" (LSTM), "reset", "update" (GRU).

Calls add up: when a model generates with a cache, each step adds its queries. A site that reads the same sequence
several times within one pass (ALBERT's shared layer) has an entry for each call: `seen["...attention#1"]`. Traces
are per thread. A compiled model (torch.compile) runs as compiled; what is recorded comes from a second, uncompiled
pass over the same inputs, so that its output stays bit-identical."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from typing import Any, Protocol

import torch
from torch import nn

from regard.attention import trace_functions, trace_torch, trace_transformers
from regard.attention.record import BESIDE, Trace, active, tracing
from regard.errors import BadInput, NoAttention

VISIBLE = (
    "regard's attention and gates, nn.MultiheadAttention, modules that call F.scaled_dot_product_attention, and "
    "attention layers of transformers 5 (those that ask its AttentionInterface, or call softmax over all places)"
)


class Traceable(Protocol):
    """Anything with named modules: an nn.Module, or a typed protocol of models that says no more than this."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...


@contextmanager
def trace(
    model: Traceable,
    *patterns: str,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    scores: bool = False,
    queries: bool = False,
    keys: bool = False,
    values: bool = False,
    pool: int = 0,
) -> Iterator[Trace]:
    """Record at the sites whose names match a pattern ('*': all), for these heads and query rows (None: all); where
    asked also the scores before the softmax, and the queries, keys and values.

    `pool`: an overview of long texts: of the weights of each pass at most so many rows and columns are kept, each
    the largest of its neighbours."""
    modules = dict(_plain(model).named_modules())
    patterns = patterns or ("*",)
    sites = sites_of(model)
    _check(patterns, sites)
    if rows is not None and any(row < 0 for row in rows):
        raise BadInput(f"rows are query numbers from 0 on, in the order they are asked; got {list(rows)}")
    watched = {name: module for name, module in modules.items() if any(fnmatchcase(name, p) for p in patterns)}
    beside = [kind for kind, asked in zip(BESIDE, (scores, queries, keys, values), strict=True) if asked]
    seen = Trace({id(module): name for name, module in watched.items()}, heads, rows, beside, pool)
    compiled: set[int] = set()  # ids of the modules inside compiled ones
    with ExitStack() as stack:
        for _, module in model.named_modules():
            if "_orig_mod" in module._modules:  # torch.compile(model); importing its class would load the compiler
                compiled |= {id(inner) for inner in module.modules()}
                stack.callback(module.register_forward_hook(_again(seen), with_kwargs=True).remove)
            elif getattr(module, "_compiled_call_impl", None) is not None:
                raise BadInput("a model compiled in place cannot be traced; use compiled = torch.compile(model)")
        stack.enter_context(_passes(seen, modules, [name for name in sites if name in watched], compiled))
        stack.enter_context(trace_torch.watch(seen, watched.values()))
        stack.enter_context(trace_functions.watch(seen, [modules[name] for name in sites]))
        stack.enter_context(trace_transformers.watch(watched.values()))
        token = active.set((*active.get(), seen))
        stack.callback(active.reset, token)
        yield seen


def sites_of(model: Traceable, kind: str | tuple[str, ...] | None = None) -> list[str]:
    """The names of the modules at which a trace can record, or can record this kind or one of these."""
    sites = {name: _recorded(module) for name, module in _plain(model).named_modules()}
    wanted = (kind,) if isinstance(kind, str) else kind
    return [name for name, kinds in sites.items() if (kinds if wanted is None else set(wanted) & set(kinds))]


def _recorded(module: nn.Module) -> tuple[str, ...]:
    """The kinds of tensors that a trace records at this module; (): it is no site."""
    kinds = (trace_torch, trace_transformers, trace_functions)
    if any(kind.is_attention(module) for kind in kinds):
        return "weights", "mask"
    own = getattr(module, "traced", ())
    return own if isinstance(own, tuple) else ()


def _plain(model: Traceable) -> Traceable:
    """The model itself, also where it is compiled."""
    plain: Traceable = getattr(model, "_orig_mod", model)
    return plain


def _check(patterns: Sequence[str], sites: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in sites):
            if not sites:
                raise NoAttention(f"this model has no attention that a trace sees; it sees {VISIBLE}")
            names = ", ".join(map(repr, sites))
            raise NoAttention(f"no site has a name like {pattern!r}; the sites of this model are {names}")


@contextmanager
def _passes(
    seen: Trace, modules: dict[str, nn.Module], sites: Sequence[str], compiled: Container[int]
) -> Iterator[None]:
    """Tell the trace when a site, or a module with sites inside, is called and when it is done."""

    def enter(*_: Any) -> None:
        if tracing() and seen in active.get():
            seen.enter()

    def leave(*_: Any) -> None:
        if tracing() and seen in active.get():
            seen.leave()

    for hook in (enter, leave):
        hook.of_trace = True  # type: ignore[attr-defined] # read by `layers.fused_step`
    parts = [site.split(".") for site in sites]
    around = {"", *(".".join(part[: end + 1]) for part in parts for end in range(len(part)))}
    with ExitStack() as stack:
        for name in around:
            if id(modules[name]) not in compiled:  # a hook inside would have it compiled again; see `_again`
                stack.callback(modules[name].register_forward_pre_hook(enter).remove)
                stack.callback(modules[name].register_forward_hook(leave, always_call=True).remove)
        yield


def _again(seen: Trace) -> Any:
    """A forward hook that runs a compiled module once more, uncompiled, in the tracing thread only."""

    def run(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if seen not in active.get():
            return
        if module.training:
            raise BadInput("a compiled model is traced by a second pass in eval mode; call model.eval() first")
        devices = {p.device for p in module.parameters() if p.device.type == "cuda"}
        token = active.set((seen,))  # other traces have hooks of their own
        seen.enter()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=list(devices)):
                module.get_submodule("_orig_mod")(*args, **kwargs)
        finally:
            seen.leave()
            active.reset(token)

    return run
