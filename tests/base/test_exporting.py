"""What torch.compile traces is not taken for an export."""

import torch
from torch import Tensor, nn

from regard.base.exporting import exporting


class Either(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if exporting() else x - 1


def test_only_an_export_is_one() -> None:
    x = torch.zeros(2)
    assert torch.compile(Either(), backend="eager", fullgraph=True)(x).tolist() == [-1, -1]
    assert torch.export.export(Either(), (x,)).module()(x).tolist() == [1, 1]
    assert Either()(x).tolist() == [-1, -1]
