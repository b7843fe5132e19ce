"""Labels of the examples that are most like the query: what a few-shot learner has to beat."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.functional import attention


def coarse(images: Tensor, side: int) -> Tensor:
    """The means of side x side squares, without the image's brightness and contrast: (N, C, H, W) -> (N, C side^2)

    Small shifts matter less in squares than in pixels, and a dark shirt is like a bright one."""
    squares = F.adaptive_avg_pool2d(images, side).flatten(1)
    return F.normalize(squares - squares.mean(1, keepdim=True), dim=1)


class NearestExamples(nn.Module):
    """logits = g sum_i softmax_i(s x . x_i) one-hot label_i      (matching networks, Vinyals et al. 2016)

    x: a vector of the query, x_i those of the examples, of length 1. It learns how much likeness counts (s) and how
    much all of this does (g)."""

    def __init__(self) -> None:
        super().__init__()
        self.logs = nn.Parameter(torch.tensor([math.log(10.0), math.log(3.0)]))  # of s and g

    def forward(self, vectors: Tensor, one_hot: Tensor) -> Tensor:
        """Vectors (E, S + Q, D), and the labels of the first (E, S, ways) -> (E, Q, ways)"""
        sharpness, gain = self.logs.exp().unbind()
        examples, queries = vectors.tensor_split([one_hot.shape[1]], 1)
        return gain * attention(sharpness * queries, examples, one_hot, score="dot")
