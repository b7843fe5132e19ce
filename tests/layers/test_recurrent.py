"""Recurrent layers against torch's own cells, and padding that is never seen."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers.recurrent import Cell, Encoder, Stack

KINDS = ("gru", "lstm")
INPUTS, DIM = 5, 6


@pytest.mark.parametrize("kind", KINDS)
def test_the_cell_is_torchs_cell_in_value_and_gradient(kind: str) -> None:
    torch.manual_seed(0)
    ours = Cell(kind, INPUTS, DIM).double()
    theirs = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](INPUTS, DIM).double()
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.input.weight)
        theirs.bias_ih.copy_(ours.input.bias)
        theirs.weight_hh.copy_(ours.hidden.weight)
        theirs.bias_hh.copy_(ours.hidden.bias)
    x = torch.randn(4, 3, INPUTS, dtype=torch.float64)  # (N, T, E)
    first = torch.randn(2, 4, DIM, dtype=torch.float64).tanh()
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


def test_an_unknown_kind_is_named_with_those_there_are() -> None:
    for build in (lambda: Cell("rnn", 2, 2), lambda: Encoder("rnn", 2, 2), lambda: Stack("rnn", 2, 2, layers=1)):
        with pytest.raises(ValueError, match="unknown recurrent cell 'rnn'; there are gru, lstm"):
            build()
