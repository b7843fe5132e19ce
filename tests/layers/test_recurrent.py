"""Recurrent layers against torch's own cells, and padding that is never seen."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import trace
from regard.attention.trace import sites_of
from regard.base.dropout import drop
from regard.errors import NoAttention
from regard.layers.recurrent import KINDS, Cell, Encoder, Stack, gates_of, run_layer
from regard.layers.replay import syncing_never

CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
GATED = ("gru", "lstm")
INPUTS, DIM = 5, 6
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_cell_is_torchs_cell_in_value_and_gradient(kind: str, device: str) -> None:
    torch.manual_seed(0)
    ours = Cell(kind, INPUTS, DIM).double().to(device)
    theirs = CELLS[kind](INPUTS, DIM).double().to(device)
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.input.weight)
        theirs.bias_ih.copy_(ours.input.bias)
        theirs.weight_hh.copy_(ours.hidden.weight)
        theirs.bias_hh.copy_(ours.hidden.bias)
    x = torch.randn(4, 3, INPUTS, dtype=torch.float64).to(device)  # (N, T, E)
    first = torch.randn(2, 4, DIM, dtype=torch.float64).to(device).tanh()
    state = tuple(first) if kind == "lstm" else (first[0],)
    other = state
    for ahead, now in zip(ours.input(x).unbind(1), x.unbind(1), strict=True):
        state = ours(ahead, state)
        found = theirs(now, other if kind == "lstm" else other[0])
        other = found if kind == "lstm" else (found,)
    for mine, its in zip(state, other, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-12, atol=1e-12)
    state[0].square().sum().backward()
    other[0].square().sum().backward()
    torch.testing.assert_close(ours.input.weight.grad, theirs.weight_ih.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.hidden.weight.grad, theirs.weight_hh.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.hidden.bias.grad, theirs.bias_hh.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", GATED)
def test_a_cell_goes_on_from_a_state_of_another_precision(kind: str) -> None:
    """Under autocast in bfloat16 the products are bfloat16, and cuDNN's encoder left a float16 state."""
    torch.manual_seed(0)
    cell = Cell(kind, 3, 4)
    x, state = torch.randn(2, 3), tuple(torch.randn(2, 4) for _ in range(1 + (kind == "lstm")))
    wanted = cell(cell.input(x), state)
    with torch.autocast("cpu", torch.bfloat16):
        after = cell(cell.input(x), tuple(part.half() for part in state))
    for one, other in zip(after, wanted, strict=True):
        assert torch.allclose(one.float(), other, atol=0.02)


def padded(lengths: list[int], longest: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), longest, INPUTS, generator=generator), mask


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_encoder_reads_each_row_as_if_it_were_alone(kind: str, layers: int, bidirectional: bool) -> None:
    torch.manual_seed(2)
    encoder = Encoder(kind, INPUTS, DIM, layers=layers, bidirectional=bidirectional)
    lengths = [3, 7, 1]
    x, mask = padded(lengths, 9)  # two places more than the longest row has
    states, last = encoder(x.masked_fill(~mask[..., None], torch.nan), mask)
    width = 2 * DIM if bidirectional else DIM
    assert states.shape == (3, 9, width)
    assert all(part.shape == (3, layers, width) for part in last)
    assert torch.equal(states[~mask], torch.zeros_like(states[~mask]))
    for row, length in enumerate(lengths):
        alone, ended = encoder.rnn(x[row : row + 1, :length])  # no packing
        torch.testing.assert_close(states[row, :length], alone[0], rtol=1e-5, atol=1e-6)
        for ours, wanted in zip(last, ended if kind == "lstm" else (ended,), strict=True):
            for layer in range(layers):
                both = wanted[2 * layer : 2 * layer + 2] if bidirectional else wanted[layer : layer + 1]
                torch.testing.assert_close(ours[row, layer], both.flatten(), rtol=1e-5, atol=1e-6)


def test_the_backward_direction_has_read_all_when_it_reaches_the_first_place() -> None:
    torch.manual_seed(3)
    encoder = Encoder("gru", INPUTS, DIM)
    x, mask = padded([4, 6], 6)
    forward_last, backward_last = encoder.rnn(x[:1, :4])[1]
    states, _ = encoder(x, mask)
    torch.testing.assert_close(states[0, 0, DIM:], backward_last[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(states[0, 3, :DIM], forward_last[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_a_stack_steps_as_it_runs_all_at_once(kind: str, layers: int) -> None:
    torch.manual_seed(4)
    stack = Stack(kind, INPUTS, DIM, layers=layers)
    x = torch.randn(3, 5, INPUTS)
    state = stack.begin(x)
    whole, last = stack(x, state)
    steps = []
    for now in x.split(1, 1):
        out, state = stack(now, state)
        steps.append(out)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-5, atol=1e-6)
    for ours, wanted in zip(state, last, strict=True):
        assert ours.shape == (3, layers, DIM), "rows first, so that decoding may reorder them"
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_dropped_weights_are_the_same_at_all_steps(kind: str) -> None:
    """A training pass is a plain pass with other weights U; those of the layer learn through it."""
    torch.manual_seed(4)
    stack, plain = Stack(kind, INPUTS, DIM, layers=2, weight_dropout=0.5), Stack(kind, INPUTS, DIM, layers=2)
    x = torch.randn(3, 4, INPUTS)
    plain.load_state_dict(stack.state_dict())
    torch.manual_seed(5)
    with torch.no_grad():
        for layer in range(2):
            weight = getattr(plain.rnn, f"weight_hh_l{layer}")
            weight.copy_(drop(weight, 0.5, True))
            assert 0.2 < (weight == 0).float().mean() < 0.8
    torch.manual_seed(5)
    (found, state), (wanted, last) = (layers(x, layers.begin(x)) for layers in (stack, plain))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(state, last)
    found.sum().backward()
    for layer in range(2):
        zeros = getattr(plain.rnn, f"weight_hh_l{layer}") == 0
        gradient = getattr(stack.rnn, f"weight_hh_l{layer}").grad
        assert (gradient[zeros] == 0).all()
        assert gradient[~zeros].any()
    again = stack.eval()(x, stack.begin(x))[0]
    assert torch.equal(again, stack.run(stack.rnn, x, None, None)[0])


def test_locked_dropout_between_layers_has_one_mask_for_all_steps() -> None:
    torch.manual_seed(6)
    stack = Stack("gru", INPUTS, DIM, layers=2, dropout=0.5, locked=True)
    seen: list[Tensor] = []
    stack.between.register_forward_hook(lambda _, inputs, out: seen.append(out / inputs[0]))
    x = torch.randn(3, 4, INPUTS)
    stack(x, stack.begin(x))
    assert set(seen[0].detach().round(decimals=4).unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(seen[0], seen[0][:, :1].expand_as(seen[0]))


def test_an_unknown_kind_is_named_with_those_there_are() -> None:
    for build in (lambda: Cell("gnu", 2, 2), lambda: Encoder("gnu", 2, 2), lambda: Stack("gnu", 2, 2, layers=1)):
        with pytest.raises(ValueError, match="unknown recurrent cell 'gnu'; there are rnn, gru, lstm"):
            build()


def walk(
    rnn: nn.RNNBase, kind: str, x: Tensor, state: list[Tensor], *, layers: int, bidirectional: bool
) -> tuple[Tensor, dict[str, dict[str, Tensor]]]:
    """One row x (T, E), step by step by the equations: states (T, D), and the gates (T, dim) of each layer."""
    gates: dict[str, dict[str, Tensor]] = {}
    for layer in range(layers):
        outs = []
        for end in ("", "_reverse") if bidirectional else ("",):
            name = f"l{layer}{end}"
            weights = [getattr(rnn, f"{one}_{name}") for one in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            hidden, carried = (part[layer] for part in (state * 2)[:2])
            out, seen = [], []
            for now in x.flip(0) if end else x:
                of_x, of_state = weights[0] @ now + weights[2], weights[1] @ hidden + weights[3]
                if kind == "lstm":
                    i, f, g, o = (of_x + of_state).chunk(4)
                    i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
                    carried = f * carried + i * g.tanh()
                    hidden = o * carried.tanh()
                    seen.append({"input": i, "forget": f, "output": o})
                else:
                    (r, z, n), (reset, update, new) = of_x.chunk(3), of_state.chunk(3)
                    r, z = (r + reset).sigmoid(), (z + update).sigmoid()
                    hidden = (1 - z) * (n + r * new).tanh() + z * hidden
                    seen.append({"reset": r, "update": z})
                out.append(hidden)
            order = slice(None, None, -1 if end else 1)
            outs.append(torch.stack(out[order]))
            gates[name] = {one: torch.stack([step[one] for step in seen[order]]) for one in seen[0]}
        x = torch.cat(outs, -1)
    return x, gates


@pytest.mark.parametrize("kind", GATED)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [True, False])
@torch.no_grad()
def test_an_encoders_gates_are_those_of_its_equations(kind: str, layers: int, bidirectional: bool) -> None:
    """In the order of the sentence in both directions, 0 at padding; the output does not change by a bit."""
    torch.manual_seed(5)
    encoder = Encoder(kind, INPUTS, DIM, layers=layers, bidirectional=bidirectional).double()
    lengths = [3, 7, 1]
    x, mask = padded(lengths, 9)
    x = x.double().masked_fill(~mask[..., None], torch.nan)
    plain, ended = encoder(x, mask)
    with trace(encoder) as seen:
        states, last = encoder(x, mask)
    assert torch.equal(states, plain)
    assert all(map(torch.equal, last, ended))
    assert seen.sites == sites_of(encoder) == encoder.sites
    zero = [torch.zeros(layers, DIM, dtype=torch.float64)] * 2
    for row, length in enumerate(lengths):
        wanted, gates = walk(encoder.rnn, kind, x[row, :length], zero, layers=layers, bidirectional=bidirectional)
        torch.testing.assert_close(states[row, :length], wanted, rtol=1e-6, atol=1e-9)
        for site in encoder.sites:
            assert tuple(seen.kinds(site)) == gates_of(kind) == tuple(gates[site])
            for gate, values in gates[site].items():
                torch.testing.assert_close(seen[site, gate][row, :length], values, rtol=1e-6, atol=1e-9)
                assert not seen[site, gate][row, length:].any()


@pytest.mark.parametrize("kind", GATED)
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_a_stacks_gates_are_those_of_its_equations_at_once_and_step_by_step(kind: str, layers: int) -> None:
    torch.manual_seed(6)
    stack = Stack(kind, INPUTS, DIM, layers=layers).double()
    x = torch.randn(2, 5, INPUTS, dtype=torch.float64)
    first = tuple(torch.randn(2, layers, DIM, dtype=torch.float64).tanh() for _ in stack.begin(x))
    plain, _ = stack(x, first)
    with trace(stack) as seen:
        out, _ = stack(x, first)
    assert torch.equal(out, plain)
    with trace(stack) as steps:
        state = first
        for now in x.split(1, 1):
            _, state = stack(now, state)
    for row in range(2):
        _, gates = walk(stack.rnn, kind, x[row], [part[row] for part in first], layers=layers, bidirectional=False)
        for site in stack.sites:
            for gate, values in gates[site].items():
                torch.testing.assert_close(seen[site, gate][row], values, rtol=1e-6, atol=1e-9)
                torch.testing.assert_close(steps[site, gate][row], values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", GATED)
@torch.no_grad()
def test_a_cells_gates_add_up_over_its_steps(kind: str) -> None:
    torch.manual_seed(7)
    cell, stack = Cell(kind, INPUTS, DIM), Stack(kind, INPUTS, DIM, layers=1)
    for ours, theirs in zip(cell.parameters(), (0, 2, 1, 3), strict=True):
        list(stack.rnn.parameters())[theirs].copy_(ours)
    x = torch.randn(3, 4, INPUTS)
    state = tuple(part[:, 0] for part in stack.begin(x))
    with trace(cell) as seen, trace(stack) as wanted:
        for ahead in cell.input(x).unbind(1):
            state = cell(ahead, state)
        stack(x, stack.begin(x))
    for gate in gates_of(kind):
        assert seen["", gate].shape == (3, 4, DIM)
        torch.testing.assert_close(seen["", gate], wanted["l0", gate], rtol=1e-5, atol=1e-6)


def test_only_what_is_watched_is_recorded_and_nothing_random_is_drawn() -> None:
    torch.manual_seed(8)
    stack = Stack("gru", INPUTS, DIM, layers=3, dropout=0.5)
    x = torch.randn(2, 4, INPUTS)
    stack.train()
    torch.manual_seed(9)
    plain, _ = stack(x, stack.begin(x))
    torch.manual_seed(9)
    with trace(stack, "l1") as seen:
        out, _ = stack(x, stack.begin(x))
    assert torch.equal(out, plain)
    assert seen.sites == ["l1"]
    assert not seen["l1", "update"].requires_grad
    assert out.requires_grad


@pytest.mark.parametrize("build", [Cell, Encoder, lambda *sizes: Stack(*sizes, layers=2)])
def test_a_plain_rnn_has_no_gates_and_is_no_site(build: Any) -> None:
    layer = build("rnn", 2, 2)
    assert sites_of(layer) == []
    with pytest.raises(NoAttention, match="this model has no attention"), trace(layer):
        pass


def test_sites_have_no_weights_of_their_own() -> None:
    assert list(Encoder("lstm", 2, 2, layers=2).state_dict()) == [
        f"rnn.{name}" for name, _ in nn.LSTM(2, 2, 2, bidirectional=True).named_parameters()
    ]


@pytest.mark.parametrize(("kind", "gate"), [("gru", "update"), ("lstm", "forget")])
@torch.no_grad()
def test_chrono_initialisation_keeps_states_for_one_to_t_steps(kind: str, gate: str) -> None:
    """A gate f keeps a state for about 1 / (1 - f) steps: uniform in [2, T] over the units."""
    torch.manual_seed(10)
    encoder = Encoder(kind, INPUTS, 500, layers=2, chrono_steps=100)
    for parameter in (p for name, p in encoder.named_parameters() if "weight" in name):
        parameter.zero_()
    x, mask = padded([3], 3)
    with trace(encoder) as seen:
        encoder(x, mask)
    for site in encoder.sites:
        lasting = 1 / (1 - seen[site, gate][0, 1])
        assert lasting.min() >= 2 - 1e-3
        assert lasting.max() <= 100 + 1e-2
        assert 45 < lasting.mean() < 57
        if kind == "lstm":
            torch.testing.assert_close(seen[site, "input"], 1 - seen[site, "forget"])
    plain = Encoder("rnn", INPUTS, 4, chrono_steps=100)
    assert sites_of(plain) == []


@torch.no_grad()
def test_a_compiled_layer_is_traced_by_a_second_pass() -> None:
    torch.manual_seed(11)
    encoder = Encoder("lstm", INPUTS, DIM, layers=2).eval()
    x, mask = padded([3, 5], 5)
    with trace(encoder) as wanted:
        encoder(x, mask)
    compiled = torch.compile(encoder, backend="eager")
    with trace(compiled) as seen:
        compiled(x, mask)
    assert seen.sites == wanted.sites
    assert torch.equal(seen["l1_reverse", "forget"], wanted["l1_reverse", "forget"])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_sync_the_same_is_read(kind: str, bidirectional: bool, device: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(kind, INPUTS, DIM, layers=2, bidirectional=bidirectional).to(device, torch.float64)
    x = torch.randn(3, 6, INPUTS, dtype=torch.float64, device=device)
    mask = torch.arange(6, device=device) < torch.tensor([[4], [6], [1]], device=device)
    with torch.inference_mode():
        states, last = encoder(x, mask)
        with syncing_never():
            mine, mine_last = encoder(x, mask)
    torch.testing.assert_close(mine, states)
    torch.testing.assert_close(mine_last, last)


def test_without_a_sync_an_empty_row_has_the_first_state() -> None:
    encoder = Encoder("lstm", INPUTS, DIM, bidirectional=False)
    with torch.inference_mode(), syncing_never():
        states, last = encoder(torch.randn(2, 3, INPUTS), torch.tensor([[True, True, False], [False] * 3]))
    assert not states[1].any()
    assert all(part[0].any() and not part[1].any() for part in last)


@gpu
def test_weights_in_bfloat16_are_laid_out_for_cudnn() -> None:
    encoder = Encoder("lstm", INPUTS, DIM).cuda().bfloat16()
    x, mask = torch.randn(2, 3, INPUTS).cuda().bfloat16(), torch.ones(2, 3, dtype=torch.bool).cuda()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error")  # "weights are not part of single contiguous chunk of memory"
        encoder(x, mask)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("kind", KINDS)
def test_under_autocast_torchs_layers_run_in_float32(kind: str, device: str) -> None:
    """cuDNN's would run in float16."""
    torch.manual_seed(0)
    encoder, stack = Encoder(kind, INPUTS, DIM).to(device), Stack(kind, INPUTS, DIM, layers=2).to(device)
    x = torch.randn(2, 4, INPUTS, device=device)
    mask = torch.tensor([[True] * 4, [True, True, False, False]], device=device)
    for read in (
        lambda: encoder(x, mask),
        lambda: stack(x, stack.begin(x)),
        lambda: run_layer(kind, x, tuple(x.new_zeros(1, 2, DIM) for _ in range(2)), stack.weights(0), True),
    ):
        states, last = read()
        with torch.autocast(device, torch.bfloat16):
            rounded, ends = read()
        torch.testing.assert_close(rounded, states.bfloat16())
        torch.testing.assert_close(tuple(ends), tuple(part.bfloat16() for part in last))
