"""Captioners: a training step and captioning with a beam of 5, compared with the same models written in plain
PyTorch with `nn.LSTMCell` in a Python loop.

Images of 128 x 128, a ResNet-18 with squeeze-and-excitation up to its third stage as the eye (8 x 8 places, 256
channels, padded shortcuts), 5,000 words, embeddings of 256, an LSTM of 512, captions of 10 to 14 tokens. Random
weights; with the same weights the logits, the loss and the captions of each pair are compared first. `train`:
forward, backward, clipping and AdamW, by the step of `regard train`, on a GPU in bfloat16 by autocast; in `train,
frozen eye` only the decoder learns, as in the papers. `beam 5`: from images to 12 tokens each, in float32; the end
token is forbidden, since random weights do not end a caption. The plain models compute keys once, and logits once
for all steps; their beams are rows with copies of the image's states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, note, row
from benchmarks.senet import BOTH, RATE, Block
from benchmarks.shared import CAPTURED, adamw, our_step, plain_step, take_weights
from regard.data.images.caption_batches import CaptionBatch
from regard.decode.rules import Target
from regard.decode.search import decode
from regard.decode.settings import Decoding
from regard.learn.reinforce import objective
from regard.learn.settings import Training
from regard.models import MODELS

WORDS, EMBED, DIM, SIDE, LENGTH, BEAM = 5000, 256, 512, 128, 12, 5
EYE: dict[str, Any] = {
    "block": "basic", "depths": (2, 2, 2), "widths": (64, 128, 256), "stem": "large", "shortcut": "pad",
    "reduction": 16,
}  # fmt: skip
PAD, START, END = range(3)


class Eye(nn.Module):
    """A ResNet as it is often written, with regard's order of weights: images -> places (B, L, C)."""

    def __init__(self) -> None:
        super().__init__()
        inside = EYE["widths"][0]
        self.conv, self.norm = nn.Conv2d(3, inside, 7, 2, 3, bias=False), nn.BatchNorm2d(inside)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks = []
        for stage, (depth, width) in enumerate(zip(EYE["depths"], EYE["widths"], strict=True)):
            for place in range(depth):
                stride = 2 if stage and not place else 1
                blocks.append(Block(inside, width, width, stride, EYE["reduction"], True))
                inside = width
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.blocks(self.pool(F.relu(self.norm(self.conv(images)))))
        return features.flatten(2).transpose(1, 2)


class Plain(nn.Module):
    """What both captioners share. A state is a tuple of tensors with a row for each caption."""

    def __init__(self, width: int, dropout: float, frozen: bool):
        super().__init__()
        self.embed, self.eye, self.fc = nn.Embedding(WORDS, EMBED), Eye(), nn.Linear(width, WORDS)
        self.dropout = nn.Dropout(dropout)
        self.frozen = frozen
        if frozen:
            self.eye.requires_grad_(False)

    def train(self, mode: bool = True) -> Plain:
        super().train(mode)
        if self.frozen:
            self.eye.eval()
        return self

    def places(self, images: Tensor) -> Tensor:
        with torch.no_grad() if self.frozen else nullcontext():
            return self.eye(images)


class PlainShowAndTell(Plain):
    def __init__(self, dropout: float = 0.1, frozen: bool = False):
        super().__init__(DIM, dropout, frozen)
        self.image, self.norm = nn.Linear(EYE["widths"][-1], EMBED), nn.BatchNorm1d(EMBED)
        self.cell = nn.LSTMCell(EMBED, DIM)

    def start(self, images: Tensor) -> tuple[Tensor, ...]:
        return self.cell(self.dropout(self.norm(self.image(self.places(images).mean(1)))))

    def step(self, words: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        state = self.cell(self.dropout(self.embed(words)), state)
        return self.fc(self.dropout(state[0])), state

    def forward(self, images: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        state, states = self.start(images), []
        for embedded in self.dropout(self.embed(target)).unbind(1):
            state = self.cell(embedded, state)
            states.append(state[0])
        return self.fc(self.dropout(torch.stack(states, 1))), None


class PlainShowAttendTell(Plain):
    def __init__(self, dropout: float = 0.1, frozen: bool = False):
        super().__init__(EMBED, dropout, frozen)
        memory = EYE["widths"][-1]
        self.query, self.key = nn.Linear(DIM, DIM, bias=False), nn.Linear(memory, DIM, bias=False)
        self.v, self.beta = nn.Linear(DIM, 1, bias=False), nn.Linear(DIM, 1)
        self.first_hidden, self.first_cell = nn.Linear(memory, DIM), nn.Linear(memory, DIM)
        self.cell = nn.LSTMCell(EMBED + memory, DIM)
        self.out_hidden, self.out_read = nn.Linear(DIM, EMBED), nn.Linear(memory, EMBED, bias=False)

    def start(self, images: Tensor) -> tuple[Tensor, ...]:
        places = self.places(images)
        mean = places.mean(1)
        return places, self.key(places), self.first_hidden(mean).tanh(), self.first_cell(mean).tanh()

    def move(self, embedded: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        places, keys, hidden, cell = state
        scores = self.v(torch.tanh(keys + self.query(hidden)[:, None])).squeeze(-1)
        weights = scores.softmax(-1)
        read = (weights[..., None] * places).sum(1) * torch.sigmoid(self.beta(hidden))
        hidden, cell = self.cell(torch.cat([embedded, read], 1), (hidden, cell))
        return weights, read, (places, keys, hidden, cell)

    def read_out(self, embedded: Tensor, hidden: Tensor, read: Tensor) -> Tensor:
        return self.fc(self.dropout(embedded + self.out_hidden(self.dropout(hidden)) + self.out_read(read)))

    def step(self, words: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        embedded = self.dropout(self.embed(words))
        _, read, state = self.move(embedded, state)
        return self.read_out(embedded, state[2], read), state

    def forward(self, images: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        state, steps = self.start(images), []
        embedded = self.dropout(self.embed(target))
        for word in embedded.unbind(1):
            weights, read, state = self.move(word, state)
            steps.append((weights, read, state[2]))
        weights, reads, states = (torch.stack(each, 1) for each in zip(*steps, strict=True))
        return self.read_out(embedded, states, reads), weights


PLAIN = {"show_and_tell": PlainShowAndTell, "show_attend_tell": PlainShowAttendTell}


def plain_loss(model: Any, batch: Any) -> Tensor:
    """Per token, with the doubly stochastic penalty."""
    logits, weights = model(batch.images, batch.target[:, :-1])
    mask = batch.target_mask[:, 1:]
    right = batch.target[:, 1:].masked_fill(~mask, -100)
    total = F.cross_entropy(logits.float().flatten(0, 1), right.flatten(), reduction="sum")
    if weights is not None:
        total = total + (1 - (weights.float() * mask[..., None]).sum(1)).square().sum()
    return total / mask.sum()


@torch.inference_mode()
def plain_beam(model: Any, images: Tensor) -> Tensor:
    """The tokens (B, LENGTH) of the best of BEAM beams. All beams of an image are rows."""
    logits, state = model.step(images.new_full((len(images),), START, dtype=torch.long), model.start(images))
    state = tuple(part.repeat_interleave(BEAM, 0) for part in state)
    first = torch.arange(len(images), device=images.device)[:, None] * BEAM
    scores = images.new_zeros(len(images), 1)
    written = first.new_empty(len(images) * BEAM, 0)
    for length in range(LENGTH):
        if length:
            logits, state = model.step(written[:, -1], state)
        steps = logits.log_softmax(-1)
        steps[:, [PAD, START, END]] = -torch.inf
        scores, chosen = (scores[..., None] + steps.view(len(images), -1, WORDS)).flatten(1).topk(BEAM)
        rows = (first + chosen // WORDS).flatten()
        written = torch.cat([written[rows], (chosen % WORDS).view(-1, 1)], 1)
        state = tuple(part[rows] for part in state)
    return written.view(len(images), BEAM, LENGTH)[:, 0]


def ours(name: str, **settings: Any) -> Any:
    model: Any = MODELS[name]
    if name == "show_attend_tell":
        settings = {"penalty": 1.0, **settings}  # doubly stochastic, as in the paper
    return model(model.Config(vocabulary=WORDS, embed=EMBED, decoder=DIM, image_size=SIDE, **EYE, **settings))


def our_beam(model: Any, images: Tensor) -> Tensor:
    mask = torch.ones(len(images), 1, dtype=torch.bool, device=images.device)
    target = Target(START, END, max_length=LENGTH, min_length=LENGTH, never=(PAD, START))
    return torch.tensor([best.tokens for (best,) in decode(model, images, mask, Decoding(beam=BEAM), target)])


def give_weights(plain: Any, mine: Any) -> None:
    """Give a plain model the weights of regard's."""
    pairs = [(plain.embed, mine.target_embed), (plain.fc, mine.out)]
    if isinstance(plain, PlainShowAndTell):
        pairs += [(plain.image, mine.image), (plain.norm, mine.norm)]
        own = [getattr(mine.lstm.rnn, f"{part}_l0") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    else:
        score, cell = mine.attend.score, mine.cell
        pairs += [(plain.query, score.query_weight), (plain.key, score.key_weight), (plain.beta, mine.beta.out)]
        pairs += [(getattr(plain, part), getattr(mine, part)) for part in ("first_hidden", "first_cell")]
        pairs += [(getattr(plain, part), getattr(mine, part)) for part in ("out_hidden", "out_read")]
        plain.v.weight.data.copy_(score.v[None])
        inputs = torch.cat([cell.input.weight, mine.context.weight], 1)
        own = [inputs, cell.hidden.weight, cell.input.bias, cell.hidden.bias]
    for theirs, weight in zip(plain.cell.parameters(), own, strict=True):  # weights, then biases
        theirs.data.copy_(weight)
    for theirs, part in [*pairs, (plain.eye, mine.eye)]:
        take_weights(theirs, part)


def batch_of(images: int) -> CaptionBatch:
    torch.manual_seed(0)
    target = torch.randint(4, WORDS, (images, 15))
    target[:, 0] = START
    lengths = torch.randint(10, 15, (images, 1))
    lengths[0] = 14
    places = torch.arange(15)
    target[places == lengths] = END
    mask = places <= lengths
    batch = CaptionBatch(torch.randn(images, 3, SIDE, SIDE), target.masked_fill(~mask, PAD), mask)
    return batch.to(bench.device)


def check_same(name: str) -> None:
    """With the same weights: logits, the loss in training mode, and captions."""
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    mine, plain = ours(name, dropout=0.0).to(bench.device), PLAIN[name](dropout=0.0).to(bench.device)
    batch = batch_of(bench.pick(2, 8))
    with torch.no_grad():
        give_weights(plain, mine)
        loss = objective(mine.train().loss(batch), Training(steps=1))
        torch.testing.assert_close(loss, plain_loss(plain.train(), batch), rtol=1e-3, atol=1e-4)
        right = plain.eval()(batch.images, batch.target)[0]
        off = (mine.eval()(batch.images, batch.target) - right).abs().max() / right.abs().max()
    assert off < 1e-3, f"the two {name} are not the same model: logits are off by {off:.0e}"
    same = (our_beam(mine, batch.images) == plain_beam(plain, batch.images).cpu()).all(1)
    note(f"{name}: logits are off by {off:.0e}, {same.float().mean():.0%} of the captions are the same")
    torch.backends.cudnn.allow_tf32 = before


def our_training(name: str, images: int, way: dict[str, Any], **settings: Any) -> Call:
    model = ours(name, **settings)
    return our_step(model, [batch_of(images)], RATE, max_grad_norm=1.0, precision=bench.precision, **way)


def plain_training(name: str, images: int, compiled: bool, **settings: Any) -> Call:
    batch = batch_of(images)
    model = PLAIN[name](**settings).to(bench.device).train()
    if bench.gpu:
        model.eye.to(memory_format=torch.channels_last)
    call: Any = torch.compile(plain_loss) if compiled else plain_loss
    return plain_step([lambda: call(model, batch)], adamw(model, RATE), clip=1.0, half=bench.gpu)


def captioning(search: Callable[..., Tensor], make: Callable[[], Any], images: Tensor) -> Call:
    model = make().to(bench.device).eval()
    return lambda: search(model, images)


@row("captions", "Captioners train, also with a frozen eye, and write with a beam of 5", unit="images", threads=1)
def captions() -> Iterator[Case]:
    count = bench.pick(2, 16, 256)
    for name in PLAIN:
        check_same(name)
        for work, settings in (("train", {}), ("train, frozen eye", {"frozen": True})):
            ways: dict[str, dict[str, Any]] = {"regard": {}}
            if bench.gpu:
                ways |= {CAPTURED: {"capture": True}, "regard, compiled and captured": BOTH}
            contenders: dict[str, Callable[[], Call]] = {
                tool: partial(our_training, name, count, way, **settings) for tool, way in ways.items()
            }
            contenders["plain"] = partial(plain_training, name, count, False, **settings)
            if bench.gpu:
                contenders["plain, compiled"] = partial(plain_training, name, count, True, **settings)
            yield Case(f"{name}, {work}", count, contenders)
        images = batch_of(count).images
        contenders = {
            "regard": partial(captioning, our_beam, partial(ours, name), images),
            "plain": partial(captioning, plain_beam, PLAIN[name], images),
        }
        yield Case(f"{name}, beam {BEAM}", count, contenders)
