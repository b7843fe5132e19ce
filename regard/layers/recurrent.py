"""Recurrent layers: an encoder over packed sequences, a single cell for explicit loops, and a stack of layers.

Their gates are recorded by a trace, as seen[site, "forget"] (N, T, dim): input, forget and output of an LSTM, reset
and update of a GRU. A plain RNN has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.record import record, tracing, watching
from regard.base.dropout import Dropout, drop
from regard.base.exporting import exporting
from regard.base.shared_steps import linear
from regard.layers.packed import FEW, Packed
from regard.layers.replay import must_not_sync
from regard.layers.scan import scan_layer

try:
    from regard.layers import cell_cuda
except ImportError:  # no Triton: a step is several operations of torch
    cell_cuda = None  # type: ignore[assignment]

# The layer and the parts of its weights in torch's order: gates, and the new content.
KINDS = {
    "rnn": (nn.RNN, ("new",)),
    "gru": (nn.GRU, ("reset", "update", "new")),
    "lstm": (nn.LSTM, ("input", "forget", "new", "output")),
}
GATES = ("input", "forget", "output", "reset", "update")
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
# What padding adds to W x + b, so that the state stays: z = 1, or f = 1 and i = 0. A plain RNN has no such gates.
PADDING_GATES = {"gru": {"update": 1e4}, "lstm": {"forget": 1e4, "input": -1e4}}
PADDING_INPUTS = 8  # eight instead of one, so that matrix sizes stay multiples of 8

CellState = tuple[Tensor, ...]  # (h,), or (h, c) for an LSTM, each (N, dim)


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"unknown recurrent cell {kind!r}; there are {', '.join(KINDS)}")


def gates_of(kind: str) -> tuple[str, ...]:
    """The gates of a kind of cell, in torch's order."""
    return tuple(part for part in KINDS[kind][1] if part in GATES)


@torch.no_grad()
def chrono_(rnn: nn.RNNBase, kind: str, layer: str, steps: int) -> None:
    """Chrono initialisation (Tallec & Ollivier 2018): b_f = log u, u uniform in [1, T - 1], and b_i = -b_f, so that
    the states of some units last a few steps and those of others up to T. torch's own biases are near 0: half is
    forgotten at each step. In a GRU b_z = log u, as its update gate is both."""
    bias, other = (getattr(rnn, f"{name}_{layer}") for name in ("bias_ih", "bias_hh"))
    start = torch.log(torch.empty(rnn.hidden_size).uniform_(1, max(1, steps - 1)))
    for part, value in {"gru": {"update": start}, "lstm": {"forget": start, "input": -start}}[kind].items():
        number = KINDS[kind][1].index(part)
        bias.chunk(len(KINDS[kind][1]))[number].copy_(value)
        other.chunk(len(KINDS[kind][1]))[number].zero_()


class Gates(nn.Module):
    """The site of one layer and direction, at which a trace finds its gates. It has no weights of its own."""

    def __init__(self, kind: str):
        super().__init__()
        self.traced = gates_of(kind)


class Layers(nn.Module):
    """torch's recurrent layers with a site for each layer and direction, named as torch names them: l0, l0_reverse,
    l1, ...

    torch runs all steps in one call and shows no gates, but each follows from what the layer read and from its
    state before: sigmoid(W x_t + U h_{t-1} + b). So they are computed in addition, for all steps at once, where a
    trace asks for them; outputs do not change by a bit. Dropout between layers is left out of the gates.

    `chrono_steps` T > 0: the gates start so that states last 1 to T steps (`chrono_`)."""

    def __init__(
        self,
        kind: str,
        inputs: int,
        dim: int,
        *,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = True,
        chrono_steps: int = 0,
    ):
        super().__init__()
        check_kind(kind)
        between = dropout if layers > 1 else 0.0
        self.kind = kind
        self.rnn = KINDS[kind][0](
            inputs, dim, layers, batch_first=True, bidirectional=bidirectional, dropout=between
        )
        self.ends = ("", "_reverse") if bidirectional else ("",)
        self.sites = [f"l{layer}{end}" for layer in range(layers) for end in self.ends] if gates_of(kind) else []
        for name in self.sites:
            self.add_module(name, Gates(kind))
            if chrono_steps:
                chrono_(self.rnn, kind, name, chrono_steps)

    def _apply(self, *args: Any, **options: Any) -> Self:
        """Of `.to(..)`, `.bfloat16()`, ...: the weights are laid out again as cuDNN reads them."""
        super()._apply(*args, **options)
        lay_out(self.rnn)
        return self

    def weights(self, layer: int) -> list[Tensor]:
        """The weights of a layer in the order of WEIGHTS, for each direction."""
        return [getattr(self.rnn, f"{part}_l{layer}{end}") for end in self.ends for part in WEIGHTS]

    def run(
        self, rnn: nn.RNNBase, x: Tensor, state: CellState | None, mask: Tensor | None
    ) -> tuple[Tensor, CellState]:
        """x (N, T, E) -> states (N, T, D), 0 at padding, and the last ones (layers * directions, N, dim)"""
        if exporting():
            return self._scan(x, state, mask)
        if mask is not None and (must_not_sync() or self.draws_apart(x)):
            learning = torch.is_grad_enabled() and self.kind in PADDING_GATES
            return self._read_through(x, mask) if learning else self._read_padded(x, mask)

        def call(x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
            inside: Any = (state if self.kind == "lstm" else state[0]) if state else None
            if mask is None:
                states, last = rnn(x, inside)
            else:
                lengths = mask.sum(1).cpu()
                out, last = rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), inside)
                states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
            return states, *(last if self.kind == "lstm" else (last,))

        states, *after = without_autocast(call, next(rnn.parameters()).dtype, x, *(state or ()))
        return states, tuple(after)

    def draws_apart(self, x: Tensor) -> bool:
        """Whether dropout between the layers must not be cuDNN's, which asks the host for a seed of its own."""
        alone = must_not_sync() or torch.are_deterministic_algorithms_enabled()
        return alone and x.is_cuda and self.training and self.rnn.dropout > 0

    def _scan(self, x: Tensor, state: CellState | None, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """As `run`, for `torch.export`."""
        ends, last = len(self.ends), list[CellState]()
        zeros = (x.new_zeros(x.shape[0], self.rnn.hidden_size),) * (2 if self.kind == "lstm" else 1)
        for layer in range(self.rnn.num_layers):
            if layer:
                x = F.dropout(x, self.rnn.dropout, self.training)
            begin = [
                zeros if state is None else tuple(part[layer * ends + end] for part in state) for end in range(ends)
            ]
            x, after = scan_layer(self.kind, x, begin, self._by_direction(layer), mask)
            last += after
        return x, tuple(torch.stack(parts) for parts in zip(*last, strict=True))

    def _read_padded(self, x: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """As `run` from zero states, without packing, which asks the host for lengths. A row runs on into its
        padding; its last state is the one after as many steps as it has tokens. The backward direction reads it
        turned round. Slow where there are gradients."""
        lengths, last = mask.sum(1), list[Tensor]()
        place = torch.arange(mask.shape[1], device=mask.device)
        turned = torch.where(mask, lengths[:, None] - 1 - place, place)  # (N, T)
        for layer in range(self.rnn.num_layers):
            if layer:
                x = F.dropout(x, self.rnn.dropout, self.training)
            weights = [torch.stack(parts) for parts in zip(*self._by_direction(layer), strict=True)]
            after = walk_padded(self.kind, x, turned, weights)  # each (T + 1, directions, N, dim)
            last += [_after(part, lengths) for part in after]
            sides = [side.transpose(0, 1) for side in after[0][1:].unbind(1)]  # (N, T, dim)
            sides[1:] = [_in_order(side, turned) for side in sides[1:]]
            x = torch.cat(sides, -1) * mask[..., None]
        parts = 2 if self.kind == "lstm" else 1
        return x, tuple(torch.cat(last[part::parts]) for part in range(parts))

    def _read_through(self, x: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """As `run` from zero states, without packing: in padding the state stays as it is, see `widened`."""
        last = list[Tensor]()
        for layer in range(self.rnn.num_layers):
            if layer:
                x = F.dropout(x, self.rnn.dropout, self.training)
            states, after = run_padded(self.kind, x, mask, widened(self.kind, self.weights(layer)), self.training)
            sides = states.chunk(len(self.ends), -1)
            # What an LSTM lets out at padding has no meaning.
            ends = torch.stack([last_real(sides[0], mask), *(side[:, 0] for side in sides[1:])])
            last += [ends, *after[1:]]
            x = states.masked_fill(~mask[..., None], 0)
        parts = 2 if self.kind == "lstm" else 1
        return x, tuple(torch.cat(last[part::parts]) for part in range(parts))

    def _by_direction(self, layer: int) -> list[list[Tensor]]:
        """The weights of a layer in the order of WEIGHTS, of each direction."""
        both, count = self.weights(layer), len(WEIGHTS)
        return [both[first : first + count] for first in range(0, len(both), count)]

    def record_gates(self, x: Tensor, top: Tensor, state: CellState | None, mask: Tensor | None) -> None:
        """What traces ask for. x (N, T, E) is what the first layer read, `top` the states of the last layer,
        `state` the initial states (layers, N, dim), None: zeros. With two directions they are zeros."""
        if tracing() and (watched := [name for name in self.sites if watching(self.get_submodule(name))]):
            with torch.no_grad():
                self._record_layers(watched, x, top, state, mask)

    def _record_layers(
        self, watched: list[str], x: Tensor, top: Tensor, state: CellState | None, mask: Tensor | None
    ) -> None:
        deepest = self.sites.index(watched[-1]) // len(self.ends)
        nonempty = None if mask is None else never_empty(mask)
        for layer in range(deepest + 1):
            begin = None if state is None else tuple(part[layer : layer + 1] for part in state)
            is_top = layer == self.rnn.num_layers - 1
            states = top if is_top else self.run(self._single(layer), x, begin, nonempty)[0]
            for number, end in enumerate(self.ends):
                if f"l{layer}{end}" not in watched:
                    continue
                own = states.chunk(len(self.ends), -1)[number]
                first = torch.zeros_like(own[:, :1]) if begin is None else begin[0].transpose(0, 1).to(own)
                # Padding is 0, so the backward direction's first state is what comes after the last real token.
                before = torch.cat([own[:, 1:], first] if number else [first, own[:, :-1]], 1)
                self._record(f"l{layer}{end}", x, before, mask)
            x = states

    def _single(self, layer: int) -> nn.RNNBase:
        """One of the layers alone."""
        inputs = getattr(self.rnn, f"weight_ih_l{layer}")
        sizes = {"batch_first": True, "bidirectional": self.rnn.bidirectional, "dtype": inputs.dtype}
        single = KINDS[self.kind][0](inputs.shape[1], self.rnn.hidden_size, **sizes, device="meta")
        single.to_empty(device=inputs.device)
        for name, parameter in single.named_parameters():
            parameter.copy_(getattr(self.rnn, name.replace("_l0", f"_l{layer}")))
        return single

    def _record(self, name: str, x: Tensor, before: Tensor, mask: Tensor | None) -> None:
        """The gates of a layer that read x (N, T, E) in the states `before` (N, T, dim)."""
        of_x, of_state = (
            F.linear(y, *(getattr(self.rnn, f"{part}_{which}_{name}") for part in ("weight", "bias")))
            for y, which in ((x, "ih"), (before, "hh"))
        )
        gates = (of_x + of_state).sigmoid()
        if mask is not None:
            gates = gates.masked_fill(~mask[..., None], 0)
        parts = KINDS[self.kind][1]
        for part, gate in zip(parts, gates.chunk(len(parts), -1), strict=True):
            if part in GATES:
                record(self.get_submodule(name), part, gate, axis=1)


def lay_out(rnn: nn.RNNBase) -> None:
    """As rnn.flatten_parameters(), which leaves bfloat16 as it is: cuDNN would copy the weights at every call, and
    warn."""
    weights: list[Any] = rnn._flat_weights
    apart = len({weight.data_ptr() for weight in weights}) == len(weights)
    if not apart or not all(weight.is_cuda and weight.dtype == torch.bfloat16 for weight in weights):
        return
    if not torch._use_cudnn_rnn_flatten_weight():
        return
    with torch.no_grad(), torch.cuda.device_of(weights[0]):
        torch._cudnn_rnn_flatten_weight(
            weights,
            len(WEIGHTS),
            rnn.input_size,
            torch.backends.cudnn.rnn.get_cudnn_mode(rnn.mode),
            rnn.hidden_size,
            rnn.proj_size,
            rnn.num_layers,
            rnn.batch_first,
            rnn.bidirectional,
        )


class Encoder(Layers):
    """h_i = [forward_i; backward_i] at every position (or forward_i alone), and the final states.

    Sequences are packed, so the backward direction starts at a row's last real token and padding costs nothing."""

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """x (B, S, E), mask (B, S) with padding on the right -> states (B, S, D), 0 at padding, and the final
        states of every layer (B, layers, D); D = 2 dim, or dim if not bidirectional"""
        states, last = self.run(self.rnn, x, None, mask)
        self.record_gates(x, states, None, mask)
        return states, tuple(
            part.unflatten(0, (self.rnn.num_layers, -1)).permute(2, 0, 1, 3).flatten(2) for part in last
        )


def walk_padded(kind: str, x: Tensor, turned: Tensor, weights: list[Tensor]) -> CellState:
    """One layer over x (N, T, E), and over x in the order `turned` (N, T), with weights of WEIGHTS (directions,
    ..): the states before the first step and after each one (T + 1, directions, N, dim)."""
    of_x, of_state, bias, state_bias = weights
    inputs = F.linear(x, of_x.flatten(0, 1), bias.flatten()).chunk(len(of_x), -1)
    ahead = torch.stack([inputs[0], *(_in_order(side, turned) for side in inputs[1:])]).permute(2, 0, 1, 3)
    zeros = x.new_zeros(*ahead.shape[1:3], of_state.shape[-1])
    parts = (zeros, zeros) if kind == "lstm" else (zeros,)
    if has_kernel(kind, parts, [ahead], [of_state, state_bias]):
        walked = tuple(part.new_zeros(len(ahead) + 1, *part.shape) for part in parts)
        for step, now in enumerate(ahead.unbind(0)):
            before, after = (tuple(part[place] for part in walked) for place in (step, step + 1))
            cell_cuda.step(before, of_state, state_bias, now, (), after)
        return walked
    states: list[CellState] = [parts]
    for now in ahead.unbind(0):
        product = torch.baddbmm(state_bias[:, None], states[-1][0], of_state.mT)
        flat = tuple(part.flatten(0, 1) for part in (now, product, *states[-1]))
        after = next_state(kind, flat[0], flat[1], flat[2:])
        states.append(tuple(part.view_as(zeros) for part in after))
    return tuple(torch.stack(parts) for parts in zip(*states, strict=True))


def _in_order(x: Tensor, places: Tensor) -> Tensor:
    """x[n, places[n, t]] of x (N, T, D)"""
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


def _after(states: Tensor, steps: Tensor) -> Tensor:
    """The states (directions, N, dim) of each row after so many steps (N,); states (T + 1, directions, N, dim)"""
    return states.gather(0, steps[None, None, :, None].expand(1, states.shape[1], -1, states.shape[3]))[0]


def has_kernel(kind: str, state: CellState, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> bool:
    """Whether a step of the cell is one kernel."""
    return cell_cuda is not None and cell_cuda.fits(kind, state, inputs, weights)


def next_state(kind: str, ahead: Tensor, of_state: Tensor, state: CellState) -> CellState:
    """What a cell makes of W x + b, U h + c (N, gates * dim) and its state. On CUDA it is one kernel of torch's,
    which its own cells use, and one in the backward pass. Under autocast all is of its type."""
    state = tuple(part.to(ahead.dtype) for part in state)
    alike = ahead.dtype == of_state.dtype
    if ahead.is_cuda and kind != "rnn" and alike and not torch.compiler.is_compiling():
        if kind == "lstm":
            return tuple(torch.ops.aten._thnn_fused_lstm_cell(ahead, of_state, state[1])[:2])
        return (torch.ops.aten._thnn_fused_gru_cell(ahead, of_state, state[0])[0],)
    return gated(kind, ahead, of_state, state)[0]


def gated(kind: str, ahead: Tensor, of_state: Tensor, state: CellState) -> tuple[CellState, tuple[Tensor, ...]]:
    """As `next_state`, and the gates in the order of `gates_of`, each (N, dim)."""
    state = tuple(part.to(ahead.dtype) for part in state)
    if kind == "rnn":
        return ((ahead + of_state).tanh(),), ()
    if kind == "lstm":
        i, f, g, o = (ahead + of_state).chunk(4, -1)
        i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
        cell = f * state[1] + i * g.tanh()
        return (o * cell.tanh(), cell), (i, f, o)
    dim = state[0].shape[-1]
    gates, new = ahead.split((2 * dim, dim), -1)
    state_gates, state_new = of_state.split((2 * dim, dim), -1)
    reset, update = (gates + state_gates).sigmoid().chunk(2, -1)
    new = torch.addcmul(new, reset, state_new).tanh()
    return (torch.lerp(new, state[0], update),), (reset, update)


def never_empty(mask: Tensor) -> Tensor:
    """Packing takes no empty rows: they are read as one token, at which nobody looks."""
    return mask | (torch.arange(mask.shape[1], device=mask.device) == 0)


def last_real(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the last real token of each row (N, D), or of an empty row, the first."""
    place = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[-1])
    return states.gather(1, place)[:, 0]


def run_layer(
    kind: str, x: Tensor, begin: CellState, weights: list[Tensor], training: bool, *, batch_first: bool = True
) -> tuple[Tensor, CellState]:
    """One layer of torch's over x (N, T, E), or (T, N, E), with the given weights, those of WEIGHTS for each
    direction; `begin` has h and c (directions, N, dim), of which only an LSTM reads c."""
    run: Any = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}[kind]
    both = len(weights) > len(WEIGHTS)

    def call(x: Tensor, *begin: Tensor) -> tuple[Tensor, ...]:
        inside = list(begin) if kind == "lstm" else begin[0]
        out: tuple[Tensor, ...] = run(x, inside, in_one_piece(weights), True, 1, 0.0, training, both, batch_first)
        return out

    states, *last = without_autocast(call, weights[0].dtype, x, *begin)
    return states, tuple(last)


def without_autocast(
    run: Callable[..., tuple[Tensor, ...]], dtype: torch.dtype, *tensors: Tensor
) -> tuple[Tensor, ...]:
    """run(*tensors), one of torch's recurrent layers. Under an autocast to bfloat16 it runs in the dtype of its
    weights, and gives bfloat16: autocast itself would run cuDNN's in float16, where gradients underflow without a
    loss scale."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind) or torch.get_autocast_dtype(kind) != torch.bfloat16:
        return run(*tensors)
    with torch.autocast(kind, enabled=False):
        return tuple(part.to(torch.bfloat16) for part in run(*(tensor.to(dtype) for tensor in tensors)))


def run_padded(kind: str, x: Tensor, mask: Tensor, wider: list[Tensor], training: bool) -> tuple[Tensor, CellState]:
    """One layer over whole rows x (N, T, E) from zero states, with `widened` weights -> states (N, T, D), and the
    last ones (directions, N, dim). Steps come first, as cuDNN wants them: else it would copy x once more."""
    padding = (~mask.t()[..., None]).to(x.dtype).expand(-1, -1, PADDING_INPUTS)
    directions, dim = len(wider) // len(WEIGHTS), wider[WEIGHTS.index("weight_hh")].shape[1]
    zeros = x.new_zeros(directions, len(x), dim)
    x = torch.cat([x.transpose(0, 1), padding], -1)
    states, last = run_layer(kind, x, (zeros, zeros), wider, training, batch_first=False)
    return states.transpose(0, 1), last


def widened(kind: str, weights: list[Tensor]) -> list[Tensor]:
    """The weights of a layer with columns for the padding inputs, which open and close its gates so that the state
    stays."""
    parts = KINDS[kind][1]
    columns = weights[0].new_zeros(len(parts), weights[WEIGHTS.index("weight_hh")].shape[1], PADDING_INPUTS)
    for part, value in PADDING_GATES[kind].items():
        columns[parts.index(part)] = value / PADDING_INPUTS
    wider = list(weights)
    of_inputs = slice(WEIGHTS.index("weight_ih"), None, len(WEIGHTS))
    wider[of_inputs] = [torch.cat([weight, columns.flatten(0, 1)], 1) for weight in weights[of_inputs]]
    return in_one_piece(wider)


def in_one_piece(weights: list[Tensor]) -> list[Tensor]:
    """The same weights as parts of one tensor, matrices before biases, as cuDNN reads them; else it would copy them
    at every call, and warn."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place].dim())
    if not weights[0].is_cuda or _follow([weights[place] for place in order]):
        return weights
    sizes = [weights[place].numel() for place in order]
    parts = torch.cat([weights[place].flatten() for place in order]).split(sizes)
    views = {place: part.view(weights[place].shape) for place, part in zip(order, parts, strict=True)}
    return [views[place] for place in range(len(weights))]


def _follow(parts: list[Tensor]) -> bool:
    """Whether each begins where the one before it ends, as those of one layer do; of several layers all biases come
    after all matrices."""
    return all(
        after.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
        and after.storage_offset() == before.storage_offset() + before.numel()
        for before, after in pairwise(parts)
    )


class Cell(nn.Module):
    """One step of a plain RNN, a GRU or an LSTM. `ahead` is W x + b, which can be computed for all steps before the
    loop.

    RNN: h' = tanh(W x + b + U h + c).
    GRU: h' = (1 - z) n + z h, n = tanh(W x + r (U h + b)): torch's form, which applies the reset gate after the
    product with U (Cho 2014: before it), so that one matmul serves all gates."""

    def __init__(self, kind: str, inputs: int, dim: int):
        super().__init__()
        check_kind(kind)
        self.kind, self.dim, self.traced = kind, dim, gates_of(kind)
        parts = len(KINDS[kind][1])
        self.input = nn.Linear(inputs, parts * dim)
        self.hidden = nn.Linear(dim, parts * dim)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5)

    def forward(self, ahead: Tensor | None, state: CellState, *inputs: tuple[nn.Linear, Tensor]) -> CellState:
        """ahead (N, gates * dim), state of N rows -> the next state. What layers make of inputs (N, ..) is added to
        `ahead`, or stands for it."""
        if (after := self._in_one_kernel(ahead, state, inputs)) is not None:
            return after
        for layer, x in inputs:
            ahead = linear(layer, x) if ahead is None else ahead + linear(layer, x)
        assert ahead is not None
        of_state = linear(self.hidden, state[0])
        if not watching(self):
            return next_state(self.kind, ahead, of_state, state)
        after, gates = gated(self.kind, ahead, of_state, state)
        for kind, gate in zip(self.traced, gates, strict=True):
            record(self, kind, gate[:, None], axis=1)  # the steps add up to (N, T, dim)
        return after

    def _in_one_kernel(
        self, ahead: Tensor | None, state: CellState, inputs: Sequence[tuple[nn.Linear, Tensor]]
    ) -> CellState | None:
        """As `forward`, on a GPU in half precision; None: not here."""
        layers = [self.hidden, *(layer for layer, _ in inputs)]
        sides = [x for _, x in inputs] if ahead is None else [ahead, *(x for _, x in inputs)]
        if cell_cuda is None or tracing() or not all(map(is_plain, layers)):
            return None
        weights = [weight for layer in layers for weight in layer.parameters()]
        if not has_kernel(self.kind, state, sides, weights) or len(inputs) > cell_cuda.MOST_INPUTS:
            return None
        after = tuple(torch.empty_like(part, memory_format=torch.contiguous_format) for part in state)
        products = [(x, layer.weight, layer.bias) for layer, x in inputs]
        cell_cuda.step(
            [part[None] for part in state],
            self.hidden.weight[None],
            self.hidden.bias[None],
            None if ahead is None else ahead[None],
            products,
            [part[None] for part in after],
        )
        return after


def is_plain(layer: nn.Module) -> bool:
    """Whether it is a linear layer without hooks, so that its weights say all that it does."""
    return type(layer) is nn.Linear and not layer._forward_hooks and not layer._forward_pre_hooks


def by_layer(states: list[CellState]) -> CellState:
    """The states of layers, each (N, dim), side by side: (N, layers, dim)."""
    if len(states) == 1:  # nothing to copy
        return tuple(part[:, None] for part in states[0])
    return tuple(torch.stack(parts, 1) for parts in zip(*states, strict=True))


def of_layer(state: CellState, number: int) -> CellState:
    """The state of that layer, each part (N, dim), of those side by side."""
    if state[0].shape[1] == 1:  # a view in the backward pass too
        return tuple(part.squeeze(1) for part in state)
    return tuple(part[:, number] for part in state)


class Stack(Layers):
    """Stacked recurrent layers over a whole sequence, or over one step of it.

    In training `weight_dropout` drops recurrent weights, the same ones at all steps (Merity 2018); `locked`:
    dropout between layers has one mask for all steps."""

    def __init__(
        self,
        kind: str,
        inputs: int,
        dim: int,
        *,
        layers: int,
        dropout: float = 0.0,
        chrono_steps: int = 0,
        locked: bool = False,
        weight_dropout: float = 0.0,
    ):
        super().__init__(
            kind, inputs, dim, layers=layers, dropout=dropout, bidirectional=False, chrono_steps=chrono_steps
        )
        self.between, self.weight_dropout = Dropout(dropout, shared=1 if locked else None), weight_dropout
        self.by_layer = locked or weight_dropout > 0  # in training
        self.packed: list[tuple[Packed, Packed]] = []  # of each layer, for steps on the CPU

    def pack_steps(self, least: int) -> int:
        """Let its steps multiply by packed weights, where all have so many numbers; how many weights there are."""
        layers = range(self.rnn.num_layers)
        if min(weight.numel() for layer in layers for weight in self.weights(layer)[:2]) >= least:
            self.packed = [(Packed(), Packed()) for _ in layers]
        return 2 * len(self.packed)

    def begin(self, x: Tensor) -> CellState:
        """Zero states (N, layers, dim); rows come first, since decoding reorders them."""
        zeros = x.new_zeros(x.shape[0], self.rnn.num_layers, self.rnn.hidden_size)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def forward(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """x (N, T, inputs) -> (N, T, dim), and the state after the last step"""
        if x.shape[1] == 1 and not (self.training or torch.is_grad_enabled() or tracing()):
            return self._step(x[:, 0], state)
        inside = tuple(part.transpose(0, 1).contiguous() for part in state)
        if (self.training and self.by_layer) or self.draws_apart(x):
            out, after = self._run_by_layer(x, inside)
        else:
            out, after = self.run(self.rnn, x, inside, None)
        self.record_gates(x, out, inside, None)
        return out, tuple(part.transpose(0, 1) for part in after)

    def _step(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """One step of x (N, inputs) in eval mode by torch's cells, which take less time to call than its layers."""
        if has_kernel(self.kind, state, [x], self.rnn._flat_weights):
            return self._step_in_kernels(x, state)
        run: Any = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[self.kind]
        states = []
        for layer in range(self.rnn.num_layers):
            weights = self.weights(layer)
            before = [part[:, layer] for part in state]
            if self.packed and not torch.compiler.is_compiling() and len(x) >= FEW:
                of_input, of_state = self.packed[layer]
                ahead = of_input.product(x, weights[0], weights[2])
                after = next_state(
                    self.kind, ahead, of_state.product(before[0], weights[1], weights[3]), tuple(before)
                )
            else:
                after = run(x, before, *weights) if self.kind == "lstm" else (run(x, before[0], *weights),)
            x = after[0]
            states.append(after)
        return x[:, None], by_layer(states)

    def _step_in_kernels(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """As `_step`, each layer by a kernel that writes its part of the state."""
        after = tuple(torch.empty_like(part, memory_format=torch.contiguous_format) for part in state)
        for layer in range(self.rnn.num_layers):
            of_input, of_state, bias, state_bias = self.weights(layer)
            before, out = ([part[None, :, layer] for part in side] for side in (state, after))
            cell_cuda.step(before, of_state[None], state_bias[None], None, [(x, of_input, bias)], out)
            x = after[0][:, layer]
        return x[:, None], after

    def _run_by_layer(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """As `run`, with dropout that torch's layers do not have."""
        states = []
        for layer in range(self.rnn.num_layers):
            weights = self.weights(layer)
            weights[1] = drop(weights[1], self.weight_dropout, True)
            begin = tuple(part[layer : layer + 1] for part in state)
            x, after = run_layer(self.kind, self.between(x) if layer else x, begin, weights, True)
            states.append(after)
        return x, tuple(torch.cat(parts) for parts in zip(*states, strict=True))
