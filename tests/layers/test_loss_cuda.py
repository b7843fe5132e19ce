"""The loss of logits by a kernel, against torch's in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F

from regard.layers import loss

INTERPRETED = loss.loss_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
SIZES = [(1, 1, 1), (3, 5, 8), (7, 4097, 4160), (2, 64, 64), pytest.param((513, 50257, 50304), marks=GPU)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_loss_and_gradient_are_those_of_float64(
    size: tuple[int, int, int], masked: bool, smoothing: float, dtype: torch.dtype, device: str
) -> None:
    """With a wide spread, words that do not exist, and rows that do not count."""
    rows, words, width = size
    logits = (8 * torch.randn(rows, width)).to(dtype)
    logits[:, words:] = -1e4
    target = torch.randint(words, (rows,))
    real = torch.rand(rows) < 0.6 if masked else None
    exact = logits[:, :words].double().requires_grad_()
    logs = exact.log_softmax(-1)
    wanted = logs.gather(1, target[:, None])[:, 0] if real is None else logs.gather(1, target[:, None])[:, 0] * real
    mean = logs.mean(-1) if real is None else logs.mean(-1) * real
    (-(1 - smoothing) * wanted.sum() - smoothing * mean.sum()).backward()
    for learn in (False, True):
        given = logs_of = logits.to(device, copy=True)
        place = None if real is None else real.to(device)
        found, all_words = loss.loss_cuda.losses_(given, target.to(device), place, words, smoothing, learn=learn)
        torch.testing.assert_close(found.cpu().double(), wanted.detach(), rtol=1e-5, atol=2e-5)
        assert (all_words is None) == (smoothing == 0)
        if all_words is not None:
            torch.testing.assert_close(all_words.cpu().double(), mean.detach(), rtol=1e-5, atol=2e-5)
        if not learn:
            assert torch.equal(logs_of.cpu(), logits)
    slack = 1e-5 if dtype == torch.float32 else 4e-3
    torch.testing.assert_close(given[:, :words].cpu().double(), exact.grad, rtol=slack, atol=slack)
    assert not given[:, words:].any()


@GPU
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_on_a_gpu_a_models_loss_takes_it(half: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several chunks, and as without the kernel."""
    monkeypatch.setattr(loss, "ROWS", 64)
    monkeypatch.setattr(loss, "ROOM", 1 << 14)
    states, weight, bias = torch.randn(5, 60, 32).cuda(), torch.randn(203, 32).cuda(), torch.randn(203).cuda()
    target, mask = torch.randint(203, (5, 60)).cuda(), (torch.rand(5, 60) < 0.7).cuda()
    found = []
    for kernel in (loss.loss_cuda, None):
        monkeypatch.setattr(loss, "loss_cuda", kernel)
        sides = [x.clone().requires_grad_() for x in (states, weight, bias)]
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            total, likelihoods = loss.token_loss(*sides, target, mask, label_smoothing=smoothing, fixed_shapes=True)
        found.append([total, likelihoods, *torch.autograd.grad(total, sides)])
    logits = (states @ weight.T + bias)[mask]
    plain = F.cross_entropy(logits, target[mask], reduction="sum", label_smoothing=smoothing)
    slack = 2e-2 if half else 1e-4
    torch.testing.assert_close(found[0][0], plain, rtol=slack, atol=slack)
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(mine, its, rtol=slack, atol=slack * float(its.detach().abs().max()))
