"""A training of a fraction of a second, with everything around it that a task would bring."""

import io
import json
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from regard.layers.loss import Loss
from regard.learn.loop import take_steps
from regard.learn.progress import Progress
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.learn.validation import Validation

TEXT = "the cat sat on the mat and the dog sat on the log; " * 8

LETTERS = sorted(set(TEXT))


@dataclass
class Rows:
    tokens: torch.Tensor

    def to(self, device):
        return Rows(self.tokens.to(device))


class Text:
    """Windows of the text, shuffled by (seed, epoch)."""

    def __init__(self, rows=4, length=12, windows=24):
        ids = torch.tensor([LETTERS.index(letter) for letter in TEXT])
        self.windows = ids.unfold(0, length, 1)[:windows]
        self.rows = rows
        self.on_batch = lambda count: None
        self.count = 0

    def order(self, epoch):
        generator = torch.Generator().manual_seed(epoch)
        return torch.randperm(len(self.windows), generator=generator).split(self.rows)

    def batch(self, item):
        self.count += 1
        self.on_batch(self.count)
        return Rows(self.windows[item])


class Letters(nn.Module):
    def __init__(self, dropout=0.2):
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(len(LETTERS), 8)
        self.rnn = nn.GRU(8, 12, batch_first=True)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(12, len(LETTERS))

    def loss(self, batch, *, label_smoothing=0.0):
        states, _ = self.rnn(self.embed(batch.tokens[:, :-1]))
        logits, target = self.out(self.drop(states)).flatten(0, 1), batch.tokens[:, 1:]
        total = functional.cross_entropy(
            logits.float(), target.flatten(), reduction="sum", label_smoothing=label_smoothing
        )
        rows = -functional.cross_entropy(logits.detach().float(), target.flatten(), reduction="none")
        return Loss(total, rows.view(target.shape).sum(1), torch.tensor(target.numel()))


def train(
    model, data, settings, folder, validate, keep_best=lambda model, metrics: None, *,
    better=("valid_loss", "min"), resume=False, progress=None, **judged,
):  # fmt: skip
    """As a task trains, in a folder that nobody else trains in. `judged`: ties and perfect, of the validation."""
    validation = Validation(model, validate, keep_best, better, settings, **judged)
    return take_steps(Stepper(model, settings), data, validation, folder, resume, progress or Progress())


class Run:
    """A training with everything around it that a task would bring."""

    def __init__(self, folder, *, data=None, model=None, values=None, **settings):
        self.folder, self.data, self.model = folder, data or Text(), model or Letters()
        self.settings = Training(
            **{"steps": 12, "eval_every": 4, "learning_rate": 0.01, "seed": 3, "device": "cpu", **settings}
        )
        self.values = values  # validation results to give, one after the other; None: the real loss
        self.kept, self.shown = [], io.StringIO()

    def validate(self, model):
        assert not model.training
        if self.values is not None:
            return {"valid_loss": self.values.pop(0)}
        loss = model.loss(Rows(self.data.windows))
        return {"valid_loss": (loss.total / loss.tokens).item()}

    def keep_best(self, model, metrics):
        self.kept.append((metrics["valid_loss"], model.embed.weight.detach().clone()))

    def fit(self, resume=False, better=("valid_loss", "min"), **judged):
        return train(
            self.model, self.data, self.settings, self.folder, self.validate, self.keep_best,
            better=better, resume=resume, progress=Progress(self.shown), **judged,
        )  # fmt: skip

    def rows(self, key):
        lines = (self.folder / "log.jsonl").read_text().splitlines()
        return {row["step"]: row[key] for row in map(json.loads, lines) if key in row}
