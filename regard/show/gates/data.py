"""The gates of some blocks, checked, and what is told of each block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from regard.show.image_bytes import check_image
from regard.show.scales import Scale, check_scale, top_of

NAMED = 3  # channels named as the most open, and as many as the least open


@dataclass(frozen=True, eq=False)
class GatesData:
    """How far each channel of each block is open, from 0 to 1: {"stages.0.0.excite": (rows, channels)}, the blocks
    in order of depth. A panel of shape (channels,) is one row.

    One row, such as the gates of one image, is drawn as bars, with the image beside them if it is given. Several
    rows, such as the mean gates of several classes, are drawn as lines over the channels (Hu et al. 2018, fig. 6);
    `rows` are their names. Every axis runs from 0 to 1; `scale` sets another end: a number, "shared" (the largest
    gate of all panels, rounded up) or "each" (of each panel). Shows itself in a notebook."""

    panels: Mapping[str, np.ndarray]
    _: KW_ONLY
    rows: Sequence[str] = ()
    image: np.ndarray | None = None  # bytes (H, W, 3)
    title: str = ""
    caption: str = ""
    scale: Scale = None

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("no gates to draw: give at least one block, as {name: gates (rows, channels)}")
        panels = {name: _check(name, gates) for name, gates in self.panels.items()}
        counts = {name: len(gates) for name, gates in panels.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"all blocks must have gates of the same rows, got {counts} rows")
        count = next(iter(counts.values()))
        rows = tuple(self.rows) or tuple(f"row {row}" for row in range(count))
        if isinstance(self.rows, str) or len(rows) != count:
            raise ValueError(f"rows must be {count} names, one for each row of gates, got {self.rows!r:.80}")
        check_scale(self.scale)
        object.__setattr__(self, "panels", panels)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "image", None if self.image is None else check_image(self.image))

    @cached_property
    def most(self) -> float:
        """The largest gate of all panels."""
        return float(max(gates.max() for gates in self.panels.values()))

    def top(self, name: str) -> float:
        """The gate at the end of a panel's axis."""
        if self.scale is None:
            return 1.0
        return top_of(float(self.panels[name].max()) if self.scale == "each" else self.most, self.scale)

    @property
    def stages(self) -> list[list[str]]:
        """The panels that stand together: their names are the same up to the last number."""
        return [list(names) for _, names in groupby(self.panels, _stage)]

    def note(self, name: str) -> str:
        """Mean and standard deviation: of one row over the channels, else between the rows, as the mean over the
        channels."""
        gates = self.panels[name]
        if len(gates) == 1:
            return f"mean {gates.mean():.2f} ± {gates.std():.2f}"
        return f"mean {gates.mean():.2f}, between lines ± {gates.std(0).mean():.3f}"

    def named(self, name: str) -> tuple[str, str]:
        """The most and the least open channels of one row: "most open: 12 (0.98), 3 (0.95)"."""
        gates = self.panels[name][0]
        order = np.argsort(gates, kind="stable")
        few = max(1, min(NAMED, len(gates) // 2))
        ends = {"most open": order[::-1][:few], "least open": order[:few]}
        first, second = (
            f"{word}: {', '.join(f'{channel} ({gates[channel]:.2f})' for channel in channels)}"
            for word, channels in ends.items()
        )
        return first, second


def _stage(name: str) -> str:
    """stages.0.1.excite -> stages.0"""
    parts = name.split(".")
    last = max((at for at, part in enumerate(parts) if part.isdecimal()), default=len(parts) - 1)
    return ".".join(parts[:last])


def _check(name: str, gates: np.ndarray) -> np.ndarray:
    gates = np.array(gates, dtype=np.float64)
    gates = gates[None] if gates.ndim == 1 else gates
    if gates.ndim != 2 or gates.size == 0:
        raise ValueError(f"{name}: gates must have shape (rows, channels) or (channels,), got {gates.shape}")
    if not np.isfinite(gates).all():
        row, channel = np.argwhere(~np.isfinite(gates))[0]
        raise ValueError(f"{name}: gates must be finite, got {gates[row, channel]} in row {row}, channel {channel}")
    if gates.min() < -1e-3 or gates.max() > 1 + 1e-3:  # float16 may overshoot a little
        wrong = gates.min() if gates.min() < -1e-3 else gates.max()
        raise ValueError(f"{name}: gates must lie in [0, 1], got {wrong:.4g}: give them after the sigmoid")
    return gates.clip(0, 1)
