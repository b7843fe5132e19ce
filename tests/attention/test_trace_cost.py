"""What a trace costs, counted on shapes alone: GPT-2 124M reads 4,096 tokens, of which two heads of one layer are
traced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import trace
from regard.models.gpt2 import GPT2, GPT2Config

TOKENS, HEADS = 4096, [1, 7]


class Made(TorchDispatchMode):
    """The sizes of all new tensors, and how many there are of each."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: Counter[int] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(x.untyped_storage()) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for x in tree_leaves(result):
            if isinstance(x, Tensor) and not func.is_view and id(x.untyped_storage()) not in given:
                self.sizes[x.numel() * x.element_size()] += 1
        return result


def read(traced: bool) -> tuple[int, Counter[int]]:
    """Operations and new tensors of a forward pass."""
    with torch.device("meta"):
        model = GPT2(GPT2Config(50257, **{**GPT2.SIZES["small"], "max_positions": TOKENS})).eval()
        tokens = torch.zeros(1, TOKENS, dtype=torch.long)
        with torch.no_grad(), Made() as made, FlopCounterMode(display=False) as counted:
            if traced:
                with trace(model, "blocks.5.attend", heads=HEADS) as seen:
                    model.states(tokens)
            else:
                model.states(tokens)
        if traced:
            assert seen["blocks.5.attend"].shape == (1, len(HEADS), TOKENS, TOKENS)
    return counted.get_total_flops(), made.sizes


def test_two_heads_of_one_layer_cost_a_hundredth_and_no_scores_of_the_others_are_kept() -> None:
    plain, before = read(False)
    traced, after = read(True)
    dim = GPT2.SIZES["small"]["dim"] // GPT2.SIZES["small"]["heads"]
    assert traced - plain == 2 * len(HEADS) * TOKENS**2 * dim
    assert traced - plain < 0.01 * plain
    more = after - before
    pairs = TOKENS**2
    assert max(more) <= 4 * len(HEADS) * pairs  # float32 of these two heads
    assert sum(size * count for size, count in more.items()) < 48 * pairs
