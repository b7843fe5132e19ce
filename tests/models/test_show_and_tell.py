"""Vinyals 2015 against its equations, with torch's LSTMCell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.models.show_and_tell import ShowAndTell, ShowAndTellConfig

VARIANTS: dict[str, dict[str, Any]] = {
    "finer grid": {"stage": 0},
    "large": {"stem": "large", "shortcut": "project", "block": "bottleneck", "tied": True},
}


@torch.no_grad()
def test_the_image_is_the_first_input_and_seen_once() -> None:
    torch.manual_seed(0)
    config = ShowAndTellConfig(9, depths=(1, 1), widths=(4, 6), embed=5, decoder=7, image_size=6)
    model = ShowAndTell(config).double()
    for number in model.norm.state_dict().values():
        if number.is_floating_point():
            number.uniform_(0.5, 2)  # statistics as of a training
    model.eval()
    images = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    target = torch.tensor([[1, 7, 6, 4], [1, 3, 2, 2]])
    cell = nn.LSTMCell(5, 7).double()
    cell.load_state_dict({name.removesuffix("_l0"): x for name, x in model.lstm.rnn.state_dict().items()})
    seen, norm = model.image(model.eye.features(images).mean((2, 3))), model.norm
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # type: ignore[operator]
    state = cell((seen - norm.running_mean) * scale + norm.bias)  # from zeros
    wanted = []
    for words in target.T:
        state = cell(model.target_embed.weight[words], state)
        wanted.append(state[0] @ model.out.weight.T + model.out.bias)
    torch.testing.assert_close(model(images, target), torch.stack(wanted, 1))


def test_one_image_alone_cannot_be_learned_from() -> None:
    """Its vector has no statistics."""
    model = ShowAndTell(ShowAndTellConfig(9, depths=(1,), widths=(4,), embed=5, decoder=7, image_size=6))
    words = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"use larger batches \(data\.batch_size\)"):
        model(torch.randn(1, 3, 6, 6), words)
    assert model.eval()(torch.randn(1, 3, 6, 6), words).shape == (1, 3, 9)
