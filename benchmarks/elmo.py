"""ELMo's bidirectional language model at the sizes of the recipe wikitext2-elmo, compared with the same network in
plain PyTorch: vectors of all layers, and a training step.

    python benchmarks/elmo.py [SECONDS]      # prints a Markdown table

plain    every word of a batch is read as 50 characters, as in the published code; the LSTMs are torch's with a
         projection where nothing is clipped, else a loop over the words for each direction and layer; the backward
         direction reads each row turned round; the softmax is a Linear and torch's cross_entropy.
regard   a batch spells each distinct word once, as far as the longest of them; both directions run in one loop, or
         in torch's LSTM on a GPU where nothing is clipped; the logits are not stored.

Sentences are made up, with the lengths of WikiText-2's and words by Zipf's law, spelled at random. Both ways have
the same batches, in memory before the clock runs. `run`: the states of all layers, in eval mode without gradients.
`train`: forward, backward, clipping and AdamW; regard's step is that of `regard train`. `clipped`: cells and
projections are clipped at 3, as in the published networks. log p of all sentences is compared first, with the same
weights. `times` is the time of `plain` divided by that of the way. Each way runs in its own processes, in turns;
the better of two counts.

CPU: float32 and one thread; the CPU time of the fastest pass counts, which other programs disturb least. GPU:
float32, with TF32 in cuDNN only; median wall-clock time of a pass. With SECONDS each way has one turn and no
measurement begins after so many. On a shared machine only the ratio is meaningful."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from measuring import DEVICE, FOREVER, GPU, compared, machine, measured, print_row, start, take_turns, timed_passes
from torch import Tensor, nn

LONG = 2.0 if GPU else 6.0  # seconds that a measurement should take
VOCABULARY, FIRST_WORD = 30000, 4  # words come after the special tokens
TOKENS, BATCHES = (8192, 4) if GPU else (1024, 2)
RATE, CLIP, DROPOUT = 1e-3, 1.0, 0.5
CHARACTERS, MOST = 262, 50
EMBED, DIM, CELL, LAYERS = 16, 256, 1024, 2
WIDTHS, FILTERS = (1, 2, 3, 4, 5, 6, 7), (32, 32, 64, 128, 256, 512, 1024)
CLIPS = {"free": 0.0, "clipped": 3.0}
WAYS = ("regard", "plain")


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
    from regard.data.text.sentence_data import SentenceData
    from regard.data.text.special_tokens import REGARD

    data = SentenceData(
        made_up(2000), special=REGARD, length=100, batch_tokens=TOKENS, seed=0, widest=max(WIDTHS), most=MOST
    )
    return [data.batch(rows).to(DEVICE) for rows in data.order(0)[:BATCHES]]


def plain_batches() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Characters (B, T, 50), mask (B, T) and the ids of the words (B, T) of the same batches."""
    from regard.data.text.characters import FILL

    batches = []
    for batch in our_batches():
        every = F.pad(batch.characters, (0, MOST - batch.characters.shape[1]), value=FILL)[batch.places]
        batches.append((every.masked_fill(~batch.mask[..., None], 0), batch.mask, batch.words))
    return batches


# ---- the networks


def ours(clip: float, dropout: float) -> Any:
    from regard.models.elmo.model import ELMo, ELMoConfig

    return ELMo(
        ELMoConfig(
            VOCABULARY,
            character_dim=EMBED,
            widths=WIDTHS,
            filters=FILTERS,
            dim=DIM,
            cell=CELL,
            layers=LAYERS,
            cell_clip=clip,
            projection_clip=clip,
            dropout=dropout,
        )
    )


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


def difference(clip: float) -> float:
    """Of the loss of a batch from regard's, with the same weights, as a share of it."""
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # what is timed runs in other processes
    mine, peer = ours(clip, 0.0).to(DEVICE).eval(), Plain(clip, 0.0).to(DEVICE).eval()
    for theirs, tensor in zip(peer.state_dict().values(), mine.state_dict().values(), strict=True):
        assert theirs.shape == tensor.shape
        theirs.copy_(tensor)
    with torch.no_grad():
        right, loss = peer.loss(*plain_batches()[0]), mine.loss(our_batches()[0]).total
    return float((loss - right).abs() / right)


# ---- what is timed

Pass = Callable[[], Tensor]


def run_of(clip: float, way: str) -> Pass:
    if way == "regard":
        model, batches = ours(clip, DROPOUT).to(DEVICE).eval(), our_batches()
        calls = [lambda batch=batch: model.states_of_layers(batch) for batch in batches]
    else:
        plain = Plain(clip, DROPOUT).to(DEVICE).eval()
        calls = [lambda parts=parts: plain.layers(*parts[:2])[-1] for parts in plain_batches()]

    def run() -> Tensor:
        with torch.inference_mode():
            return [call() for call in calls][-1]

    return run


def training_of(clip: float, way: str) -> Pass:
    return our_training(clip) if way == "regard" else plain_training(clip)


def our_training(clip: float) -> Pass:
    from regard.layers.onednn import without_onednn
    from regard.learn.loop import Stepper
    from regard.learn.settings import Training

    settings = Training(steps=10**6, learning_rate=RATE, max_grad_norm=CLIP, precision="float32", device=DEVICE)
    stepper, batches = Stepper(ours(clip, DROPOUT), settings), our_batches()

    def train() -> Tensor:
        with nullcontext() if GPU else without_onednn(stepper.model):  # as `fit` does it
            return [stepper.step(1, [batch], RATE)["loss"] for batch in batches][-1]

    return train


def plain_training(clip: float) -> Pass:
    model, batches = Plain(clip, DROPOUT).to(DEVICE).train(), plain_batches()
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0, fused=GPU or None)

    def train() -> Tensor:
        for parts in batches:
            optimiser.zero_grad()
            loss = model.loss(*parts) / (2 * parts[1][:, 1:].sum())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
        return loss.detach()

    return train


def measure(until: str, way: str) -> dict[str, dict[str, float]]:
    """The numbers of one way, under "clips|work|way"."""
    torch.set_num_threads(1)
    torch.zeros(8, device=DEVICE)  # start CUDA
    results: dict[str, dict[str, float]] = {}
    for name, clip in CLIPS.items():
        for work, make in (("run", run_of), ("train", training_of)):
            if time.time() > float(until):
                return results
            key = f"{name}|{work}|{way}"
            results[key] = measured(key, partial(make, clip, way), lambda call: timed_passes(call, BATCHES, LONG))
    return results


def table(results: dict[str, list[dict[str, Any]]]) -> None:
    for key, best, times in compared(results, CLIPS, WAYS, "plain"):
        seconds = best["seconds"]
        print_row([*key, f"{1000 * seconds:,.1f}", f"{TOKENS / seconds:,.0f}", times], best)


def main(seconds: float) -> None:
    end = time.time() + seconds if seconds else FOREVER
    torch.set_num_threads(1)
    command = " ".join(["python benchmarks/elmo.py", *sys.argv[1:]])
    where = torch.cuda.get_device_name() if GPU else "CPU, CPU time of one thread"
    print(
        f"{where}, float32, {machine()}, {BATCHES} batches of {TOKENS:,} words, seed 0, `{command}`\n", flush=True
    )
    for name, clip in CLIPS.items():
        off = difference(clip)
        print(f"{name}: the loss differs by {off:.1e} of it", file=sys.stderr, flush=True)
        assert off < 1e-4, "they do not compute the same"
    peak = " peak MiB |" if GPU else ""
    print(f"| clips | work | way | ms a batch | words/s | times | first |{peak}")
    print("|---" * (8 if GPU else 7) + "|")
    table(take_turns(__file__, WAYS, str(end), turns=1 if seconds else 2))


if __name__ == "__main__":
    start(measure, main, words=2, default=0.0)
