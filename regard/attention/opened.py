"""How the weights of one query came about: its query, the keys and the values, the scores, and what else the ways
to score and to weigh need. A picture of attention can be opened with it at any of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from regard.attention.score import SCORES, Score
from regard.attention.trace import Traceable, trace
from regard.attention.weigh import Weigh
from regard.base.short_repr import short_repr
from regard.errors import NoAttention


@dataclass(frozen=True)
class Opened:
    """One query of one head. Letters: K places, D of a key, V of a value. scores are -inf where it may not look,
    and known up to a constant where the site records none. `score` and `weigh`: their names, and the numbers of
    their formulas; `beside`: what else this look was computed from, such as the centre of a window."""

    site: str
    weights: Tensor  # (K,)
    scores: Tensor  # (K,)
    query: Tensor  # (D,) as it is compared
    keys: Tensor  # (K, D)
    values: Tensor  # (K, V)
    score: dict[str, Any]
    weigh: dict[str, Any]
    beside: dict[str, Tensor] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def read(self) -> Tensor:
        """(V,): what is read, without dropout."""
        return self.weights @ self.values


def open_look(
    model: Traceable, site: str, run: Callable[[], object], *, item: int = 0, head: int = 0, row: int = 0
) -> Opened:
    """`run` passes the model once; `row` counts the queries that the site answers in it."""
    with trace(model, site, heads=[head], rows=[row], scores=True, queries=True, keys=True, values=True) as seen:
        run()
    kinds = seen.kinds(site)
    if not {"weights", "queries", "keys", "values"} <= set(kinds):
        raise NoAttention(f"{site} does not record what its weights are computed from")

    def last(kind: str) -> Tensor:
        return of_item(seen[site, kind], item)[-1]

    weights = last("weights")
    keys, values = (of_item(seen[site, kind], item)[: len(weights)] for kind in ("keys", "values"))
    scores = last("scores") if "scores" in kinds else weights.log()
    module = dict(model.named_modules())[site]
    score, weigh = settings_of(module)
    needed = [kind for kind in getattr(getattr(module, "weigh", None), "beside", ()) if kind in kinds]
    beside = {kind: last(kind) for kind in needed if kind != "centre"}
    if "centre" in needed:  # of all queries
        centres = seen[site, "centre"]
        beside["centre"] = centres[item if len(centres) > 1 else 0, ..., row].float().cpu().reshape(-1)[:1]
    return Opened(site, weights, scores, last("queries"), keys, values, score, weigh, beside)


def of_item(x: Tensor, item: int) -> Tensor:
    """Of a recorded tensor (B, .., Q, K) that of one item and its only head: (Q, K)"""
    x = x[item if len(x) > 1 else 0].float().cpu()
    return x[0] if x.dim() == 3 else x


def settings_of(module: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """The score and the way to weigh of a site. Other libraries' attention is scaled dot products and a softmax."""
    score, weigh = getattr(module, "score", None), getattr(module, "weigh", None)
    if not isinstance(score, Score) or not isinstance(weigh, Weigh):
        return {"name": "scaled_dot"}, {"name": "soft"}
    names = {kind: name for name, kind in SCORES.items()}
    name = next((names[kind] for kind in type(score).__mro__ if kind in names), "dot")
    return {"name": name, **score.numbers()}, {"name": weigh.name, **weigh.numbers()}
