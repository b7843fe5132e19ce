"""Vinyals 2015 against its equations, with torch's LSTMCell."""

from __future__ import annotations

from typing import Any

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
    model = ShowAndTell(config).double().eval()
    images = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    target = torch.tensor([[1, 7, 6, 4], [1, 3, 2, 2]])
    cell = nn.LSTMCell(5, 7).double()
    cell.load_state_dict({name.removesuffix("_l0"): x for name, x in model.lstm.rnn.state_dict().items()})
    state = cell(model.image(model.eye.features(images).mean((2, 3))))  # from zeros
    wanted = []
    for words in target.T:
        state = cell(model.target_embed.weight[words], state)
        wanted.append(state[0] @ model.out.weight.T + model.out.bias)
    torch.testing.assert_close(model(images, target), torch.stack(wanted, 1))
