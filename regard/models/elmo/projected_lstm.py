"""LSTM layers with a projection (Sak et al. 2014), in two directions that do not see each other.

    c_t = clip(f c_{t-1} + i tanh(..));  h_t = clip(W (o tanh(c_t)))

Both clips are bounds on the absolute value; 0: none. Rows are padded on the right; the backward direction reads
each row from its last real token, as if it were written the other way round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.base.dropout import Dropout
from regard.base.exporting import exporting
from regard.base.shared_steps import product, steps_share
from regard.layers.recurrent import without_autocast
from regard.layers.scan import scan_steps

LayerState = tuple[Tensor, Tensor]  # h (2, N, dim), c (2, N, cell): forward and backward
BiState = tuple[Tensor, Tensor]  # h (N, layers, 2, dim), c (N, layers, 2, cell)


class ProjectedLSTM(nn.Module):
    """One layer in both directions, which run side by side in one loop. The weights are those of torch's LSTM,
    which runs itself on a GPU where nothing is clipped; on a CPU it is no faster."""

    def __init__(
        self, inputs: int, cell: int, dim: int, *, cell_clip: float = 0.0, projection_clip: float = 0.0
    ) -> None:
        super().__init__()
        self.cell, self.dim = cell, dim
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.directions = nn.ModuleList(nn.LSTM(inputs, cell, batch_first=True, proj_size=dim) for _ in range(2))
        for name, bias in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(bias)
            if "bias_ih" in name:
                nn.init.ones_(bias[cell : 2 * cell])  # the forget gate starts open

    def forward(self, x: Tensor) -> Tensor:
        """(2, N, T, inputs) -> (2, N, T, dim), from a state of zeros. Padding on the right changes nothing before
        it."""
        if self.cell_clip or self.projection_clip or not x.is_cuda:
            return self.carry(x, self.begin(x), None)[0]
        return torch.stack([_run(rnn, row) for rnn, row in zip(self.directions, x, strict=True)])  # type: ignore[arg-type]

    def begin(self, x: Tensor) -> LayerState:
        """Zeros."""
        return x.new_zeros(2, x.shape[1], self.dim), x.new_zeros(2, x.shape[1], self.cell)

    def carry(self, x: Tensor, state: LayerState, mask: Tensor | None) -> tuple[Tensor, LayerState]:
        """As `forward`, from any state, and the state after the last token with mask (N, T) True (None: all)."""
        into, between, down = (self._stacked(f"weight_{part}_l0") for part in ("ih", "hh", "hr"))
        bias = self._stacked("bias_ih_l0") + self._stacked("bias_hh_l0")
        size, rows, steps, _ = x.shape
        ahead = torch.baddbmm(bias[:, None], x.transpose(1, 2).flatten(1, 2), into.mT)  # all steps at once
        hidden, cell = (part.to(ahead.dtype) for part in state)

        def move(before: LayerState, now: Tensor) -> LayerState:
            hidden, cell = before
            i, f, g, o = product(hidden, between, plus=now).chunk(4, -1)  # (2, N, cell) each
            new_cell = _clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), self.cell_clip)
            return _clip(product(o.sigmoid() * new_cell.tanh(), down), self.projection_clip), new_cell

        ahead = ahead.view(size, steps, rows, -1)
        if exporting() and mask is None:
            (hidden, cell), (out,) = scan_steps(_with_output(move), (hidden, cell), (ahead.transpose(0, 1),))
            return out.movedim(0, 2), (hidden, cell)
        states = []
        with steps_share():
            for step, now in enumerate(ahead.unbind(1)):
                new_hidden, new_cell = move((hidden, cell), now)
                states.append(new_hidden)
                if mask is not None:
                    real = mask[:, step, None]
                    new_hidden, new_cell = new_hidden.where(real, hidden), new_cell.where(real, cell)
                hidden, cell = new_hidden, new_cell
        return torch.stack(states, 2), (hidden, cell)

    def _stacked(self, name: str) -> Tensor:
        return torch.stack([getattr(rnn, name) for rnn in self.directions])


class ProjectedStack(nn.Module):
    """Layers of these: h_j = LSTM_j(h_{j-1}), plus h_{j-1} from the second layer on (`skip`)."""

    def __init__(
        self,
        dim: int,
        cell: int,
        *,
        layers: int,
        cell_clip: float = 0.0,
        projection_clip: float = 0.0,
        skip: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            ProjectedLSTM(dim, cell, dim, cell_clip=cell_clip, projection_clip=projection_clip)
            for _ in range(layers)
        )
        self.cell, self.skip, self.dropout = cell, skip, Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """x (N, T, dim), mask (N, T) with padding on the right -> [forward; backward] (N, T, 2 dim) of each layer,
        0 at padding"""
        return self._run(x, mask, None)[0]

    def carry(self, x: Tensor, mask: Tensor, state: BiState | None) -> tuple[list[Tensor], BiState]:
        """As `forward`, from the state that the previous batch left in each row (None: zeros); also the state after
        this batch. Rows beyond those of the state begin with zeros; rows of the state beyond these are kept."""
        rows, layers = len(x), len(self.layers)
        if state is None:
            state = x.new_zeros(rows, layers, 2, x.shape[-1]), x.new_zeros(rows, layers, 2, self.cell)
        missing = max(0, rows - len(state[0]))
        begin = tuple(
            torch.cat([part[:rows], part.new_zeros(missing, *part.shape[1:])]).permute(1, 2, 0, 3) for part in state
        )
        states, after = self._run(x, mask, begin)
        hidden, cells = (torch.stack(part).permute(2, 0, 1, 3) for part in zip(*after, strict=True))
        return states, (torch.cat([hidden, state[0][rows:]]), torch.cat([cells, state[1][rows:]]))

    def _run(
        self, x: Tensor, mask: Tensor, begin: tuple[Tensor, ...] | None
    ) -> tuple[list[Tensor], list[LayerState]]:
        """`begin`: h and c, (layers, 2, N, ..) each."""
        order = reversal(mask)
        y = torch.stack([x, turn(x, order)])  # (2, N, T, dim)
        states, after = [], []
        for number, layer in enumerate(self.layers):
            y = self.dropout(y)
            assert isinstance(layer, ProjectedLSTM)
            if begin is None:
                out = layer(y)
            else:
                out, last = layer.carry(y, (begin[0][number], begin[1][number]), mask)
                after.append(last)
            y = out + y if self.skip and number else out
            both = torch.cat([y[0], turn(y[1], order)], -1)
            states.append(both.masked_fill(~mask[..., None], 0))
        return states, after


def _run(rnn: nn.LSTM, row: Tensor) -> Tensor:
    return without_autocast(lambda row: rnn(row)[:1], next(rnn.parameters()).dtype, row)[0]


def _with_output(move: Callable[[LayerState, Tensor], LayerState]) -> Callable[..., tuple[LayerState, Any]]:
    """A step as `scan_steps` wants it: the state after it, and its output."""

    def step(before: LayerState, now: Tensor) -> tuple[LayerState, tuple[Tensor]]:
        after = move(before, now)
        return after, (after[0],)

    return step


def reversal(mask: Tensor) -> Tensor:
    """For each place of a row (N, T) the place that takes its turn when the real tokens are reversed; padding stays
    where it is."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)


def turn(x: Tensor, order: Tensor) -> Tensor:
    """x (N, T, D) with its places in this order (N, T)."""
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))


def _clip(x: Tensor, most: float) -> Tensor:
    return x.clamp(-most, most) if most else x
