"""A training step of every model that can be captured asks the host for nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from small_models import batch, each, fresh
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from regard.layers.host_syncs import HostSyncs, NotCapturable, noting_syncs
from regard.layers.replay import syncing_never
from regard.learn.ppo import passes
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models.protocols import Player

READ = (Tensor.tolist, Tensor.cpu, Tensor.numpy, torch.tensor, torch.as_tensor, torch.from_numpy)


class NoReading(TorchFunctionMode):
    """What copies from or to the host, if the tensors are on a GPU; on the CPU it is no operation of its own."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READ:
            raise NotCapturable(str(func))
        if func is torch.nn.functional.one_hot:  # on a GPU it does not look whether the classes are in range
            with _disable_current_modes():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextmanager
def asking_nothing() -> Iterator[None]:
    with syncing_never(), NoReading(), HostSyncs(refuse=True, of_cpu=True):
        yield


def can_be_captured(config: Any) -> bool:
    return getattr(config, "head", "") != "none" and getattr(config, "can_capture", True)


@each(only=can_be_captured)
def test_a_training_step_asks_the_host_for_nothing(name: str, variant: str) -> None:
    model = fresh(name, variant)
    settings = Training(steps=2, device="cpu", **({"ppo_passes": 2} if isinstance(model, Player) else {}))
    stepper, examples = Stepper(model, settings, passes=passes(model, settings)), batch(model)
    stepper.step(1, [examples], 1e-3)  # what is made once
    ready = list(stepper._seeded(2, [examples]))
    with asking_nothing():
        numbers = stepper._change(ready)
    assert numbers["loss"].isfinite()


@pytest.mark.parametrize("name", ["transformer"])
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_the_loss_is_one_graph_for_the_compiler(name: str) -> None:
    torch._dynamo.reset()
    model = fresh(name, layers=1).train()
    examples = batch(model)
    compiled = torch.compile(model.loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(examples).total, model.loss(examples).total)


def test_what_asks_the_host_is_named_with_its_line() -> None:
    """And nothing else: what a mask selects, but not places by number."""
    x, mask = torch.arange(6.0), torch.arange(6) > 2
    with HostSyncs(of_cpu=True) as seen:
        assert x[mask].sum().item() == 12
        x[torch.tensor([1, 2])] = 3.0
        torch.where(mask, x, 0.0).sum()
        x[mask] = 0.0
        x[mask] = x[:3].clone()
        torch.repeat_interleave(x, torch.tensor([1, 2, 1, 1, 1, 1]), output_size=7)
    names = [each.partition(" in ")[0] for each in seen.found]
    assert names == ["aten.index.Tensor", "aten._local_scalar_dense.default", "aten.index_put_.default"]
    assert all("test_host_syncs.py, line " in each for each in seen.found)


def test_warnings_of_a_watched_step_are_told_again() -> None:
    with pytest.warns(UserWarning, match="slow"), noting_syncs(compiled=False) as found:
        warnings.warn("slow", stacklevel=1)
    assert found == []
