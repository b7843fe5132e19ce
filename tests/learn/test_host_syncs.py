"""A training step of every model that can be captured asks the host for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from small_models import batch, each, fresh
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from regard.layers.host_syncs import HostSyncs, NotCapturable
from regard.layers.replay import syncing_never
from regard.learn.loop import Stepper
from regard.learn.ppo import passes
from regard.learn.settings import Training
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
