"""The training loop: a model with a loss and data in a fixed order in, the best weights out.

Everything random follows from the seed and the step: the data order from (seed, epoch), dropout and sampling from a
generator that is reseeded before each batch. A run that was killed and resumed takes exactly the same steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.base.device import choose_device, with_tf32
from regard.base.files import DRAFT, FULL, sync_folder
from regard.base.tensors import fill, named_tensors
from regard.data.batches.batch import Batch
from regard.errors import Interrupted, RunError
from regard.layers.loss import Loss
from regard.layers.onednn import without_onednn
from regard.learn import checkpoint
from regard.learn.capture import Captured, Numbers
from regard.learn.checkpoint import Standing
from regard.learn.interrupt import Interrupt
from regard.learn.lock import locked
from regard.learn.log import Log
from regard.learn.optimise import build_optimiser, rate_at
from regard.learn.progress import Progress
from regard.learn.reinforce import entropy_at, objective
from regard.learn.seeds import noise
from regard.learn.settings import Training
from regard.learn.validation import Metrics, Validation, words
from regard.learn.watch import Watch, last_good
from regard.models.protocols import Learner, Module, Player

GO_ON = "use --resume (in Python: resume=True) to go on, or another --out"

Item = TypeVar("Item")
Trained = TypeVar("Trained", bound=Learner)


class Data(Protocol[Item]):
    """`order` must be a pure function of the data's seed and the epoch; `batch` of the item."""

    def order(self, epoch: int) -> Iterable[Item]: ...

    def batch(self, item: Item) -> Batch: ...


@dataclass(frozen=True)
class Report:
    """How a training ended. `best` holds the metrics of the best weights."""

    step: int
    best: Metrics | None
    best_step: int
    early: bool  # stopped by `patience`
    averaged: int  # checkpoints in the average; 0: none was made


def fit(
    model: Trained,
    data: Data[Item],
    *,
    settings: Training,
    folder: Path,
    validate: Callable[[Trained], Metrics],
    keep_best: Callable[[Trained, Metrics], None],
    better: tuple[str, str],
    resume: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Train, and call `keep_best` whenever the metric named in `better`, e.g. ("valid_loss", "min"), has improved.

    `validate` is called in eval mode without gradients. The model is left with the weights of the last step. Ctrl-C
    and SIGTERM save a checkpoint and raise Interrupted. RunError if another process is training in the folder."""
    validation = Validation(model, validate, keep_best, better, settings)
    with locked(folder):
        return take_steps(Stepper(model, settings), data, validation, folder, resume, progress or Progress())


def take_steps(
    stepper: Stepper,
    data: Data[Item],
    validation: Validation[Any],
    folder: Path,
    resume: bool,
    progress: Progress,
) -> Report:
    """The loop itself, in a folder that is locked."""
    settings = stepper.settings
    standing = _start(folder, stepper, resume, progress.say)
    log = Log(folder / "log.jsonl")
    log.cut(standing, progress.say)
    if standing.ended:
        progress.say(f"{folder} is already trained: {standing.step} steps. Raise steps or patience to go on.")
        return _report(standing, settings)
    watch = Watch(log, progress, settings, folder)
    places = _walk(data, standing.epoch, standing.index)
    exact = nullcontext() if settings.half else without_onednn(stepper.model)
    products = nullcontext() if settings.precision == "float32" else with_tf32(stepper.device)
    with (
        exact,
        products,
        _showing(progress, standing, settings),
        _full_disk_explained(folder),
        Interrupt() as interrupt,
    ):
        while (unfinished := _due(standing, settings)) or not _over(standing, settings):
            if not unfinished:  # else the validation that was interrupted comes first
                standing.step, standing.validated = standing.step + 1, False
                taken = list(islice(places, settings.accumulate_steps))
                rate = rate_at(standing.step, settings, standing.plateau_scale)
                numbers = stepper.step(standing.step, (data.batch(item) for *_, item in taken), rate)
                standing.epoch, standing.index = taken[-1][0], taken[-1][1] + 1
                watch.add({"step": standing.step, "epoch": standing.epoch, "learning_rate": rate, **numbers})
            if _due(standing, settings):
                watch.look()
                metrics = interrupt.unless_asked(lambda: validation.measure(standing.step))
                if metrics is not None:
                    log.add(validation.judge(metrics, standing, progress))
            stop = interrupt.asked
            if standing.validated or stop:
                watch.look(sync=True)
                saved = stepper.save(folder, standing, tensors=not unfinished)
                watch.reset()
            if stop:
                raise _stopped(standing, settings, saved, interrupt)
        _finish(folder, standing, validation, log, progress, interrupt)
    if interrupt.asked:
        said = f"The training in {folder} is finished and saved; what follows training was skipped."
        raise Interrupted(said, interrupt.signal)
    return _report(standing, settings)


class Stepper:
    """Everything a training step needs: model, optimiser, gradient scaler. Without a `loss`, the model's own."""

    def __init__(self, model: Module, settings: Training, loss: Any = None) -> None:
        self.settings = settings
        self.device = choose_device(settings.device, settings.precision)
        self.model = model.to(self.device).train()
        self.optimiser = build_optimiser(model, settings)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "float16")
        self.baseline = torch.zeros((), device=self.device)  # a moving average, see `objective`
        self.entropy_weight = torch.full((), settings.entropy_weight, device=self.device)
        captured = settings.capture and self.device.type == "cuda"
        if loss is None:
            assert isinstance(model, Learner)
            loss = model.loss
        if settings.compile:  # captured steps have few shapes: compile each one
            loss = torch.compile(loss, dynamic=False if captured else None)
        self.loss: Callable[..., Loss] = loss
        self.captured = Captured() if captured else None
        options = {"label_smoothing": settings.label_smoothing, "r_drop": settings.r_drop}
        self.options = {name: value for name, value in options.items() if value}  # loss(batch) may take none

    def step(self, step: int, batches: Iterable[Batch], rate: float) -> Numbers:
        """One optimiser step, by the gradient of the mean loss per token over all the batches."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self.settings.entropy_schedule != "constant":
            self.entropy_weight.fill_(entropy_at(step, self.settings))
        ready = self._seeded(step, batches)
        return self.captured.step(self._change, ready) if self.captured else self._change(ready)

    def _seeded(self, step: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        for micro, batch in enumerate(batches):
            seed_draws(noise(self.settings.seed, step, micro), self.device)
            yield batch.to(self.device)

    def _change(self, batches: Iterable[Batch]) -> Numbers:
        """One update; of an agent, several from the same trials."""
        if self.settings.updates == 1:
            return self._update(batches)
        (batch,) = batches
        assert isinstance(self.model, Player)
        with torch.no_grad(), self._autocast():
            parts = self.model.experience(batch).parts(self.settings.ppo_parts)
        numbers = [self._update([part]) for _ in range(self.settings.ppo_passes) for part in parts]
        loss, norm = (torch.stack([one[name] for one in numbers]).mean() for name in ("loss", "gradient_norm"))
        return {
            "loss": loss,
            "gradient_norm": norm,
            "tokens": torch.stack([one["tokens"] for one in numbers[: len(parts)]]).sum(),
        }

    def _autocast(self) -> torch.autocast:
        dtype = getattr(torch, self.settings.precision) if self.settings.half else None
        return torch.autocast(self.device.type, dtype=dtype, enabled=self.settings.half)

    def _update(self, batches: Iterable[Batch]) -> Numbers:
        settings = self.settings
        self.optimiser.zero_grad()
        totals, tokens = [], []
        for batch in batches:
            with self._autocast():
                loss = self.loss(batch, **self.options)
            totals.append(loss.total.detach())
            tokens.append(loss.tokens)
            # Batches are weighted by their tokens. The total is not known yet, so weights are relative to the first
            # batch, which keeps them small enough for float16; gradients are rescaled to the total below.
            mean = objective(loss, settings, self.baseline, self.entropy_weight)
            if len(tokens) > 1:
                mean = mean * (loss.tokens / tokens[0])
            self.scaler.scale(mean).backward()
        self.scaler.unscale_(self.optimiser)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        one = len(tokens) == 1  # the usual case: sums of one number would be four launches more on a GPU
        total, count = (each[0] if one else torch.stack(each).sum() for each in (totals, tokens))
        if len(tokens) > 1:
            for gradient in gradients:
                gradient.mul_(tokens[0] / count)
        norm = nn.utils.get_total_norm(gradients)
        if settings.max_grad_norm:
            nn.utils.clip_grads_with_norm_(self.parameters, settings.max_grad_norm, norm)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return {"loss": total / count, "gradient_norm": norm, "tokens": count}

    def save(self, folder: Path, standing: Standing, *, tensors: bool) -> Path:
        """tensors=False: those of this step are on disk already."""
        standing.scaler, standing.baseline = self.scaler.state_dict(), float(self.baseline)
        average = self.settings.average_checkpoints
        if not tensors:
            return checkpoint.update(folder, standing, average=average)
        return checkpoint.save(folder, standing, self.model, self.optimiser, average=average)

    def load(self, folder: Path, say: checkpoint.Say) -> Standing | None:
        standing = checkpoint.load_newest(folder, self.model, self.optimiser, say=say)
        if standing and standing.scaler and self.scaler.is_enabled():
            self.scaler.load_state_dict(standing.scaler)
        if standing:
            self.baseline.fill_(standing.baseline)
        return standing


def seed_draws(seed: int, device: torch.device) -> None:
    """As torch.manual_seed, for the CPU and devices of this kind alone: seeding those that are not there takes
    longer than a small step. torch.cuda.manual_seed would seed the current GPU, which may be another."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        module = torch.get_device_module(device)
        getattr(module, "manual_seed_all", module.manual_seed)(seed)  # mps has one device


def _walk(data: Data[Item], epoch: int, index: int) -> Iterator[tuple[int, int, Item]]:
    """(epoch, index, item) from there on, without end."""
    while True:
        there = False
        for place, item in enumerate(data.order(epoch)):
            there = True
            if place >= index:
                yield epoch, place, item
        if not there:
            raise ValueError(f"the data has no batch in epoch {epoch}; give it at least one row")
        epoch, index = epoch + 1, 0


def _start(folder: Path, stepper: Stepper, resume: bool, say: checkpoint.Say) -> Standing:
    training = folder / "training"
    checkpoint.refuse_files(folder)
    left = [path for path in training.glob("*") if not path.name.startswith(DRAFT)]
    if left and not resume:
        raise RunError(f"{training} already holds a training: {GO_ON}")
    training.mkdir(parents=True, exist_ok=True)
    sync_folder(folder)
    checkpoint.clean(folder)
    standing = stepper.load(folder, say) if resume else None
    if standing is None:
        if resume:
            say(f"{training} holds no checkpoint yet: starting at the first step")
        return Standing()
    if not _over(standing, stepper.settings):  # it had ended, and the settings now ask for more steps
        standing.ended, standing.averaged = False, 0
    say(f"Resuming after step {standing.step}")
    return standing


def _over(standing: Standing, settings: Training) -> bool:
    return standing.step >= settings.steps or 0 < settings.patience <= standing.stale


def _due(standing: Standing, settings: Training) -> bool:
    """Whether the current step still has to be validated; a resumed training begins with a validation that was
    interrupted."""
    here = standing.step % settings.eval_every == 0 or standing.step >= settings.steps
    return here and standing.step > 0 and not standing.validated


def _stopped(standing: Standing, settings: Training, saved: Path, interrupt: Interrupt) -> Interrupted:
    said = f"Stopped after step {standing.step} of {settings.steps}, saved in {saved}. "
    said += "Go on with --resume (in Python: resume=True)."
    return Interrupted(said, interrupt.signal, best=standing.best is not None)


def _finish(
    folder: Path,
    standing: Standing,
    validation: Validation[Any],
    log: Log,
    progress: Progress,
    interrupt: Interrupt,
) -> None:
    """Validate the average of the last checkpoints, keep it if it is the best, and mark the run as ended."""
    model, count = validation.model, validation.settings.average_checkpoints
    if count > 1:
        last = {name: tensor.detach().clone() for name, tensor in named_tensors(model).items()}
        averaged = checkpoint.average(folder, count, model, say=progress.say)
        metrics = interrupt.unless_asked(lambda: validation.measure(standing.step))
        best = metrics is not None and validation.keep_if_best(metrics, standing)
        fill(model, last, source=folder)
        if metrics is None:
            raise _stopped(standing, validation.settings, checkpoint.checkpoints(folder)[0], interrupt)
        standing.averaged = averaged
        log.add({"step": standing.step, "averaged": standing.averaged, **metrics})
        progress.say(
            f"average of {standing.averaged} checkpoints  {words(metrics)}{'  best so far' if best else ''}"
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
            f"the disk is full: writing to {folder} failed ({error.strerror}); {last_good(folder)}. "
            "Make room, then go on with --resume (in Python: resume=True)"
        ) from error
