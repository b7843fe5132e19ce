"""Record where a model looks, without changing what it computes.

    with trace(model, "decoder.*.cross", heads=[0, 3], rows=[5]) as seen:
        model(source, target)
    seen["decoder.0.cross"]            # (B, heads, rows, K)

The weights of the named sites are computed in addition to the usual read, so outputs do not change by a bit, and
without a trace nothing extra is computed. Traces are per thread. A compiled model (torch.compile) runs as compiled;
its weights come from a second, uncompiled pass over the same inputs, so that its output stays bit-identical."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, Protocol

import torch
from torch import Tensor, nn

_watching: ContextVar[tuple[Trace, ...]] = ContextVar("watching", default=())


class Traceable(Protocol):
    """Anything with named modules: an nn.Module, or a typed protocol of models that says no more than this."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...


class Trace:
    """What was recorded: `seen[site]` the weights (B, .., Q, K), `seen[site, kind]` tensors of another kind."""

    def __init__(self, names: dict[int, str], heads: Sequence[int] | None, rows: Sequence[int] | None):
        self.heads, self.rows = heads, rows
        self._names = names  # id of a traced module -> its name in the model
        self._kept: dict[tuple[str, str], list[Tensor]] = {}
        self._asked: dict[int, int] = {}  # how many queries each site has answered so far

    def watches(self, module: nn.Module) -> bool:
        return id(module) in self._names

    def take(self, module: nn.Module, count: int) -> list[int]:
        """Which of the next `count` queries of a site to keep; `rows` counts from the start of the trace."""
        first = self._asked.get(id(module), 0)
        self._asked[id(module)] = first + count
        return [i for i in range(count) if self.rows is None or first + i in self.rows]

    def keep(self, module: nn.Module, kind: str, tensor: Tensor) -> None:
        self._kept.setdefault((self._names[id(module)], kind), []).append(tensor.detach().clone())

    @property
    def sites(self) -> list[str]:
        """The sites whose weights were recorded."""
        return [site for site, kind in self._kept if kind == "weights"]

    def kinds(self, site: str) -> list[str]:
        return [kind for name, kind in self._kept if name == site]

    def __getitem__(self, site: str | tuple[str, str]) -> Tensor:
        """One tensor for all calls of the site, concatenated over queries; shorter memories are padded with 0."""
        key = (site, "weights") if isinstance(site, str) else site
        if key not in self._kept:
            raise KeyError(f"nothing recorded at {key}; recorded: {', '.join(map(str, self._kept)) or 'nothing'}")
        parts = self._kept[key]
        if key[1] != "weights":
            return torch.cat(parts, -1) if parts[0].dim() else torch.stack(parts)
        longest = max(part.shape[-1] for part in parts)
        return torch.cat([nn.functional.pad(part, (0, longest - part.shape[-1])) for part in parts], -2)


def watching(module: nn.Module) -> list[Trace]:
    """The active traces of this thread that include the module. Inside a compiled graph: none."""
    if torch.compiler.is_compiling():
        return []
    return [seen for seen in _watching.get() if seen.watches(module)]


def record(module: nn.Module, kind: str, tensor: Tensor) -> None:
    """Add a tensor (a gate, a window's centre) to the traces of this module; its last dimension is the query."""
    for seen in watching(module):
        seen.keep(module, kind, tensor)


@contextmanager
def trace(
    model: Traceable,
    *patterns: str,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[Trace]:
    """Record at the modules whose names match a pattern ('*': all), for these heads and query rows (None: all)."""
    plain: Traceable = getattr(model, "_orig_mod", model)
    modules = {id(module): name for name, module in plain.named_modules()}
    patterns = patterns or ("*",)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in modules.values()):
            raise ValueError(f"no module name matches {pattern!r}; there are {', '.join(modules.values())}")
    if rows is not None and any(row < 0 for row in rows):
        raise ValueError(f"rows are query numbers from 0 on, in the order they are asked; got {list(rows)}")
    names = {key: name for key, name in modules.items() if any(fnmatchcase(name, p) for p in patterns)}
    seen = Trace(names, heads, rows)
    with ExitStack() as stack:
        for _, module in model.named_modules():
            if "_orig_mod" in module._modules:  # torch.compile(model); importing its class would load the compiler
                stack.callback(module.register_forward_hook(_again(seen), with_kwargs=True).remove)
            elif getattr(module, "_compiled_call_impl", None) is not None:
                raise ValueError("a model compiled in place cannot be traced; use compiled = torch.compile(model)")
        token = _watching.set((*_watching.get(), seen))
        stack.callback(_watching.reset, token)
        yield seen


def _again(seen: Trace) -> Any:
    """A forward hook that runs a compiled module once more, uncompiled, in the tracing thread only."""

    def run(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if seen not in _watching.get():
            return
        if module.training:
            raise ValueError("a compiled model is traced by a second pass in eval mode; call model.eval() first")
        devices = {p.device for p in module.parameters() if p.device.type == "cuda"}
        token = _watching.set((seen,))  # other traces have hooks of their own
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=list(devices)):
                module.get_submodule("_orig_mod")(*args, **kwargs)
        finally:
            _watching.reset(token)

    return run
