"""Batch normalisation in eval mode and the end of a residual block as kernels, against torch's in float64: on a
GPU, or by Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import trace
from regard.layers import convolution
from regard.models.senet import ResidualBlock, SENet, SENetConfig

INTERPRETED = convolution.norm_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
SIZES = [
    (2, 5, 3, 4),
    (1, 80, 9, 9),
    pytest.param((64, 16, 64, 64), marks=GPU),
    pytest.param((7, 300, 5, 5), marks=GPU),
]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def settled(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels).eval()
    for x in (norm.weight, norm.running_var):
        nn.init.uniform_(x, 0.5, 2)
    for x in (norm.bias, norm.running_mean):
        nn.init.normal_(x)
    return norm


def close(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    torch.testing.assert_close(found.double().cpu(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_the_same_numbers(device: str, size: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    norm, last = settled(size[1]).to(dtype), torch.channels_last
    x, shortcut = (torch.randn(*size).to(dtype).contiguous(memory_format=last) for _ in range(2))
    gate = torch.rand(*size[:2]).to(dtype)
    wanted = norm.double()(x.double())
    norm, there = norm.to(dtype).to(device), x.to(device)
    y, _ = convolution.norm_cuda.normalise(there, norm, relu=True)
    close(y, wanted.relu(), dtype)
    y, means = convolution.norm_cuda.normalise(there, norm, means=True)
    close(y, wanted, dtype)
    close(means, wanted.mean((2, 3)), dtype)
    wanted = F.relu(x.double() * gate.double()[..., None, None] + shortcut.double())
    close(convolution.norm_cuda.join(there, gate.to(device), shortcut.to(device)), wanted, dtype)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device where the kernels are used."""
    if request.param == "cpu":
        monkeypatch.setattr(convolution.norm_cuda, "may_run", lambda x: not torch.is_grad_enabled())
    device: str = request.param
    return device


@pytest.mark.parametrize("block", ["basic", "inception"])
@torch.no_grad()
def test_a_network_answers_by_them(block: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = SENetConfig(labels=("a", "b"), depths=(1, 2), widths=(8, 16), block=block, shortcut="pad")
    model = SENet(config).eval()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.load_state_dict(settled(part.num_features).state_dict())
    images, wide = torch.randn(2, 3, 6, 6), copy.deepcopy(model).double()
    with trace(wide, "*excite") as seen:
        wanted = wide(images.double())
    gates = {site: seen[site, "gate"] for site in seen.sites}
    calls: list[Any] = []
    normalise = convolution.norm_cuda.normalise

    def counted(*given: Any, **options: Any) -> Any:
        calls.append(options)
        return normalise(*given, **options)

    monkeypatch.setattr(convolution.norm_cuda, "normalise", counted)
    with torch.backends.cudnn.flags(allow_tf32=False):
        close(model.to(device)(images.to(device)), wanted, torch.float32)
    assert any(call.get("means") for call in calls) == (block == "basic")
    assert calls
    with trace(model, "*excite") as seen:
        model(images.to(device))
    for site, gate in gates.items():
        close(seen[site, "gate"], gate, torch.float32)


@torch.no_grad()
def test_who_listens_to_a_part_hears_it(device: str) -> None:
    config = SENetConfig(labels=("a", "b"), depths=(1,), widths=(8,), block="basic", reduction=2)
    model, heard = SENet(config).eval().to(device), list[Any]()
    block = next(part for part in model.modules() if isinstance(part, ResidualBlock))
    assert block.excite is not None
    block.excite.register_forward_hook(lambda *given: heard.append(given))
    model(torch.randn(2, 3, 8, 8, device=device))
    assert heard
