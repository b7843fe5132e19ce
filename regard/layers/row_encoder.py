"""A recurrent encoder for rows that are pooled: only the states at real tokens and the last ones count.

A GRU or an LSTM can read padded rows as they are, without packing: additional inputs, which are 1 at padding, open
and close the gates so that the state stays as it is. So the backward direction still has its first state when it
comes to a row's last token."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.attention.record import tracing
from regard.base.exporting import exporting
from regard.layers.recurrent import (
    PADDING_GATES,
    CellState,
    Encoder,
    last_real,
    never_empty,
    run_padded,
    widened,
)
from regard.layers.replay import must_not_sync


class DerivedWeights:
    """Tensors that are made of weights, and made again when these have changed. On a GPU this happens in place, as
    CUDA graphs go on reading them there."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] | None = None
        self._versions: list[tuple[int, int]] = []

    def get(self, weights: list[Tensor], make: Callable[[list[Tensor]], list[Tensor]]) -> list[Tensor]:
        """make(weights); the same tensors as before while no gradient is wanted and no weight has changed."""
        if torch.is_grad_enabled() or weights[0].is_inference():
            return make(weights)
        if _capturing(weights[0]):
            return make(weights) if self.tensors is None else self.tensors
        versions = [(weight.data_ptr(), weight._version) for weight in weights]
        if self.tensors is None or self._versions != versions:
            with torch.inference_mode(False), torch.no_grad():
                self.tensors, self._versions = self._updated(make(weights)), versions
        return self.tensors

    def expire(self) -> None:
        """Make them again at the next call, whatever the versions of the weights say."""
        self._versions = []

    def _updated(self, new: list[Tensor]) -> list[Tensor]:
        old = self.tensors
        if old is None or not new[0].is_cuda or (old[0].device, old[0].dtype) != (new[0].device, new[0].dtype):
            return new
        for mine, changed in zip(old, new, strict=True):
            mine.copy_(changed)
        return old


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


class RowEncoder(Encoder):
    """An `Encoder` of rows that may be empty, which packs them only where that is cheaper than to read padding."""

    def __init__(
        self,
        kind: str,
        inputs: int,
        dim: int,
        *,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = True,
    ):
        super().__init__(kind, inputs, dim, layers=layers, dropout=dropout, bidirectional=bidirectional)
        self._wider = [DerivedWeights() for _ in range(layers)]  # with those of the padding inputs

    def read(
        self, tokens: Tensor, mask: Tensor, embed: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """As `states`, over embed(tokens (B, S)). On a CPU without gradients only real tokens are looked up."""
        if tokens.is_cuda or torch.is_grad_enabled() or tracing() or exporting():
            return self.states(embed(tokens), mask)
        lengths = never_empty(mask).sum(1).cpu()
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        out, last = self.rnn(PackedSequence(embed(packed.data), *packed[1:]))
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=tokens.shape[1])
        return states, self._ends(last if self.kind == "lstm" else (last,))

    def states(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states (B, S, D) of rows x (B, S, E) that may be empty, and the last state of each direction,
        forward_n and backward_1 (B, dim). What stands at padding, or is the last of an empty row, is finite and
        has no meaning."""
        if not self._reads_padding(x, mask):
            states, last = self.run(self.rnn, x, None, never_empty(mask))
            ends = self._ends(last)
        else:
            states = self._run_padded(x, mask)
            dim = self.rnn.hidden_size
            # At padding a GRU's state is still that of the last token (on a CPU only nearly, in bfloat16). The cell
            # of an LSTM stays, but what its output gate lets out does not.
            still = self.kind == "gru" and x.is_cuda
            forward = states[:, -1, :dim] if still else last_real(states[..., :dim], mask)
            ends = (forward, states[:, 0, dim:])[: len(self.ends)]
        self.record_gates(x, states, None, mask)
        return states, ends

    def _ends(self, last: CellState) -> tuple[Tensor, ...]:
        """h of the last layer, of each direction."""
        return last[0][-len(self.ends) :].unbind(0)

    def _reads_padding(self, x: Tensor, mask: Tensor) -> bool:
        """On a GPU every length is a slice of its own to pack, and the lengths must be known first. On a CPU the
        backward pass of packed rows takes time quadratic in their length, as each step adds a gradient of all
        steps; padding is worth it where at least half of the positions are real."""
        if self.kind not in PADDING_GATES or exporting():
            return False
        return x.is_cuda or must_not_sync() or (torch.is_grad_enabled() and 2 * int(mask.sum()) >= mask.numel())

    def _run_padded(self, x: Tensor, mask: Tensor) -> Tensor:
        """(N, T, E) -> (N, T, D) over whole rows."""
        for layer, wider in enumerate(self._wider):
            if layer:
                x = F.dropout(x, self.rnn.dropout, self.training)
            weights = wider.get(self.weights(layer), partial(widened, self.kind))
            x, _ = run_padded(self.kind, x, mask, weights, self.training)
        return x

    @torch.no_grad()
    def refresh_derived(self) -> None:
        """Wider weights follow the weights; `layers.replay` calls it before a CUDA graph that reads them runs."""
        for layer, wider in enumerate(self._wider):
            if wider.tensors is not None:
                wider.get(self.weights(layer), partial(widened, self.kind))

    def train(self, mode: bool = True) -> RowEncoder:
        """A captured training step changes weights without their versions, so wider ones are made again."""
        for wider in self._wider:
            wider.expire()
        super().train(mode)
        return self
