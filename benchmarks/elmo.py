"""ELMo's bidirectional language model at the sizes of the recipe wikitext2-elmo, compared with the same network in
plain PyTorch: vectors of all layers, and a training step.

plain    every word of a batch is read as 50 characters, as in the published code; the LSTMs are torch's with a
         projection where nothing is clipped, else a loop over the words for each direction and layer; the backward
         direction reads each row turned round; the softmax is a Linear and torch's cross_entropy.
regard   a batch spells each distinct word once, as far as the longest of them; both directions run in one loop, or
         in torch's LSTM on a GPU where nothing is clipped; the logits are not stored.

Sentences are made up, with the lengths of WikiText-2's and words by Zipf's law, spelled at random. Both ways have
the same batches, in memory before the clock runs. `run`: the states of all layers, in eval mode without gradients.
`train`: forward, backward, clipping and AdamW; regard's step is that of `regard train`. `clipped`: cells and
projections are clipped at 3, as in the published networks. log p of all sentences is compared first, with the same
weights. float32, on a GPU with TF32 in cuDNN only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, row
from benchmarks.shared import adamw, our_step, plain_step, take_weights
from regard.data.text.characters import FILL
from regard.data.text.sentence_data import SentenceData
from regard.data.text.special_tokens import REGARD
from regard.models.elmo.model import ELMo, ELMoConfig

VOCABULARY, FIRST_WORD = 30000, 4  # words come after the special tokens
RATE, CLIP, DROPOUT = 1e-3, 1.0, 0.5
CHARACTERS, MOST = 262, 50
EMBED, DIM, CELL, LAYERS = 16, 256, 1024, 2
WIDTHS, FILTERS = (1, 2, 3, 4, 5, 6, 7), (32, 32, 64, 128, 256, 512, 1024)
CLIPS = {"free": 0.0, "clipped": 3.0}


def amounts() -> tuple[int, int]:
    """Words of a batch, and batches."""
    return bench.pick((64, 1), (1024, 2), (8192, 4))


# ---- sentences


def made_up(count: int) -> list[tuple[list[int], list[str]]]:
    """Sentences of about 24 words, and words of about 6 letters."""
    dice = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    spelled = ["".join(dice.choice(letters, 1 + dice.poisson(5))) + str(word) for word in range(VOCABULARY)]
    chances = 1 / np.arange(1, VOCABULARY - FIRST_WORD + 1)
    chances /= chances.sum()
    lengths = np.maximum(1, dice.lognormal(np.log(21), 0.5, count).round()).astype(int)
    rows = [(FIRST_WORD + dice.choice(len(chances), length, p=chances)).tolist() for length in lengths]
    return [(row, [spelled[word] for word in row]) for row in rows]


def our_batches() -> list[Any]:
    """As `regard train` makes them."""
    tokens, count = amounts()
    data = SentenceData(
        made_up(bench.pick(20, 2000)), special=REGARD, length=100, batch_tokens=tokens, seed=0, widest=max(WIDTHS),
        most=MOST,
    )  # fmt: skip
    return [data.batch(rows).to(bench.device) for rows in data.order(0)[:count]]


def plain_batches() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Characters (B, T, 50), mask (B, T) and the ids of the words (B, T) of the same batches."""
    batches = []
    for batch in our_batches():
        every = F.pad(batch.characters, (0, MOST - batch.characters.shape[1]), value=FILL)[batch.places]
        batches.append((every.masked_fill(~batch.mask[..., None], 0), batch.mask, batch.words))
    return batches


# ---- the networks


def ours(clip: float, dropout: float) -> Any:
    sizes: dict[str, Any] = {"character_dim": EMBED, "widths": WIDTHS, "filters": FILTERS, "dim": DIM, "cell": CELL}
    clips = {"cell_clip": clip, "projection_clip": clip}
    return ELMo(ELMoConfig(VOCABULARY, layers=LAYERS, dropout=dropout, **sizes, **clips))


class Highway(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class Plain(nn.Module):
    """The network as it is often written, with regard's order of weights."""

    def __init__(self, clip: float, dropout: float):
        super().__init__()
        self.clip, self.dropout = clip, nn.Dropout(dropout)
        self.embed = nn.Embedding(CHARACTERS, EMBED, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(EMBED, *sizes) for sizes in zip(FILTERS, WIDTHS, strict=True))
        self.highway = Highway(sum(FILTERS))
        self.project = nn.Linear(sum(FILTERS), DIM)
        self.lstms = nn.ModuleList(nn.LSTM(DIM, CELL, batch_first=True, proj_size=DIM) for _ in range(2 * LAYERS))
        self.out = nn.Linear(DIM, VOCABULARY)

    def words(self, characters: Tensor) -> Tensor:
        x = self.embed(characters.flatten(0, 1)).transpose(1, 2)
        pooled = [torch.relu(convolution(x)).max(-1).values for convolution in self.convolutions]
        return self.project(self.highway(torch.cat(pooled, -1))).unflatten(0, characters.shape[:2])

    def layers(self, characters: Tensor, mask: Tensor) -> list[Tensor]:
        words = self.words(characters)
        layers, lengths = [torch.cat([words, words], -1)], mask.sum(1)
        forward, backward = words, turned(words, lengths)
        for layer in range(LAYERS):
            reader, back_reader = self.lstms[2 * layer], self.lstms[2 * layer + 1]
            first, second = self.read(reader, self.dropout(forward)), self.read(back_reader, self.dropout(backward))
            forward, backward = (first + forward, second + backward) if layer else (first, second)
            layers.append(torch.cat([forward, turned(backward, lengths)], -1))
        return layers

    def read(self, lstm: nn.Module, x: Tensor) -> Tensor:
        if not self.clip:
            return lstm(x)[0]
        hidden, cell = x.new_zeros(len(x), DIM), x.new_zeros(len(x), CELL)
        states = []
        for step in x.unbind(1):
            gates = F.linear(step, lstm.weight_ih_l0, lstm.bias_ih_l0)
            i, f, g, o = (gates + F.linear(hidden, lstm.weight_hh_l0, lstm.bias_hh_l0)).chunk(4, -1)
            cell = (f.sigmoid() * cell + i.sigmoid() * g.tanh()).clamp(-self.clip, self.clip)
            hidden = F.linear(o.sigmoid() * cell.tanh(), lstm.weight_hr_l0).clamp(-self.clip, self.clip)
            states.append(hidden)
        return torch.stack(states, 1)

    def loss(self, characters: Tensor, mask: Tensor, words: Tensor) -> Tensor:
        forward, backward = self.dropout(self.layers(characters, mask)[-1]).chunk(2, -1)
        real = mask[:, 1:]
        total = F.cross_entropy(self.out(forward[:, :-1][real]), words[:, 1:][real], reduction="sum")
        return total + F.cross_entropy(self.out(backward[:, 1:][real]), words[:, :-1][real], reduction="sum")


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row read from its last word; padding stays behind."""
    places = torch.arange(x.shape[1], device=x.device)
    order = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return x.gather(1, order[..., None].expand_as(x))


def check_same(clip: float) -> None:
    """The loss of a batch is regard's, with the same weights."""
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    mine, peer = ours(clip, 0.0).to(bench.device).eval(), Plain(clip, 0.0).to(bench.device).eval()
    with torch.no_grad():
        take_weights(peer, mine)
        right, loss = peer.loss(*plain_batches()[0]), mine.loss(our_batches()[0]).total
    assert (loss - right).abs() < 1e-4 * right, f"they do not compute the same: {loss} and {right}"
    torch.backends.cudnn.allow_tf32 = before


# ---- what is timed


def our_run(clip: float) -> Call:
    model, batches = ours(clip, DROPOUT).to(bench.device).eval(), our_batches()
    return torch.inference_mode()(lambda: [model.states_of_layers(batch) for batch in batches][-1])


def plain_run(clip: float) -> Call:
    model, batches = Plain(clip, DROPOUT).to(bench.device).eval(), plain_batches()
    return torch.inference_mode()(lambda: [model.layers(*parts[:2])[-1] for parts in batches][-1])


def our_training(clip: float) -> Call:
    return our_step(ours(clip, DROPOUT), our_batches(), RATE, max_grad_norm=CLIP, precision="float32")


def plain_training(clip: float) -> Call:
    model = Plain(clip, DROPOUT).to(bench.device).train()
    losses = [lambda parts=parts: model.loss(*parts) / (2 * parts[1][:, 1:].sum()) for parts in plain_batches()]
    return plain_step(losses, adamw(model, RATE), clip=CLIP)


@row("elmo", "ELMo's language model: vectors of all layers, and a training step", unit="words", threads=1)
def elmo() -> Iterator[Case]:
    tokens, batches = amounts()
    for name, clip in CLIPS.items():
        check_same(clip)
        for work, mine, plain in (("run", our_run, plain_run), ("train", our_training, plain_training)):
            contenders = {"regard": partial(mine, clip), "plain": partial(plain, clip)}
            yield Case(f"{name}, {work}", tokens * batches, contenders)
