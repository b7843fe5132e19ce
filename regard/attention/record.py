"""What a trace keeps, and who asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from regard.show import Heads

active: ContextVar[tuple[Trace, ...]] = ContextVar("active", default=())  # the traces of this thread


class Trace:
    """What was recorded: `seen[site]` the weights (B, .., Q, K), `seen[site, "mask"]` where each query may look
    (B, Q, K), `seen[site, kind]` tensors of another kind."""

    def __init__(self, names: dict[int, str], heads: Sequence[int] | None, rows: Sequence[int] | None):
        self.heads, self.rows = heads, rows
        self._names = names  # id of a traced module -> its name in the model
        self._kept: dict[tuple[str, str], list[Tensor]] = {}
        self._asked: dict[int, int] = {}  # how many queries each site has answered so far

    def __repr__(self) -> str:
        seen = [f"{site} {tuple(self[site].shape)}" for site in self.sites[:4]]
        more = [f"{len(self.sites) - 4} more"] if len(self.sites) > 4 else []
        return f"<Trace: {', '.join(seen + more) or 'nothing recorded yet'}>"

    def watches(self, module: nn.Module) -> bool:
        """Is this module one of the sites?"""
        return id(module) in self._names

    def take(self, module: nn.Module, count: int) -> list[int]:
        """Which of the next `count` queries of a site to keep; `rows` counts from the start of the trace."""
        first = self._asked.get(id(module), 0)
        self._asked[id(module)] = first + count
        return [i for i in range(count) if self.rows is None or first + i in self.rows]

    def keep(self, module: nn.Module, kind: str, tensor: Tensor) -> None:
        """Add a copy of a tensor to what was recorded at a site."""
        self._kept.setdefault((self._names[id(module)], kind), []).append(tensor.detach().clone())

    def keep_weights(self, module: nn.Module, weights: Tensor, allowed: Tensor | None) -> None:
        """The weights (B, H, Q, K) of another library's attention, and where each query may look (broadcastable to
        them; None: everywhere)."""
        if allowed is None:
            allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=weights.device)
        allowed = allowed.expand(len(weights), -1, *weights.shape[-2:])
        chosen = slice(None) if self.heads is None else list(self.heads)
        self.keep(module, "weights", weights[:, chosen])
        self.keep(module, "mask", (allowed if allowed.shape[1] == 1 else allowed[:, chosen]).any(1))

    @property
    def sites(self) -> list[str]:
        """The sites whose weights were recorded."""
        return [site for site, kind in self._kept if kind == "weights"]

    def kinds(self, site: str) -> list[str]:
        """What was recorded at a site: "weights", "mask", "centre", ..."""
        return [kind for name, kind in self._kept if name == site]

    def __getitem__(self, site: str | tuple[str, str]) -> Tensor:
        """One tensor for all calls of the site, concatenated over queries; shorter memories are padded with 0."""
        key = (site, "weights") if isinstance(site, str) else site
        if key not in self._kept:
            raise KeyError(f"nothing recorded at {key}; recorded: {', '.join(map(str, self._kept)) or 'nothing'}")
        parts = self._kept[key]
        batches = {len(part) for part in parts if part.dim()}
        if len(batches) > 1:
            raise ValueError(
                f"{key} was called with batches of {sorted(batches)} rows; trace these calls one by one"
            )
        if key[1] not in ("weights", "mask"):
            return torch.cat(parts, -1) if parts[0].dim() else torch.stack(parts)
        longest = max(part.shape[-1] for part in parts)
        # A padded mask is False: a place that came later could not be looked at.
        return torch.cat([nn.functional.pad(part, (0, longest - part.shape[-1])) for part in parts], -2)

    def picture(
        self, rows: Sequence[str], columns: Sequence[str] | None = None, *, sites: Sequence[str] = (), item: int = 0
    ) -> Heads:
        """The heads of one item of the batch as a picture, which shows itself in a notebook and has `save`:
        `rows` are the tokens that look, `columns` those looked at (None: the same), `sites` all unless given."""
        weights = {site: self[site][item].float().cpu() for site in sites or self.sites}
        panels = {site: x.numpy() if x.dim() == 3 else x[None].numpy() for site, x in weights.items()}
        masks = {site: self[site, "mask"][item].cpu().numpy() for site in panels}
        return Heads(panels, rows, rows if columns is None else columns, mask=masks)


def watching(module: nn.Module) -> list[Trace]:
    """The active traces of this thread that include the module. Inside a compiled graph: none."""
    if torch.compiler.is_compiling():
        return []
    return [seen for seen in active.get() if seen.watches(module)]


def record(module: nn.Module, kind: str, tensor: Tensor) -> None:
    """Add a tensor (a gate, a window's centre) to the traces of this module; its last dimension is the query. A
    class that records without being attention says `traced = True`, so that a pattern may name it."""
    for seen in watching(module):
        seen.keep(module, kind, tensor)
