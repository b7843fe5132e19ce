"""Convolution, normalisation and ReLU in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.convolution import Convolution


@pytest.fixture
def many_places() -> Iterator[Tensor]:
    """Enough of them to fold the normalisation into the weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield torch.randn(8, 3, 33, 33)


def trained(kernel: int, stride: int, relu: bool) -> Convolution:
    """With statistics, scales and biases that are not those of a new layer."""
    layer = Convolution(3, 4, kernel, stride=stride, relu=relu).double()
    for tensor in (layer.norm.weight, layer.norm.bias, layer.norm.running_mean, layer.norm.running_var):
        assert tensor is not None
        nn.init.uniform_(tensor, 0.5, 2)
    return layer.eval()


@pytest.mark.parametrize(("kernel", "stride", "relu"), [(1, 1, True), (3, 2, False), (7, 2, True)])
def test_a_folded_normalisation_gives_the_same_states(
    kernel: int, stride: int, relu: bool, many_places: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = trained(kernel, stride, relu), many_places.double()
    right = layer.norm(layer.filter(x))
    with torch.inference_mode(), monkeypatch.context() as patch:
        patch.setattr(layer.norm, "forward", lambda _: pytest.fail("not folded"))
        found = layer(x)
    torch.testing.assert_close(found, F.relu(right) if relu else right, atol=1e-12, rtol=1e-12)


def test_few_places_are_not_folded(many_places: Tensor) -> None:
    """There it would take longer."""
    layer, x = trained(3, 1, False), many_places[:1, :, :5, :5].double()
    with torch.inference_mode():
        assert torch.equal(layer(x), layer.norm(layer.filter(x)))


def test_training_and_gradients_in_eval_mode_are_those_of_the_parts(many_places: Tensor) -> None:
    for training in (True, False):
        layer, x = trained(3, 1, True).train(training), many_places.double()
        layer(x).square().sum().backward()
        found = [parameter.grad for parameter in layer.parameters()]
        layer.zero_grad()
        F.relu(layer.norm(layer.filter(x))).square().sum().backward()
        for gradient, parameter in zip(found, layer.parameters(), strict=True):
            assert gradient is not None
            torch.testing.assert_close(gradient, parameter.grad)


def test_statistics_move_in_training_mode_without_gradients(many_places: Tensor) -> None:
    layer = trained(3, 1, True).train()
    before = layer.norm.running_mean.clone()  # type: ignore[union-attr]
    with torch.no_grad():
        layer(many_places.double())
    assert not torch.equal(layer.norm.running_mean, before)  # type: ignore[arg-type]


@pytest.mark.parametrize("relu", [True, False])
def test_pooled_states_are_those_of_the_parts(relu: bool, many_places: Tensor) -> None:
    for training in (True, False):
        layer, x = trained(3, 1, relu).train(training), many_places.double()
        found, right = layer.pooled(x), F.max_pool2d(F.relu(layer.norm(layer.filter(x))), 2)
        torch.testing.assert_close(found, right, atol=1e-12, rtol=1e-12)
