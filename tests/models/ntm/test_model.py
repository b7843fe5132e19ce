"""Neural Turing machines: the equations step by step, steps and whole sequences, traces, and that they learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.made.sequences import BitBatch
from regard.errors import BadInput
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models.ntm.bit_lstm import BitLSTM, BitLSTMConfig
from regard.models.ntm.model import NTM, NTMConfig

VARIANTS = {"feedforward": {"controller": "feedforward"}, "one head": {"heads": 1, "shift": 2}}
TINY: dict[str, Any] = {"inputs": 5, "outputs": 4, "dim": 6, "heads": 2, "places": 7, "width": 3}


def machine(**changes: Any) -> NTM:
    """In float64, with heads that differ."""
    torch.manual_seed(0)
    model = NTM(NTMConfig(**TINY | changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def copying(length: int, rows: int, seed: int) -> BitBatch:
    bits = torch.rand(rows, length, 4, generator=torch.Generator().manual_seed(seed)).round()
    inputs, targets = torch.zeros(rows, 2 * length + 1, 5), torch.zeros(rows, 2 * length + 1, 4)
    inputs[:, :length, :4], inputs[:, length, 4], targets[:, length + 1 :] = bits, 1, bits
    return BitBatch(inputs, targets, (torch.arange(2 * length + 1) > length).expand(rows, -1))


def graves(model: NTM, inputs: Tensor) -> Tensor:
    """The logits of one sequence (T, I), head by head."""
    config, memory = model.config, model.memory
    heads, width, reach = config.heads, config.width, config.shift
    matrix = torch.full((config.places, width), 1e-6, dtype=torch.float64)
    weights = [logits.softmax(0) for logits in memory.start]
    hidden = cells = torch.zeros(config.dim, dtype=torch.float64)
    reads, found = [torch.zeros(width, dtype=torch.float64)] * heads, []
    for x in inputs:
        seen = torch.cat([x, *reads])
        if config.controller == "lstm":
            gates = model.cell.input(seen) + model.cell.hidden(hidden)
            i, f, new, o = gates.chunk(4)
            cells = f.sigmoid() * cells + i.sigmoid() * new.tanh()
            hidden = o.sigmoid() * cells.tanh()
        else:
            hidden = model.layer(seen).tanh()
        bent, opened, positive, moves = memory.numbers(hidden).split(memory.sizes)
        keys, add = bent.tanh().view(-1, width).split((2 * heads, heads))
        erase, gates = opened.sigmoid().split((heads * width, 2 * heads))
        beta, gamma = torch.nn.functional.softplus(positive).chunk(2)
        for h in range(2 * heads):
            cosines = torch.stack([keys[h] @ place / (keys[h].norm() * place.norm()) for place in matrix])
            gated = gates[h] * (beta[h] * cosines).softmax(0) + (1 - gates[h]) * weights[h]
            shift = moves.view(2 * heads, -1)[h].softmax(0)
            moved = sum(gated.roll(move) * shift[move + reach] for move in range(-reach, reach + 1))
            sharp = moved ** (1 + gamma[h])
            weights[h] = sharp / sharp.sum()
        for h in range(heads):
            matrix = matrix * (1 - torch.outer(weights[heads + h], erase.view(heads, -1)[h]))
        for h in range(heads):
            matrix = matrix + torch.outer(weights[heads + h], add[h])
        reads = [weights[h] @ matrix for h in range(heads)]
        found.append(model.out(torch.cat([hidden, *reads])))
    return torch.stack(found)


@pytest.mark.parametrize("changes", [{}, *VARIANTS.values()], ids=["lstm", *VARIANTS])
def test_it_is_graves_equations(changes: dict[str, Any]) -> None:
    model, batch = machine(**changes), copying(2, 2, 1)
    ours = model(batch.inputs)
    theirs = torch.stack([graves(model, row.double()) for row in batch.inputs])
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    sides = [torch.autograd.grad(one.square().sum(), list(model.parameters())) for one in (ours, theirs)]
    for (name, _), one, two in zip(model.named_parameters(), *sides, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.parametrize(
    "model", [machine(), machine(controller="feedforward"), BitLSTM(BitLSTMConfig(5, 4, 6, 2))]
)
@torch.no_grad()
def test_steps_are_as_a_whole_sequence(model: Any) -> None:
    inputs = torch.rand(3, 6, 5, dtype=model.out.weight.dtype)
    state, whole = model.begin(3), model(inputs)
    for now in range(6):
        logits, state = model.step(inputs[:, now], state)
        torch.testing.assert_close(logits, whole[:, now])


def test_the_loss_is_of_the_wanted_bits() -> None:
    model, batch = machine(), copying(2, 3, 1)
    loss = model.loss(batch)
    chances = model(batch.inputs).sigmoid()[:, 3:]
    right = torch.where(batch.targets[:, 3:] > 0, chances, 1 - chances)
    torch.testing.assert_close(loss.likelihood.double(), right.log().sum((1, 2)).detach(), rtol=1e-5, atol=1e-5)
    assert loss.total.item() == pytest.approx(-loss.likelihood.sum().item())
    assert loss.tokens.item() == 3 * 2 * 4


@torch.no_grad()
def test_a_trace_sees_all_heads_and_the_memory() -> None:
    model, inputs = machine(), torch.rand(2, 6, 5).double()
    plain = model(inputs)
    with trace(model, model.alignment) as seen:
        assert torch.equal(model(inputs), plain)
    weights, matrix = seen[model.alignment], seen[model.alignment, "memory"]
    assert weights.shape == (2, 4, 6, 7)
    assert matrix.shape == (2, 6, 7, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6).double())
    state = model.begin(2)
    for now in range(6):
        _, state = model.step(inputs[:, now], state)
        torch.testing.assert_close(weights[:, :, now], state.memory.weights)
        torch.testing.assert_close(matrix[:, now], state.memory.matrix)
    with trace(model, model.alignment, heads=[3], rows=[0, 4]) as some:
        model(inputs)
    assert torch.equal(some[model.alignment], weights[:, [3]][:, :, [0, 4]])
    assert len(seen.picture([str(i) for i in range(6)], [str(i) for i in range(7)]).panels) == 1


def test_a_shift_beyond_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="shift must be below places, which is 4, got 4"):
        NTMConfig(places=4, shift=4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_step_is_as_an_eager_one() -> None:
    losses = []
    for capture in (False, True):
        model = machine().float().train()
        stepper = Stepper(model, Training(steps=8, capture=capture, device="cuda"))
        found = [stepper.step(step, [copying(3, 8, step).to("cuda")], 1e-2)["loss"] for step in range(1, 9)]
        losses.append(torch.stack(found))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)


def test_it_learns_to_copy() -> None:
    """Two vectors of four bits."""
    torch.manual_seed(1)
    model = NTM(NTMConfig(inputs=5, outputs=4, controller="feedforward", dim=24, places=8, width=8))
    stepper = Stepper(model, Training(steps=125, device="cpu"))
    for step in range(1, 126):
        stepper.step(step, [copying(2, 16, step)], 2e-2)
    test = copying(2, 64, 10_000)
    wrong = (model(test.inputs) > 0) != test.targets.bool()
    assert wrong[test.mask].float().mean().item() < 0.05


@pytest.mark.parametrize("shape", [(2, 0, 5), (2, 3, 4), (3, 5)])
def test_sequences_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """None of no steps either."""
    for model in (NTM(NTMConfig(**TINY)), BitLSTM(BitLSTMConfig(inputs=5, outputs=4, dim=6, layers=1))):
        with pytest.raises(BadInput, match=r"shape \(batch, steps, 5\) with at least 1 step, got \(\d") as told:
            model(torch.zeros(shape))
        assert str(shape) in str(told.value)
