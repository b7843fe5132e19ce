"""float64 means float64: no operation of a model in float64 gives float32, forward or backward."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from small_models import batch, build, each, rows
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models.snail.agent import SNAILAgent

DRAWS = (torch.ops.aten.rand.default,)  # a coin may be tossed in any precision


class OnlyFloat64(TorchDispatchMode):
    """AssertionError at the first operation whose result has less precision."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = op(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            less = isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64
            assert not less or op in DRAWS, f"{op} gave {x.dtype}"
        return out


def double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


@each(learns=True)
def test_a_model_in_float64_computes_in_float64(name: str, variant: str) -> None:
    model = build(name, variant).double()
    whole = rows(model)
    whole = dataclasses.replace(whole, inputs={key: double(x) for key, x in whole.inputs.items()})
    with OnlyFloat64(), torch.no_grad():
        whole.answers(model)
    if getattr(model.config, "head", "") == "none":
        return
    examples = batch(model)
    if isinstance(model, SNAILAgent):
        examples = model.experience(examples)  # the environments have a precision of their own
    with OnlyFloat64():
        objective(model.train().loss(examples.each(double)), Training(steps=1)).backward()
