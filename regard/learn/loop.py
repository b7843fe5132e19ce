"""The training loop: a model with a loss and data in a fixed order in, the best weights out.

Everything random follows from the seed and the step: the data order from (seed, epoch), dropout and sampling from a
generator that is reseeded before each batch. A run that was killed and resumed takes exactly the same steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.base.device import current, with_tf32
from regard.base.files import DRAFT, FULL, sync_folder
from regard.base.shared_batch import Share
from regard.data.batches.batch import Batch
from regard.errors import Diverged, Interrupted, PeerLost, RunError
from regard.layers.onednn import without_onednn
from regard.learn import auto, checkpoint
from regard.learn.checkpoint import Standing
from regard.learn.deterministic import deterministic
from regard.learn.interrupt import Interrupt
from regard.learn.log import CHANGED_DATA, CHOSEN, Log, NoLog
from regard.learn.loggers.loggers import Loggers
from regard.learn.optimise import rate_at
from regard.learn.progress import Progress, say
from regard.learn.restart import mark, unmark
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.learn.team import Alone
from regard.learn.validation import PERFECT, Metrics, Validation, words
from regard.learn.watch import Watch, last_good

GO_ON = "use --resume (in Python: resume=True) to go on, or another --out"

Item = TypeVar("Item")


class Data(Protocol[Item]):
    """`order` must be a pure function of the data's seed and the epoch; `batch` of the item. Under torchrun a
    process takes its share of the rows: `share` gives them, and how many rows the whole batch has."""

    def order(self, epoch: int) -> Iterable[Item]: ...

    def batch(self, item: Item) -> Batch: ...

    def share(self, item: Item, share: Share) -> tuple[Batch, int]: ...


@runtime_checkable
class Bookmarked(Protocol):
    """Data that can begin in the middle of an epoch without going through what comes before."""

    def bookmark(self, item: Any) -> list[int]:
        """What finds this item again, in JSON."""
        ...

    def order_from(self, epoch: int, index: int, bookmark: Sequence[int]) -> tuple[int, Iterable[Any]]:
        """The order from an item at or before this index on, and the index of that item. The bookmark is that of
        the item before; [] where there is none."""
        ...


@dataclass(frozen=True)
class Report:
    """How a training ended. `best` holds the metrics of the best weights."""

    step: int
    best: Metrics | None
    best_step: int
    early: bool  # stopped by `patience`, or perfect
    averaged: int  # checkpoints in the average; 0: none was made


def take_steps(
    stepper: Stepper,
    data: Data[Item],
    validation: Validation[Any],
    folder: Path,
    resume: bool,
    progress: Progress,
    changed: Sequence[str] = (),
    loggers: Loggers | None = None,
) -> Report:
    """Train in a folder that the caller has locked; the model is left with the weights of the last step. `changed`,
    for the log: how the data differs from what a resumed training was begun with. `loggers` get what is logged.

    Ctrl-C and SIGTERM save a checkpoint and raise Interrupted. An error of the data, the loss or the validation
    leaves a checkpoint of the last good step."""
    settings, team = stepper.settings, stepper.team
    standing = _start(folder, stepper, resume, progress.say)
    log = _open_log(folder, standing, changed, progress.say, team, loggers)
    if standing.ended:
        more = "Set patience to 0" if _is_perfect(standing, settings) else "Raise steps or patience"
        progress.say(f"{folder} is already trained: {standing.step} steps. {more} to go on.")
        return _report(standing, settings)
    watch = Watch(log, progress, settings, folder)
    chosen = _tell_choice(stepper, standing, standing.chosen, log, progress)
    places = _walk(data, standing)
    with _around(stepper, standing, watch, folder) as interrupt:
        while (unfinished := _due(standing, settings)) or not _over(standing, settings):
            if not unfinished:  # else the validation that was interrupted comes first
                taken = list(islice(places, settings.accumulate_steps))
                rate = rate_at(standing.step + 1, settings, standing.plateau_scale)
                numbers = stepper.step(standing.step + 1, (team.batch(data, item) for *_, item in taken), rate)
                standing.step, standing.validated = standing.step + 1, False  # taken: before, it may have failed
                epoch, index, item = taken[-1]
                standing.epoch, standing.index = epoch, index + 1
                standing.bookmark = data.bookmark(item) if isinstance(data, Bookmarked) else []
                watch.add({"step": standing.step, "epoch": standing.epoch, "learning_rate": rate, **numbers})
                chosen = _tell_choice(stepper, standing, chosen, log, progress)
            if _due(standing, settings):
                watch.look()
                metrics = _measure(stepper, validation, standing, interrupt)
                if metrics is not None:
                    log.add(validation.judge(metrics, standing, progress, stepper.whole_model))
                    log.pictures(standing.step)
            stop = interrupt.agree(team.highest)
            if standing.validated or stop:
                watch.look(sync=True)
                saved = stepper.save(folder, standing, tensors=not unfinished)
                watch.reset()
            if stop:
                stepper.saving.wait()
                raise _stopped(standing, settings, saved, interrupt)
        stepper.saving.wait()
        finished = _finish(stepper, folder, standing, validation, log, progress, interrupt)
        signalled = interrupt.agree(team.highest)
        if not finished:
            raise _stopped(standing, settings, checkpoint.path_of(folder, standing.step), interrupt)
    if team.is_first:
        unmark(folder)
    if signalled:
        said = f"The training in {folder} is finished and saved; what follows training was skipped."
        raise Interrupted(said, interrupt.signal)
    return _report(standing, settings)


def _walk(data: Data[Item], standing: Standing) -> Iterator[tuple[int, int, Item]]:
    """(epoch, index, item) from where the training stands on, without end."""
    epoch, index, bookmark = standing.epoch, standing.index, standing.bookmark
    while True:
        first, items = data.order_from(epoch, index, bookmark) if isinstance(data, Bookmarked) else (0, None)
        empty = first == 0
        for place, item in enumerate(data.order(epoch) if items is None else items, first):
            empty = False
            if place >= index:
                yield epoch, place, item
        if empty:
            raise ValueError(f"the data has no batch in epoch {epoch}; give it at least one row")
        epoch, index, bookmark = epoch + 1, 0, []


def _start(folder: Path, stepper: Stepper, resume: bool, say: checkpoint.Say) -> Standing:
    training = folder / "training"
    stepper.team.of_first(lambda: _make_ready(folder, training, resume))
    standing = stepper.load(folder, say) if resume else None
    if standing is None:
        if resume:
            say(f"{training} holds no checkpoint yet: starting at the first step")
        return Standing()
    if not _over(standing, stepper.settings):  # it had ended, and the settings now ask for more steps
        standing.ended, standing.averaged = False, 0
    say(f"Resuming after step {standing.step}")
    return standing


def _make_ready(folder: Path, training: Path, resume: bool) -> None:
    checkpoint.refuse_files(folder)
    left = [path for path in training.glob("*") if not path.name.startswith(DRAFT)]
    if left and not resume:
        raise RunError(f"{training} already holds a training: {GO_ON}")
    training.mkdir(parents=True, exist_ok=True)
    checkpoint.move_files(folder, say)
    sync_folder(folder)
    checkpoint.clean(folder)
    mark(folder)


def _open_log(
    folder: Path,
    standing: Standing,
    changed: Sequence[str],
    say: checkpoint.Say,
    team: Alone,
    loggers: Loggers | None,
) -> Log:
    if not team.is_first:
        return NoLog()
    log = Log(folder / "log.jsonl", loggers=loggers)
    log.cut(standing, say)
    if changed:
        log.add({"step": standing.step, CHANGED_DATA: list(changed)})
        log.flush(sync=True)
    return log


def _tell_choice(
    stepper: Stepper, standing: Standing, before: auto.Chosen, log: Log, progress: Progress
) -> auto.Chosen:
    """Say and log what auto stands for, where that is new."""
    chosen = stepper.chosen
    if chosen != before:
        progress.say(auto.told(stepper.settings))
        log.add({"step": standing.step, CHOSEN: chosen})
    return chosen


def _over(standing: Standing, settings: Training) -> bool:
    stale = 0 < settings.patience <= standing.stale
    return standing.step >= settings.steps or stale or _is_perfect(standing, settings)


def _is_perfect(standing: Standing, settings: Training) -> bool:
    """Early stopping is on, and there is nothing left to improve."""
    return settings.patience > 0 and standing.perfect >= PERFECT


def _early(standing: Standing, settings: Training) -> str:
    """Why it stopped before its last step."""
    if _is_perfect(standing, settings):
        why = f"the last {standing.perfect} validations were perfect"
    else:
        why = f"the last {standing.stale} validations brought nothing better than step {standing.best_step}"
    return f"Stopped early, after step {standing.step:,} of {settings.steps:,}: {why} (train.patience)"


def _due(standing: Standing, settings: Training) -> bool:
    """Whether the current step still has to be validated; a resumed training begins with a validation that was
    interrupted."""
    here = standing.step % settings.eval_every == 0 or standing.step >= settings.steps
    return here and standing.step > 0 and not standing.validated


def _stopped(standing: Standing, settings: Training, saved: Path, interrupt: Interrupt) -> Interrupted:
    said = f"Stopped after step {standing.step} of {settings.steps}, saved in {saved}. "
    said += "Go on with --resume (in Python: resume=True)."
    return Interrupted(said, interrupt.signal, best=standing.best is not None)


def _measure(
    stepper: Stepper, validation: Validation[Any], standing: Standing, interrupt: Interrupt
) -> Metrics | None:
    """The metrics of the model as it is; None: a signal came before its end."""
    work = partial(validation.measure, standing.step)
    return stepper.team.validate(work, interrupt, divided=validation.divided)


def _finish(
    stepper: Stepper,
    folder: Path,
    standing: Standing,
    validation: Validation[Any],
    log: Log,
    progress: Progress,
    interrupt: Interrupt,
) -> bool:
    """Validate the average of the last checkpoints, keep it if it is the best, and mark the run as ended. False: a
    signal came before."""
    settings = stepper.settings
    if settings.average_checkpoints > 1:
        with stepper.averaged(folder, progress.say) as averaged:
            metrics = _measure(stepper, validation, standing, interrupt)
            if metrics is None:
                return False
            best = validation.keep_if_best(metrics, standing, stepper.whole_model)
        standing.averaged = averaged
        log.add({"step": standing.step, "averaged": standing.averaged, **metrics})
        progress.say(
            f"average of {standing.averaged} checkpoints  {words(metrics)}{'  best so far' if best else ''}"
        )
    if standing.step < settings.steps:
        progress.say(_early(standing, settings))
    log.flush(sync=True)
    standing.ended = True
    stepper.team.of_first(lambda: checkpoint.update(folder, standing, average=settings.average_checkpoints))
    return True


def _report(standing: Standing, settings: Training) -> Report:
    early = standing.step < settings.steps
    return Report(standing.step, standing.best, standing.best_step, early, standing.averaged)


@contextmanager
def _around(stepper: Stepper, standing: Standing, watch: Watch, folder: Path) -> Iterator[Interrupt]:
    """Around all steps: how products are computed, what is shown, and what follows a signal or an error."""
    settings = stepper.settings
    exact = nullcontext() if settings.half else without_onednn(stepper.model)
    same = deterministic() if settings.deterministic else nullcontext()
    products = nullcontext() if settings.precision == "float32" else with_tf32(stepper.device)
    with (
        watch.log.logging(standing.step),
        current(stepper.device),
        same,
        exact,
        products,
        _showing(watch.progress, standing, settings),
        _full_disk_explained(folder),
        _saving_on_errors(stepper, standing, watch, folder),
        Interrupt() as interrupt,
        stepper.team.together(),
    ):
        yield interrupt


@contextmanager
def _showing(progress: Progress, standing: Standing, settings: Training) -> Iterator[None]:
    progress.begin(standing.step, settings.steps)
    try:
        yield
    finally:
        progress.end()


@contextmanager
def _saving_on_errors(stepper: Stepper, standing: Standing, watch: Watch, folder: Path) -> Iterator[None]:
    """After an error of the data, the loss or the validation, save where the training stands, and say so."""
    begun = standing.step
    try:
        yield
    except (Interrupted, Diverged, PeerLost):  # saved already; not worth saving; in the middle of a step
        raise
    except Exception as error:
        steps, saved = f"{standing.step} of {stepper.settings.steps}", None
        # Where a step has several updates, some of them may be made already.
        whole = stepper.settings.updates == 1 and not stepper.team.sharded
        if standing.step > begun and not standing.validated and whole and stepper.team.is_first:
            with suppress(Exception):  # the disk may be full or the GPU lost; the first error is the one to tell
                watch.look(sync=True)
                saved = stepper.save(folder, standing, tensors=True)
        if standing.step:
            note = f"Stopped by an error after step {steps}; {f'saved in {saved}' if saved else last_good(folder)}"
            if checkpoint.checkpoints(folder):
                note += ". Go on with --resume (in Python: resume=True)"
            error.add_note(note)
            watch.progress.say(note)
        raise


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
