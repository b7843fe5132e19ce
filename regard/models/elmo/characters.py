"""A word's vector from its characters: convolutions and highway layers   (Kim et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """g relu(W x + b) + (1 - g) x, with the gate g = sigmoid(U x + c)   (Srivastava et al. 2015)

    c starts at -2, so that most of x passes at first."""

    def __init__(self, dim: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(dim, dim), nn.Linear(dim, dim)
        for linear, bias in ((self.transform, 0.0), (self.gate, -2.0)):
            nn.init.normal_(linear.weight, std=dim**-0.5)
            nn.init.constant_(linear.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self.transform(x).relu(), self.gate(x).sigmoid())


class CharacterCNN(nn.Module):
    """max over places of each filter, through an activation; highway layers; a projection to `dim`.

    `filters[i]` filters are `widths[i]` characters wide. Character 0 has the vector 0 and is not learned."""

    def __init__(
        self,
        characters: int,
        character_dim: int,
        *,
        widths: Sequence[int],
        filters: Sequence[int],
        highways: int,
        dim: int,
        activation: str = "relu",
    ):
        super().__init__()
        self.embed = nn.Embedding(characters, character_dim, padding_idx=0)
        convolutions = [
            nn.Conv1d(character_dim, count, width) for width, count in zip(widths, filters, strict=True)
        ]
        self.convolutions = nn.ModuleList(convolutions)
        self.activation = ACTIVATIONS[activation]
        total = sum(filters)
        self.highways = nn.Sequential(*(Highway(total) for _ in range(highways)))
        self.project = nn.Linear(total, dim)
        self._initialise(convolutions, activation)

    def _initialise(self, convolutions: list[nn.Conv1d], activation: str) -> None:
        """As the published code does."""
        nn.init.uniform_(self.embed.weight, -1, 1)
        with torch.no_grad():
            self.embed.weight[0].zero_()
        for convolution in convolutions:
            if activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolution.weight, std=convolution.weight[0].numel() ** -0.5)
            if convolution.bias is not None:
                nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
        nn.init.zeros_(self.project.bias)

    def forward(self, characters: Tensor) -> Tensor:
        """(.., C) -> (.., dim)"""
        x = self.embed(characters.flatten(0, -2)).transpose(1, 2)  # (N, D, C)
        # Both activations grow with their input, so the maximum may come first.
        highest = [convolution(x).amax(-1) for convolution in self.convolutions]
        words = self.activation(torch.cat(highest, -1))
        return self.project(self.highways(words)).view(*characters.shape[:-1], -1)
