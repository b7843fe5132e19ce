"""The training loop: from a model that can say its loss, and data in a fixed order, to the best weights.

Every number follows from (seed, step): the order of the data from (seed, epoch), dropout and sampling from a
generator seeded anew before each batch. So a run that was killed and resumed takes the steps it would have."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.files import sync_folder
from regard.layers.loss import Loss
from regard.layers.products import plain_products
from regard.learn import checkpoint
from regard.learn.capture import Captured, Numbers
from regard.learn.checkpoint import Standing
from regard.learn.log import Log
from regard.learn.optimise import Training, build_optimiser, choose_device, rate_at
from regard.learn.progress import Progress
from regard.learn.reinforce import Baseline, objective

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SKIPS_IN_A_ROW = 20  # float16 halves its scale at each: more than that no scale will mend

Item = TypeVar("Item")
Metrics = dict[str, float]


class Data(Protocol[Item]):
    """`order` must be a pure function of the data's seed and the epoch; `batch` of the item."""

    def order(self, epoch: int) -> Iterable[Item]: ...

    def batch(self, item: Item) -> Batch: ...


class Interrupted(Exception):
    """Ctrl-C: the training was saved; the text says where, and how to go on."""


class Diverged(ValueError):
    """Loss or gradient is no longer a number."""


@dataclass(frozen=True)
class Report:
    """How a training ended. `best` holds the metrics of the weights that were kept."""

    step: int
    best: Metrics | None
    best_step: int
    early: bool  # stopped by `patience`
    averaged: int  # checkpoints in the average, 0 = none was made


def fit(
    model: nn.Module,
    data: Data[Item],
    *,
    settings: Training,
    folder: Path,
    validate: Callable[[nn.Module], Metrics],
    keep_best: Callable[[nn.Module, Metrics], None],
    better: tuple[str, str],
    resume: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Train, and call `keep_best` whenever `better`, say ("valid_loss", "min"), improved.

    The model is left with the weights of the last step."""
    progress = progress or Progress()
    learner = Learner(model, settings)
    standing = _start(folder, learner, resume, progress.say)
    judge = Judge(model, validate, keep_best, better, settings)
    log = Log(folder / "log.jsonl")
    log.cut(standing)
    if standing.ended:
        progress.say(f"{folder} is already trained: {standing.step} steps. Raise steps or patience to go on.")
        return _report(standing, settings)
    watch = Watch(log, progress, settings, folder)
    places = _walk(data, standing.epoch, standing.index)
    products = plain_products(model) if settings.precision == "float32" else nullcontext()
    with products, _showing(progress, standing, settings), _full_disk_explained(folder), Interrupt() as interrupt:
        while not _over(standing, settings):
            standing.step += 1
            standing.validated = standing.step % settings.every == 0 or standing.step == settings.steps
            taken = list(islice(places, settings.accumulate))
            rate = rate_at(standing.step, settings, standing.plateau_scale)
            numbers = learner.step(standing.step, (data.batch(item) for *_, item in taken), rate)
            standing.epoch, standing.index = taken[-1][0], taken[-1][1] + 1
            watch.add({"step": standing.step, "epoch": standing.epoch, "rate": rate, **numbers})
            if standing.validated:
                watch.look()
                log.add(judge.judge(standing, progress))
            stop = interrupt.asked
            if standing.validated or stop:
                watch.look(sync=True)
                saved = learner.save(folder, standing)
                watch.reset()
            if stop:
                raise Interrupted(
                    f"Stopped after step {standing.step} of {settings.steps}, saved in {saved}. "
                    "Go on with --resume (in Python: resume=True)."
                )
        _finish(folder, standing, judge, log, progress)
    if interrupt.asked:
        raise Interrupted(f"The training in {folder} is finished and saved; what was to follow is left out.")
    return _report(standing, settings)


class Learner:
    """The model with all that one step needs."""

    def __init__(self, model: nn.Module, settings: Training) -> None:
        self.settings = settings
        self.device = choose_device(settings)
        self.model = model.to(self.device).train()
        self.optimiser = build_optimiser(model, settings)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "float16")
        self.baseline = Baseline()
        captured = settings.capture and self.device.type == "cuda"
        loss: Any = model.loss
        if settings.compile:  # what is captured has few shapes, each worth a program of its own
            loss = torch.compile(loss, dynamic=False if captured else None)
        self.loss: Callable[..., Loss] = loss
        self.captured = Captured() if captured else None

    def step(self, step: int, batches: Iterable[Batch], rate: float) -> Numbers:
        """One change of the weights, by the gradient of the loss per token over all the batches."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        ready = self._seeded(step, batches)
        return self.captured(self._change, ready) if self.captured else self._change(ready)

    def _seeded(self, step: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        for micro, batch in enumerate(batches):
            torch.manual_seed(_noise(self.settings.seed, step, micro))
            yield batch.to(self.device)

    def _change(self, batches: Iterable[Batch]) -> Numbers:
        settings = self.settings
        self.optimiser.zero_grad()
        totals, tokens = [], []
        for batch in batches:
            dtype = getattr(torch, settings.precision)
            more = {"agreement": settings.agreement} if settings.agreement else {}
            with torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32):
                loss = self.loss(batch, smoothing=settings.smoothing, **more)
            totals.append(loss.total.detach())
            tokens.append(loss.tokens)
            # Each batch weighs by its tokens. How many there will be in all is not known yet, so the first
            # is the measure, which keeps numbers small enough for float16; put right below.
            share = loss.tokens / tokens[0]
            self.scaler.scale(objective(loss, self.baseline, settings) * share).backward()
        self.scaler.unscale_(self.optimiser)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        count = torch.stack(tokens).sum()
        if len(tokens) > 1:
            for gradient in gradients:
                gradient.mul_(tokens[0] / count)
        norm = nn.utils.get_total_norm(gradients)
        if settings.clip:
            nn.utils.clip_grads_with_norm_(self.parameters, settings.clip, norm)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return {"loss": torch.stack(totals).sum() / count, "gradient_norm": norm, "tokens": count}

    def save(self, folder: Path, standing: Standing) -> Path:
        standing.baseline, standing.scaler = self.baseline.value, self.scaler.state_dict()
        return checkpoint.save(folder, standing, self.model, self.optimiser, average=self.settings.average)

    def load(self, folder: Path, say: checkpoint.Say) -> Standing | None:
        standing = checkpoint.load_newest(folder, self.model, self.optimiser, say=say)
        if standing:
            self.baseline.value = standing.baseline
            if self.scaler.is_enabled() and standing.scaler:
                self.scaler.load_state_dict(standing.scaler)
        return standing


def _noise(seed: int, step: int, micro: int) -> int:
    """A seed for one batch, far from that of every other."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{step}/{micro}".encode(), digest_size=8).digest())


def _walk(data: Data[Item], epoch: int, index: int) -> Iterator[tuple[int, int, Item]]:
    """(epoch, index, item) from that place on, epoch after epoch."""
    while True:
        there = False
        for place, item in enumerate(data.order(epoch)):
            there = True
            if place >= index:
                yield epoch, place, item
        if not there:
            raise ValueError(f"the data has no batch in epoch {epoch}; give it at least one row")
        epoch, index = epoch + 1, 0


class Judge:
    """Validates, and keeps the weights that are the best so far."""

    def __init__(
        self,
        model: nn.Module,
        validate: Callable[[nn.Module], Metrics],
        keep_best: Callable[[nn.Module, Metrics], None],
        better: tuple[str, str],
        settings: Training,
    ) -> None:
        self.key, self.direction = better
        if self.direction not in ("min", "max"):
            raise ValueError(f"better must be (metric, 'min' or 'max'), got {better!r}")
        self.model, self.validate, self.keep_best, self.settings = model, validate, keep_best, settings

    def measure(self, step: int) -> Metrics:
        torch.manual_seed(_noise(self.settings.seed, step, -1))
        self.model.eval()
        with torch.no_grad():
            metrics = self.validate(self.model)
        self.model.train()
        if self.key not in metrics:
            raise ValueError(f"no metric is called {self.key!r}; validation gives {', '.join(metrics)}")
        return {name: float(value) for name, value in metrics.items()}

    def _rank(self, metrics: Metrics) -> tuple[float, float]:
        """The lower the better. Of equals, as accuracies often are, the one with the lower loss."""
        value = metrics[self.key]
        return value if self.direction == "min" else -value, metrics.get("valid_loss", 0.0)

    def keep_if_best(self, metrics: Metrics, standing: Standing) -> bool:
        if not math.isfinite(metrics[self.key]):
            return False
        if standing.best and self._rank(metrics) >= self._rank(standing.best):
            return False
        self.model.eval()
        self.keep_best(self.model, metrics)
        self.model.train()
        standing.best, standing.best_step = metrics, standing.step
        return True

    def judge(self, standing: Standing, progress: Progress) -> dict[str, Any]:
        """The row for the log. Standing still wears out two patiences: the schedule's and the run's."""
        metrics = self.measure(standing.step)
        if best := self.keep_if_best(metrics, standing):
            standing.stale = standing.plateau_stale = 0
        else:
            standing.stale += 1
            standing.plateau_stale += 1
        if self.settings.schedule == "plateau" and standing.plateau_stale >= self.settings.plateau_patience:
            standing.plateau_scale *= self.settings.plateau_factor
            standing.plateau_stale = 0
        progress.say(f"{progress.line()}  {_words(metrics)}{'  best so far' if best else ''}")
        return {"step": standing.step, **metrics}


def _words(metrics: Metrics) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


class Watch:
    """Times the steps, shows them, and stops the run when they have lost their way."""

    def __init__(self, log: Log, progress: Progress, settings: Training, folder: Path) -> None:
        self.log, self.progress, self.folder = log, progress, folder
        self.allowed = SKIPS_IN_A_ROW if settings.precision == "float16" else 0
        self.bad = 0
        self.reset()

    def reset(self) -> None:
        """What passed since the last step was not the next step's time."""
        self.mark = time.perf_counter()

    def add(self, row: dict[str, Any]) -> None:
        before, self.mark = self.mark, time.perf_counter()
        self.log.add({**row, "seconds": round(self.mark - before, 6)})
        if self.log.due():
            self.look()

    def look(self, *, sync: bool = False) -> None:
        rows = self.log.flush(sync=sync)
        steps = [row for row in rows if "gradient_norm" in row]
        for row in steps:
            fine = math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"])
            self.bad = 0 if fine else self.bad + 1
            if self.bad > self.allowed:
                raise Diverged(self._lost(row))
        if steps:
            seconds = sum(row["seconds"] for row in steps)
            speed = sum(row["tokens"] for row in steps) / max(seconds, 1e-9)
            self.progress.advance(steps[-1]["step"], steps[-1]["loss"], speed)

    def _lost(self, row: dict[str, Any]) -> str:
        return (
            f"step {row['step']} is no longer finite: loss {row['loss']}, gradient norm "
            f"{row['gradient_norm']}, rate {row['rate']:g}. Lower rate, set clip, or lengthen warmup; "
            f"{_last_good(self.folder)}"
        )


class Interrupt:
    """Ctrl-C asks once: the step is finished and saved. A second one ends the run at once."""

    def __init__(self) -> None:
        self.asked = False
        self.previous: Any = None

    def __enter__(self) -> Interrupt:
        # Only the main thread hears signals; a run started in the background ignores this one on purpose.
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.getsignal(signal.SIGINT)
            if self.previous not in (None, signal.SIG_IGN):
                signal.signal(signal.SIGINT, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):  # print is not safe inside a handler
            os.write(2, b"\nCtrl-C: finishing the step and saving; once more to stop at once\n")

    def __exit__(self, *_: object) -> None:
        if self.previous not in (None, signal.SIG_IGN):
            signal.signal(signal.SIGINT, self.previous)


def _start(folder: Path, learner: Learner, resume: bool, say: checkpoint.Say) -> Standing:
    training = folder / "training"
    left = [path for path in training.glob("*") if not path.name.startswith(".tmp-")]
    if left and not resume:
        raise ValueError(f"{training} already holds a training: use --resume to go on, or another --out")
    training.mkdir(parents=True, exist_ok=True)
    sync_folder(folder)
    checkpoint.clean(folder)
    standing = learner.load(folder, say) if resume else None
    if standing is None:
        if resume:
            say(f"{training} holds no checkpoint yet: starting at the first step")
        return Standing()
    if not _over(standing, learner.settings):  # it had ended, and now more steps are asked for
        standing.ended, standing.averaged = False, 0
    say(f"Resuming after step {standing.step}")
    return standing


def _over(standing: Standing, settings: Training) -> bool:
    return standing.step >= settings.steps or 0 < settings.patience <= standing.stale


def _finish(folder: Path, standing: Standing, judge: Judge, log: Log, progress: Progress) -> None:
    """Validate the average of the last checkpoints, keep it if it is the best, and mark the run as ended."""
    model, count = judge.model, judge.settings.average
    if count > 1:
        last = {name: tensor.detach().clone() for name, tensor in checkpoint.named_tensors(model).items()}
        standing.averaged = checkpoint.average(folder, count, model, say=progress.say)
        metrics = judge.measure(standing.step)
        best = judge.keep_if_best(metrics, standing)
        checkpoint.fill(model, last, source=folder)
        log.add({"step": standing.step, "averaged": standing.averaged, **metrics})
        progress.say(
            f"average of {standing.averaged} checkpoints  {_words(metrics)}{'  best so far' if best else ''}"
        )
    log.flush(sync=True)
    standing.ended = True
    checkpoint.update(folder, standing, average=count)


def _report(standing: Standing, settings: Training) -> Report:
    early = standing.step < settings.steps
    return Report(standing.step, standing.best, standing.best_step, early, standing.averaged)


@contextmanager
def _showing(progress: Progress, standing: Standing, settings: Training) -> Iterator[None]:
    progress.begin(standing.step, settings.steps)
    try:
        yield
    finally:
        progress.end()


@contextmanager
def _full_disk_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(
            f"the disk is full: writing to {folder} failed ({error.strerror}); {_last_good(folder)}. "
            "Make room, then go on with --resume (in Python: resume=True)"
        ) from error


def _last_good(folder: Path) -> str:
    saved = checkpoint.checkpoints(folder)
    return f"the last good checkpoint is {saved[0]}" if saved else "no checkpoint was written yet"
