"""Captioners: a training step and captioning with a beam of 5, compared with the same models written in plain
PyTorch with `nn.LSTMCell` in a Python loop.

    python benchmarks/captions.py [SECONDS]          # prints a Markdown table

Images of 128 x 128, a ResNet-18 with squeeze-and-excitation up to its third stage as the eye (8 x 8 places, 256
channels, padded shortcuts), 5,000 words, embeddings of 256, an LSTM of 512, captions of 10 to 14 tokens. Random
weights; with the same weights the logits, the loss and the captions of each pair are compared first. `train`:
forward, backward, clipping and AdamW, by the step of `regard train`; in `train, frozen eye` only the decoder
learns, as in the papers. `beam 5`: from images to 12 tokens each, in float32; the end token is forbidden, since
random weights do not end a caption. The plain models compute keys once, and logits once for all steps; their beams
are rows with copies of the image's states. Each tool runs in its own processes, in turns; the better of two counts.

CPU: float32 and one thread; the CPU time of the fastest call counts, which other programs disturb least.
GPU: training in bfloat16 by autocast; `first` has the seconds of the first calls, which compile and capture. With
SECONDS each tool has one turn, and no measurement begins after so many. On a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from measuring import (
    DEVICE,
    FIRST,
    FOREVER,
    GPU,
    Call,
    fastest_of,
    machine,
    measured,
    print_row,
    start,
    take_turns,
    times_of,
)
from senet import RATE, Block
from torch import Tensor, nn

WORDS, EMBED, DIM, SIDE, LENGTH, BEAM = 5000, 256, 512, 128, 12, 5
EYE: dict[str, Any] = {
    "block": "basic", "depths": (2, 2, 2), "widths": (64, 128, 256), "stem": "large", "shortcut": "pad",
    "reduction": 16,
}  # fmt: skip
IMAGES = 256 if GPU else 16  # in a batch
PAD, START, END = range(3)
BOTH = {"compile": True, "capture": True}
MODELS = ("show_and_tell", "show_attend_tell")


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
    from regard.models import MODELS as models

    model = models[name]
    if name == "show_attend_tell":
        settings = {"penalty": 1.0, **settings}  # doubly stochastic, as in the paper
    return model(model.Config(vocabulary=WORDS, embed=EMBED, decoder=DIM, image_size=SIDE, **EYE, **settings))


def our_beam(model: Any, images: Tensor) -> Tensor:
    from regard.decode.rules import Target
    from regard.decode.search import decode
    from regard.decode.settings import Decoding

    mask = torch.ones(len(images), 1, dtype=torch.bool, device=images.device)
    target = Target(START, END, max_length=LENGTH, min_length=LENGTH, never=(PAD, START))
    return torch.tensor([best.tokens for (best,) in decode(model, images, mask, Decoding(beam=BEAM), target)])


def take_weights(plain: Any, mine: Any) -> None:
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
        for tensor, weight in zip(theirs.state_dict().values(), part.state_dict().values(), strict=True):
            tensor.copy_(weight)


def batch_of(images: int) -> Any:
    from regard.data.images.caption_batches import CaptionBatch

    torch.manual_seed(0)
    target = torch.randint(4, WORDS, (images, 15))
    target[:, 0] = START
    lengths = torch.randint(10, 15, (images, 1))
    lengths[0] = 14
    places = torch.arange(15)
    target[places == lengths] = END
    mask = places <= lengths
    return CaptionBatch(torch.randn(images, 3, SIDE, SIDE), target.masked_fill(~mask, PAD), mask).to(DEVICE)


def differences(name: str) -> tuple[float, float, float]:
    """With the same weights: the largest difference of a logit as a share of the largest, that of the loss in
    training mode, and the share of the captions that are the same."""
    from regard.learn.reinforce import objective
    from regard.learn.settings import Training

    torch.backends.cudnn.allow_tf32 = False  # what is timed runs in other processes
    torch.manual_seed(0)
    mine, plain = ours(name, dropout=0.0).to(DEVICE), PLAIN[name](dropout=0.0).to(DEVICE)
    take_weights(plain, mine)
    batch = batch_of(8)
    with torch.no_grad():
        loss = objective(mine.train().loss(batch), Training(steps=1))
        costs = float(loss), float(plain_loss(plain.train(), batch))
        right = plain.eval()(batch.images, batch.target)[0]
        off = (mine.eval()(batch.images, batch.target) - right).abs().max() / right.abs().max()
    same = (our_beam(mine, batch.images) == plain_beam(plain, batch.images).cpu()).all(1)
    return float(off), abs(costs[0] - costs[1]) / costs[1], float(same.float().mean())


def our_training(name: str, way: dict[str, Any], **settings: Any) -> Call:
    from regard.layers.onednn import without_onednn
    from regard.learn.loop import Stepper
    from regard.learn.settings import Training

    batch = batch_of(IMAGES)
    precision = "bfloat16" if GPU else "float32"
    stepper = Stepper(
        ours(name, **settings),
        Training(steps=10**6, learning_rate=RATE, max_grad_norm=1.0, precision=precision, device=DEVICE, **way),
    )

    def step() -> Tensor:
        with nullcontext() if GPU else without_onednn(stepper.model):  # as `fit` does it
            return stepper.step(1, [batch], RATE)["loss"]

    return step


def plain_training(name: str, compiled: bool, **settings: Any) -> Call:
    batch = batch_of(IMAGES)
    model: Any = PLAIN[name](**settings).to(DEVICE).train()
    if GPU:
        model.eye.to(memory_format=torch.channels_last)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, RATE, weight_decay=0.0, fused=GPU or None)
    call: Any = torch.compile(plain_loss) if compiled else plain_loss

    def step() -> Tensor:
        optimiser.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=GPU):
            loss = call(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        return loss.detach()

    return step


def works(tool: str, name: str) -> Iterator[tuple[str, str, Callable[[], Call]]]:
    """(work, way, what makes the call) of one process."""
    images = batch_of(IMAGES).images
    regards = tool.startswith("regard")
    for work, settings in (("train", {}), ("train, frozen eye", {"frozen": True})):
        if not regards:
            yield work, tool, partial(plain_training, name, "compiled" in tool, **settings)
        elif "compiled" in tool:
            yield work, f"{tool} and captured", partial(our_training, name, BOTH, **settings)
        else:
            yield work, tool, partial(our_training, name, {}, **settings)
            if GPU:
                yield work, f"{tool}, captured", partial(our_training, name, {"capture": True}, **settings)
    if "compiled" in tool:
        return
    search, make = (our_beam, ours) if regards else (plain_beam, lambda name: PLAIN[name]())

    def captioning() -> Call:
        model = make(name).to(DEVICE).eval()
        return lambda: search(model, images)

    yield f"beam {BEAM}", tool, captioning


def measure(name: str, until: str, tool: str) -> dict[str, dict[str, float]]:
    """The numbers of every work of one tool, under "model|work|way"."""
    torch.set_num_threads(1)
    torch.zeros(8, device=DEVICE)  # start CUDA
    results: dict[str, dict[str, float]] = {}
    for work, way, make in works(tool, name):
        if time.time() > float(until):
            return results
        key = f"{name}|{work}|{way}"
        try:
            results[key] = measured(key, make)
        except Exception:  # a step that could not be captured leaves CUDA unusable: keep what is measured
            traceback.print_exc()
            return results
    return results


def table(results: dict[str, list[dict[str, Any]]]) -> None:
    fastest = fastest_of(results)
    for key in sorted(fastest, key=lambda key: key.split("|")[1]):
        best, base = fastest[key], fastest.get(f"{key.rpartition('|')[0]}|plain")
        cells = [*key.split("|"), f"{1000 * best['seconds']:,.1f}", f"{IMAGES / best['seconds']:,.0f}"]
        print_row([*cells, times_of(base, best)], best)


def main(seconds: float) -> None:
    end = time.time() + seconds if seconds else FOREVER
    torch.set_num_threads(1)
    command = " ".join(["python benchmarks/captions.py", *sys.argv[1:]])
    where = torch.cuda.get_device_name() if GPU else "CPU, float32, CPU time of one thread"
    print(f"{where}, {machine()}, batches of {IMAGES} images, seed 0, `{command}`\n", flush=True)
    for name in MODELS:
        logits, loss, same = differences(name)
        off = f"logits differ by {logits:.0e} of the largest, the loss by {loss:.0e}"
        print(f"{name}: {off}; {same:.0%} of the captions are the same", flush=True)
        assert max(logits, loss) < 1e-3, f"the two {name} are not the same model"
    print(f"\n| model | work | way | ms | images/s | times | first {FIRST}, s |{' peak MiB |' if GPU else ''}")
    print(f"|{'---|' * (8 if GPU else 7)}", flush=True)
    tools = ["regard", "plain", *(["regard, compiled", "plain, compiled"] if GPU and not seconds else [])]
    for name in MODELS:
        table(take_turns(__file__, tools, name, str(end), turns=1 if seconds else 2))


if __name__ == "__main__":
    start(measure, main, words=3, default=0.0)
