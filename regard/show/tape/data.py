"""Bits, weights and a memory over the same steps, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from regard.show.colours import DIVERGING, LIGHT
from regard.show.scales import Scale, check_scale, top_of

MOMENTS = 5  # steps after which the memory is drawn


@dataclass(frozen=True, eq=False)
class TapeData:
    """Panels (rows, steps) one below the other: {"input": (bits, steps), "write 0": (places, steps)}.

    `shown` is True at the steps of a panel that are drawn, {"output": (steps,)}; the others are left grey. `memory`
    (steps, places, width) is drawn after a few steps, and in HTML after the one that is pointed at. Colours run
    from 0 to 1; in a panel with values below 0, from blue (negative) to orange. `scale` sets another end: a number,
    "shared" (the largest value of all panels, rounded up) or "each" (of each panel). Shows itself in a notebook."""

    panels: Mapping[str, Any]
    _: KW_ONLY
    shown: Mapping[str, Any] = field(default_factory=dict)
    memory: Any = None
    title: str = ""
    caption: str = ""
    scale: Scale = None

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("nothing to draw: give at least one panel, as {name: values (rows, steps)}")
        panels = {name: _finite(name, values, 2) for name, values in self.panels.items()}
        counts = {name: values.shape[1] for name, values in panels.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"all panels must have the same steps, got {counts}")
        steps = next(iter(counts.values()))
        if unknown := [name for name in self.shown if name not in panels]:
            raise ValueError(f"shown names {unknown[0]!r}; the panels are {', '.join(map(repr, panels))}")
        shown = {name: np.asarray(self.shown.get(name, np.ones(steps)), dtype=bool) for name in panels}
        if wrong := [name for name, one in shown.items() if one.shape != (steps,)]:
            raise ValueError(f"shown[{wrong[0]!r}] must have {steps} steps, got {shown[wrong[0]].shape}")
        memory = None if self.memory is None else _finite("memory", self.memory, 3)
        if memory is not None and len(memory) != steps:
            raise ValueError(f"memory must have {steps} steps, as the panels, got {len(memory)}")
        check_scale(self.scale)
        for name, value in (("panels", panels), ("shown", shown), ("memory", memory)):
            object.__setattr__(self, name, value)

    @property
    def steps(self) -> int:
        """How many there are."""
        return next(iter(self.panels.values())).shape[1]

    def top(self, name: str) -> float:
        """The value of the darkest colour in a panel."""
        if self.scale is None:
            return max(1.0, top_of(_most(self.panels[name]))) if self.signed(name) else 1.0
        shared = max(map(_most, self.panels.values()))
        return top_of(_most(self.panels[name]) if self.scale == "each" else shared, self.scale)

    def signed(self, name: str) -> bool:
        """Has the panel values below 0?"""
        return bool((self.panels[name] < 0).any())

    def levels(self, name: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
        """A panel as shares of its scale in [0, 1], the colours of these, and where it is grey (rows, steps)."""
        values, hidden = self.panels[name], ~self.shown[name][None].repeat(len(self.panels[name]), 0)
        shares = (values / self.top(name)).clip(-1, 1)
        return ((shares + 1) / 2, DIVERGING, hidden) if self.signed(name) else (shares, LIGHT, hidden)

    @property
    def moments(self) -> list[int]:
        """The steps after which the memory is drawn."""
        if self.memory is None:
            return []
        return np.unique(np.linspace(0, self.steps - 1, MOMENTS).round().astype(int)).tolist()

    def memory_levels(self) -> np.ndarray:
        """(steps, places, width) in [0, 1]; 1/2 is 0."""
        assert self.memory is not None
        levels: np.ndarray = (self.memory / (_most(self.memory) or 1) + 1) / 2
        return levels


def _most(values: np.ndarray) -> float:
    return float(np.abs(values).max())


def _finite(name: str, given: Any, axes: int) -> np.ndarray:
    if hasattr(given, "detach"):
        given = given.detach().cpu().float().numpy()
    values = np.array(given, dtype=np.float64)
    if values.ndim != axes or values.size == 0:
        shape = "(rows, steps)" if axes == 2 else "(steps, places, width)"
        raise ValueError(f"{name}: values must have the shape {shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: values must be finite, got {values[~np.isfinite(values)][0]}")
    return values
