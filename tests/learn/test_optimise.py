import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.learn.checkpoint import fill_optimiser, optimiser_tensors
from regard.learn.optimise import build_optimiser, rate_at
from regard.learn.settings import Training
from regard.models.senet import Excite


def rates(settings, steps, **options):
    return [rate_at(step, settings, **options) for step in steps]


def test_constant_rises_over_the_warmup_and_stays():
    settings = Training(steps=100, learning_rate=0.4, warmup_steps=4)
    assert rates(settings, [1, 2, 3, 4, 5, 100]) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert rate_at(1, Training(steps=100, learning_rate=0.4)) == 0.4


def test_cosine_worked_by_hand():
    settings = Training(steps=110, learning_rate=2.0, schedule="cosine", warmup_steps=10, min_lr_ratio=0.1)
    assert rates(settings, [5, 10, 60, 110]) == pytest.approx([1.0, 2.0, 1.1, 0.2])
    settings = Training(steps=6, learning_rate=1.0, schedule="cosine")
    # (1 + cos) / 2 at 60, 120 and 180 degrees
    assert rates(settings, [2, 4, 6, 7]) == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-12)


def test_inverse_root_has_its_peak_at_the_warmup():
    settings = Training(steps=1000, learning_rate=0.5, schedule="inverse_root", warmup_steps=100)
    assert rates(settings, [50, 100, 400, 900]) == pytest.approx([0.25, 0.5, 0.25, 0.5 / 3])
    without = Training(steps=10, learning_rate=0.5, schedule="inverse_root")
    assert rates(without, [1, 4]) == pytest.approx([0.5, 0.25])


def test_plateau_scale_lowers_the_plateau_schedule_only():
    assert rate_at(5, Training(steps=9, learning_rate=1.0, schedule="plateau"), 0.25) == 0.25
    assert rate_at(1, Training(steps=9, learning_rate=1.0, schedule="plateau", warmup_steps=2), 0.5) == 0.25
    assert rate_at(5, Training(steps=9, learning_rate=1.0), 0.25) == 1.0


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 3))


@pytest.mark.parametrize(("name", "plain"), [("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_steps_are_those_of_torch_and_do_not_ask_for_its_compiler(name, plain, monkeypatch):
    settings = Training(steps=3, learning_rate=0.1, optimiser=name, weight_decay=0.01, momentum=0.9)
    model, other = small(), small()
    ours = build_optimiser(model, settings)
    groups = [{**ours.defaults, **group, "params": []} for group in ours.param_groups]
    for group, own in zip(groups, ours.param_groups, strict=True):
        places = [at for at, p in enumerate(model.parameters()) if any(p is one for one in own["params"])]
        group["params"] = [list(other.parameters())[at] for at in places]
    theirs = plain(groups, lr=0.1)
    assert isinstance(ours, plain)

    def steps(trained, optimiser):
        for token in range(3):
            optimiser.zero_grad()
            trained(torch.tensor([token])).square().sum().backward()
            optimiser.step()
        return optimiser.state_dict()

    wanted = steps(other, theirs)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch._dynamo", None)  # importing it is an error
        found = steps(model, ours)
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert str(found["state"]) == str(wanted["state"])
    ours.load_state_dict(wanted)


def test_weight_decay_pulls_on_matrices_only():
    model = small()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = build_optimiser(model, Training(steps=1, learning_rate=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for name, parameter in model.named_parameters():
        share = 1 - 0.1 * 0.5 if parameter.dim() >= 2 else 1.0
        assert torch.allclose(parameter, before[name] * share), name


def test_weight_decay_leaves_modules_alone_that_say_so():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), Excite(8, 2))
    decayed, free = build_optimiser(model, Training(steps=1, weight_decay=0.5)).param_groups
    assert [id(p) for p in decayed["params"]] == [id(model[0].weight)]
    assert decayed["weight_decay"] == 0.5
    assert free["weight_decay"] == 0
    assert len(free["params"]) == 5  # a bias of the convolution, two weights and two biases of the gates


def test_adamw_and_sgd_first_steps_by_hand():
    for settings, moves in [
        # Adam's first step is rate * sign(gradient) up to epsilon; constant gradients keep it so.
        (Training(steps=1, learning_rate=0.1), [0.1, 0.1]),
        (Training(steps=1, learning_rate=0.1, optimiser="sgd"), [0.4, 0.4]),
        (Training(steps=1, learning_rate=0.1, optimiser="sgd", momentum=0.5), [0.4, 0.6]),
    ]:
        model = nn.Linear(1, 1, bias=False)
        optimiser = build_optimiser(model, settings)
        for move in moves:
            before = model.weight.item()
            model.weight.grad = torch.full((1, 1), 4.0)
            optimiser.step()
            assert before - model.weight.item() == pytest.approx(move, rel=1e-4)


def test_frozen_parameters_are_left_out():
    model = small()
    model[0].weight.requires_grad_(False)
    held = {id(p) for group in build_optimiser(model, Training(steps=1)).param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()} - {id(model[0].weight)}
    with pytest.raises(ValueError, match="nothing to train"):
        build_optimiser(model.requires_grad_(False), Training(steps=1))


def steps_of(model, optimiser, numbers):
    for number in numbers:
        torch.manual_seed(number)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimiser.step()
    return [p.detach().clone() for p in model.parameters()]


def test_adamw_is_fused_on_a_cpu_and_takes_the_steps_of_the_plain_one():
    settings = Training(steps=20, learning_rate=0.01, weight_decay=0.1)
    model, other = small(), small()
    fused, plain = build_optimiser(model, settings), build_optimiser(other, settings)
    assert all(group["fused"] for group in fused.param_groups)
    for group in plain.param_groups:
        group["fused"] = None
    for ours, torchs in zip(steps_of(model, fused, range(8)), steps_of(other, plain, range(8)), strict=True):
        assert torch.allclose(ours, torchs, atol=1e-6)


def test_a_checkpoint_of_the_plain_adamw_goes_on_in_the_fused_one():
    settings = Training(steps=20, learning_rate=0.01, weight_decay=0.1)
    model, other = small(), small()
    plain, fused = build_optimiser(model, settings), build_optimiser(other, settings)
    for group in plain.param_groups:
        group["fused"] = None
    steps_of(model, plain, range(4))
    other.load_state_dict(model.state_dict())
    tensors = {n: x.clone() for n, x in optimiser_tensors(dict(model.named_parameters()), plain).items()}
    fill_optimiser(dict(other.named_parameters()), fused, tensors, source=Path("checkpoint"))
    assert all(group["fused"] for group in fused.param_groups)
    for ours, torchs in zip(steps_of(other, fused, range(4, 8)), steps_of(model, plain, range(4, 8)), strict=True):
        assert torch.allclose(ours, torchs, atol=1e-6)


def test_complex_weights_are_trained_without_the_fused_kernel():
    model = nn.Linear(2, 1, bias=False, dtype=torch.complex64)
    optimiser = build_optimiser(model, Training(steps=1, learning_rate=0.1))
    before = model.weight.detach().clone()
    steps_of(model, optimiser, [0])
    assert not torch.equal(model.weight, before)
