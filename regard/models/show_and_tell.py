"""Show and tell: a neural image caption generator (Vinyals, Toshev, Bengio & Erhan 2015).

    x_{-1} = norm(W CNN(I))                            the image is the first input of the LSTM, and seen only once
    s_t = LSTM(s_{t-1}, x_t),  x_t = E y_t             from zeros; y_0 is the start token
    p(y_{t+1}) = softmax(W_o s_t)

No attention: the caption is written from one vector. CNN(I) is the mean over the places of the grid, as before the
classes of a ResNet. Differences: the network is a ResNet or an Inception with squeeze-and-excitation, where the
paper has GoogLeNet with batch normalisation, trained on ImageNet; W CNN(I) is batch-normalised, since the means of
two images differ little and the LSTM would long take them for the same; dropout acts on the inputs and on what the
output layer reads; no ensemble.

No step depends on a look, so teacher forcing runs all steps at once."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention import Look
from regard.base.shared_batch import rows_of_all
from regard.layers.encoder_decoder import check_tied
from regard.layers.recurrent import CellState, Stack
from regard.layers.state import State
from regard.models.captioner import CaptionerConfig, ImageCaptioner


@dataclass(frozen=True)
class ShowAndTellConfig(CaptionerConfig):
    """The settings of a ShowAndTell."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tied(self, width="decoder")

    @property
    def min_batch(self) -> int:
        """Images of a training batch: the vector of a single image has no batch statistics."""
        return 2


class ShowAndTell(ImageCaptioner):
    """A captioner without attention: the image is one fixed vector."""

    paper = "Vinyals, Toshev, Bengio & Erhan 2015, Show and tell: a neural image caption generator"
    Config = ShowAndTellConfig
    alignment = ""  # no attention

    def __init__(self, config: ShowAndTellConfig):
        super().__init__(config, width=config.decoder)
        self.image = nn.Linear(self.eye.width, config.embed)
        self.norm = nn.BatchNorm1d(config.embed)
        self.lstm = Stack("lstm", config.embed, config.decoder, layers=1)

    def begin(self, places: Tensor) -> tuple[Tensor, CellState]:
        """places (B, places, D) -> x_{-1} (B, embed) and the LSTM's state after reading it (B, 1, decoder)"""
        if self.training and rows_of_all(places.shape[0]) == 1:
            raise ValueError(
                "batch normalisation cannot learn from one image: use larger batches (data.batch_size)"
            )
        seen = self.norm(self.image(places.mean(1)))
        _, state = self.lstm(self.dropout(seen)[:, None], self.lstm.begin(seen))
        return seen, state

    def run(self, target: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """The LSTM over words (B, T): its states (B, T, decoder) and the final state"""
        states, state = self.lstm(self.dropout(self.target_embed(target)), state)
        return self.dropout(states), state

    def decode(self, target: Tensor, seen: Tensor, state: CellState) -> tuple[Tensor, list[Look]]:
        """Teacher forcing: target (B, T), already shifted right -> states (B, T, decoder) and no looks"""
        return self.run(target, state)[0], []

    def start(self, images: Tensor, mask: Tensor | None = None) -> State:
        """Read the images (B, C, H, W); `step` writes the captions."""
        return State(*self.encode(images))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (N,) -> logits (N, V) of the next ones"""
        states, rows = self.run(tokens[:, None], state.rows)
        return self.out(states[:, 0]), State(state.memory, rows, state.width)
