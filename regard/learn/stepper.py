"""One training step: the loss of its batches, its gradient, the optimiser, and what a checkpoint keeps of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.base import processes
from regard.base.device import choose_device
from regard.base.tensors import fill, named_tensors
from regard.data.batches.batch import Batch
from regard.layers.block import recompute_blocks
from regard.layers.loss import Loss
from regard.layers.replay import shape_of
from regard.learn import auto, checkpoint
from regard.learn.capture import Captured, Numbers
from regard.learn.checkpoint import Standing
from regard.learn.optimise import build_optimiser
from regard.learn.progress import say
from regard.learn.reinforce import Objective
from regard.learn.saving import Saving
from regard.learn.seeds import noise
from regard.learn.settings import AUTO, BY_HARDWARE, Training
from regard.learn.team import Part, seed_draws
from regard.learn.teams import team_for
from regard.models.protocols import Learner, Module

LOGGED = ("loss", "gradient_norm", "tokens")

# From the batches of a step to passes over them; in each pass, one update by each of its batches.
Passes = Callable[[Iterable[Batch]], Sequence[Sequence[Batch]]]


class Stepper:
    """Everything a training step needs: model, optimiser, gradient scaler, the other processes. Without a `loss`,
    the model's own.

    A step makes one update by the gradient of all its batches, unless `passes` says what each of several updates
    learns from."""

    def __init__(
        self,
        model: Module,
        settings: Training,
        loss: Any = None,
        *,
        passes: Passes | None = None,
        asked: Training | None = None,
    ) -> None:
        """`asked`: the settings with what was left to auto, where it is settled already."""
        if passes is None and settings.updates > 1:
            raise ValueError(f"a step of {settings.updates} updates needs `passes`: what each learns from")
        self.passes, self.asked = passes, asked or settings
        self.device = choose_device(settings.device, settings.precision)
        self.settings = settings = auto.settled(settings, model, self.device, several=processes.launched())
        self.team = team_for(self.device, settings)
        if settings.recompute:
            recompute_blocks(model)
        self.model = self.team.place(model.train(), self.device)
        self.optimiser = build_optimiser(self.model, settings)
        for group in self.optimiser.param_groups:
            group["params"] = [self.team.own_part(parameter) for parameter in group["params"]]
        self.parameters = [self.team.own_part(each) for each in self.model.parameters() if each.requires_grad]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "float16")
        self.objective = Objective(settings, self.device)
        self.saving = Saving(settings.async_save)
        if loss is None:
            assert isinstance(self.model, Learner)
            loss = self.model.loss
        self.plain_loss: Callable[..., Loss] = loss
        self.repays = auto.Repays(settings.steps, self.device) if settings.compile == AUTO else None
        self._prepare(compiled=settings.compile is True)
        options = {"label_smoothing": settings.label_smoothing, "r_drop": settings.r_drop}
        self.options = {name: value for name, value in options.items() if value}  # loss(batch) may take none
        self.learn = self.team.learning(self.model, self._learn)

    def _prepare(self, *, compiled: bool) -> None:
        """Compile the loss and capture steps, if they are to be."""
        captured = self.settings.capture is True and self.device.type == "cuda" and not self.team.several
        if captured and not auto.replays_bits(self.settings, self.model):
            say("Steps of recurrent layers are not captured with train.deterministic: their bits would be others")
            captured = False
        self.captured = Captured(self.device, compiled=compiled) if captured else None
        # Captured steps have few shapes: compile each.
        options: Any = {"dynamic": False if captured else None}
        self.loss = torch.compile(self.plain_loss, **options) if compiled else self.plain_loss
        self.untried = compiled  # no compiled step was taken yet

    @property
    def chosen(self) -> auto.Chosen:
        """What auto stands for, to be kept; empty where nothing was left to it, or the device leaves no choice."""
        left = [name for name in BY_HARDWARE if getattr(self.asked, name) == AUTO]
        if not left or self.device.type != "cuda":
            return {}
        refused = {"refused": True} if self.captured and self.captured.refused else {}
        return {"device": self.device.type, **{name: getattr(self.settings, name) for name in left}, **refused}

    def step(self, step: int, batches: Iterable[Batch], rate: float) -> Numbers:
        """One training step; its loss is the mean per token over all the batches."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.objective.begin(step)
        numbers = self._first_compiled(step, batches) if self.untried else self._take(step, batches)
        if self.repays is not None:
            self._decide(step, self.repays)
        return numbers

    def _take(self, step: int, batches: Iterable[Batch]) -> Numbers:
        ready = self._seeded(step, batches)
        with self.team.step():
            if self.captured is None:
                return self._change(ready)
            return self.captured.step(
                self._change, ready, lambda: seed_draws(noise(self.settings.seed, step, 0), self.device)
            )

    def _decide(self, step: int, repays: auto.Repays) -> None:
        """Compile from here on, if the steps so far have shown that it repays."""
        decision = repays.after(step)
        if decision is None:
            return
        self.repays, self.settings = None, replace(self.settings, compile=decision)
        if decision:
            self._prepare(compiled=True)

    def _first_compiled(self, step: int, batches: Iterable[Batch]) -> Numbers:
        """The step in which the compiler runs. If it fails and nobody asked for it, steps are taken as they are."""
        every, begun = list(batches), time.perf_counter()
        try:
            numbers = self._take(step, every)
        except torch._dynamo.exc.TorchDynamoException as error:
            if self.asked.compile is True:
                raise
            say(f"Steps are not compiled (train.compile): {str(error).partition(chr(10))[0]}")
            self.settings = replace(self.settings, compile=False)
            self._prepare(compiled=False)
            return self._take(step, every)
        self.untried = False
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        say(f"Compiled the training step in {time.perf_counter() - begun:.0f} seconds")
        return numbers

    def _seeded(self, step: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        for micro, batch in enumerate(batches):
            ready = self.team.begin(batch, noise(self.settings.seed, step, micro), self.device)
            if self.repays is not None and isinstance(ready, Batch):
                self.repays.shapes.add(shape_of(ready))
            yield ready

    def _change(self, batches: Iterable[Batch]) -> Numbers:
        play = self.passes
        if play is None:
            return self._update(batches)
        with torch.no_grad(), self._autocast():
            passes = self.team.forward(lambda: play(batches))
        updates = [self._update([batch]) for batches in passes for batch in batches]
        loss, norm, tokens = (torch.stack([numbers[name] for numbers in updates]) for name in LOGGED)
        return {"loss": loss.mean(), "gradient_norm": norm.mean(), "tokens": tokens[: len(passes[0])].sum()}

    def _autocast(self) -> torch.autocast:
        dtype = getattr(torch, self.settings.precision) if self.settings.half else None
        return torch.autocast(self.device.type, dtype=dtype, enabled=self.settings.half)

    def _learn(self, batch: Batch) -> Part:
        """The loss to differentiate, per token; the total to log; the tokens."""
        with self._autocast():
            loss = self.loss(batch, **self.options)
        return self.objective(loss), loss.total.detach(), loss.tokens

    def _update(self, batches: Iterable[Batch]) -> Numbers:
        self.optimiser.zero_grad()
        totals, tokens = [], []
        last = self.settings.accumulate_steps - 1
        for micro, batch in enumerate(batches):
            with self.team.reducing(micro == last):
                mean, total, count = self.team.weigh(self.learn(batch))
                totals.append(total)
                tokens.append(count)
                # Batches are weighted by their tokens. The total is not known yet, so weights are relative to the
                # first batch, which keeps them small enough for float16; gradients are rescaled to the total below.
                if micro:
                    mean = mean * (count / tokens[0]).to(mean.dtype)
                self.scaler.scale(mean).backward()
        self.scaler.unscale_(self.optimiser)
        self.team.complete()
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        single = len(tokens) == 1  # the usual case: sums of one number would be four launches more on a GPU
        total, count = (each[0] if single else torch.stack(each).sum() for each in (totals, tokens))
        if not single:
            for gradient in gradients:
                gradient.mul_((tokens[0] / count).to(gradient.dtype))
        norm = self.team.whole_norm(nn.utils.get_total_norm(gradients))
        if self.settings.max_grad_norm:
            nn.utils.clip_grads_with_norm_(self.parameters, self.settings.max_grad_norm, norm)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return {"loss": total / count, "gradient_norm": norm, "tokens": count}

    def save(self, folder: Path, standing: Standing, *, tensors: bool) -> Path:
        """tensors=False: those of this step are on disk already."""
        standing.scaler, standing.baseline = self.scaler.state_dict(), float(self.objective.baseline)
        standing.chosen = self.chosen
        average, path = self.settings.average_checkpoints, checkpoint.path_of(folder, standing.step)
        self.saving.wait()
        if not tensors:
            if self.team.is_first:
                checkpoint.update(folder, standing, average=average)
            return path
        self.saving.begin(self.team.writer(folder, self, replace(standing)))
        return path

    def whole_model(self) -> Any:
        """The model as the first process saves it. Every process must ask: each may have a part of the weights."""
        return self.team.whole_model(self.model)

    @contextmanager
    def averaged(self, folder: Path, say: checkpoint.Say) -> Iterator[int]:
        """In this block the model has the average of the last checkpoints; of so many."""
        last = {name: tensor.detach().clone() for name, tensor in named_tensors(self.model).items()}
        try:
            yield self.team.average(folder, self.settings.average_checkpoints, self.model, say)
        finally:
            fill(self.model, last, source=folder)

    def load(self, folder: Path, say: checkpoint.Say) -> Standing | None:
        """From the newest checkpoint."""
        standing = self.team.load(folder, self, say)
        if standing and standing.scaler and self.scaler.is_enabled():
            self.scaler.load_state_dict(standing.scaler)
        if standing:
            self.objective.baseline.fill_(standing.baseline)
        if standing and self.captured and standing.chosen.get("refused"):
            self.captured.refused = "as before"
        return standing
