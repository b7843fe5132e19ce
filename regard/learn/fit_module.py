"""Train any `nn.Module` on any batches, with the training loop of the recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.base.arguments import checked_but
from regard.base.divided import each
from regard.base.processes import is_first
from regard.base.shared_batch import Share, current
from regard.base.tensors import fill, named_tensors, write_tensors
from regard.data.batches.batch import send, wide
from regard.errors import BadInput, RunError
from regard.layers.loss import Loss
from regard.learn.lock import locked
from regard.learn.loggers.logger import check_there
from regard.learn.loggers.loggers import Loggers
from regard.learn.loop import Report, take_steps
from regard.learn.progress import Progress
from regard.learn.restart import goes_on
from regard.learn.seeds import noise
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.learn.validation import Metrics, Validation

__all__ = ["Report", "fit"]

WEIGHTS = "model.safetensors"
VALID_LOSS = "valid_loss"

Item = TypeVar("Item")
Trained = TypeVar("Trained", bound=nn.Module)


@checked_but("data")
def fit(
    model: Trained,
    data: Iterable[Item] | Callable[[int], Iterable[Item]],
    *,
    loss: Callable[[Trained, Item], Tensor],
    validate: Iterable[Item] | Callable[[Trained], float | Mapping[str, float]],
    out: str | Path,
    steps: int,
    resume: bool = False,
    better: tuple[str, Literal["min", "max"]] = (VALID_LOSS, "min"),
    eval_every: int = 100,
    patience: int = 0,
    optimiser: Literal["adamw", "sgd"] = "adamw",
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    schedule: Literal["constant", "cosine", "inverse_root", "plateau"] = "constant",
    warmup_steps: int = 0,
    max_grad_norm: float = 1.0,
    accumulate_steps: int = 1,
    average_checkpoints: int = 0,
    precision: Literal["float32", "tf32", "bfloat16", "float16"] = "float32",
    compile: bool = False,
    seed: int = 0,
    device: str = "auto",
    log: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Train a module of your own; it ends with its best weights, in eval mode.

        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        from regard.learn import fit

        x = torch.randn(1000, 8)
        rows = TensorDataset(x, x.sum(1, keepdim=True))
        train, valid = torch.utils.data.random_split(rows, [900, 100])
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

        def loss(model, batch):
            inputs, targets = batch
            return nn.functional.mse_loss(model(inputs), targets)

        report = fit(
            model,
            DataLoader(train, batch_size=32, shuffle=True),
            loss=loss,
            validate=DataLoader(valid, batch_size=100),
            out="runs/sum",
            steps=300,
            learning_rate=1e-2,
        )
        print(report.best, report.best_step)

    data: the batches of an epoch: a DataLoader, a list, anything that can be iterated again and again, or a
        function that takes the epoch's number and returns its batches. Tensors in a batch, also those in tuples,
        lists and dicts, are moved to the device.
    loss: `loss(model, batch)` is a scalar tensor, the mean over the batch. With accumulate_steps, every batch
        counts the same.
    validate: batches, whose mean loss is then the metric `valid_loss`; or a function of the model, called in eval
        mode without gradients, that returns one number (called `valid_loss`) or several by name. `better` says
        which of them chooses the best weights: ("accuracy", "max").
    out: a folder for model.safetensors (the best weights), log.jsonl and the checkpoints. In another program,
        `safetensors.torch.load_model(model, "OUT/model.safetensors")` reads the weights into a model.
    eval_every: steps between validations, and between checkpoints.
    patience: validations without improvement before the training stops early; 0: it never does.
    log: where the rows of log.jsonl also go: tensorboard, trackio, wandb, mlflow, or several of these.

    Ctrl-C saves a checkpoint and raises `regard.Interrupted`; an exception of data, loss or validate comes out as
    it is, after a checkpoint of the last good step. The same call with resume=True goes on from there. It takes
    exactly the steps of an uninterrupted training if the data is the same again. The global seeds of torch are set
    for each batch, so a DataLoader with shuffle=True is. Data that is shuffled by Python's `random`, by NumPy or by
    a generator of its own is not: give a function of the epoch that seeds it.

    Under torchrun every process runs the same call, and each computes its share of the rows of every batch: the
    first dimension of its tensors. The gradients are those of the whole batch (DDP), so that `loss` and the batches
    stay as they are; the data must come in the same order in every process, as above. Batches to validate on are
    divided too; a function of the model is called by the first process, which also writes."""
    settings = Training(
        steps=steps,
        optimiser=optimiser,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        momentum=momentum,
        schedule=schedule,
        warmup_steps=warmup_steps,
        max_grad_norm=max_grad_norm,
        accumulate_steps=accumulate_steps,
        average_checkpoints=average_checkpoints,
        precision=precision,
        compile=compile,
        capture=False,  # of a loss of one's own nothing is known
        eval_every=eval_every,
        best_by=better[0],
        patience=patience,
        seed=seed,
        device=device,
        log=log if isinstance(log, str) else tuple(log),
    )
    check_there(settings.loggers)
    folder = Path(out)
    batches = Batches(data, seed)
    measure = validate if callable(validate) else mean_loss(loss, validate)
    validation = Validation(
        model,
        lambda model: by_name(measure(model)),
        lambda model, _: save(folder, model),
        better,
        settings,
        divided=not callable(validate),
    )
    resume = resume or goes_on(folder)
    with locked(folder) if is_first() else nullcontext():
        if is_first() and (folder / WEIGHTS).exists() and not (folder / "training").exists():
            raise RunError(
                f"{folder} already holds a model, whose weights would be lost; take another folder as out"
            )
        stepper = Stepper(model, settings, lambda batch: by_share(counted_once(loss(model, batch))))
        loggers = Loggers(settings.loggers, {f"train.{name}": value for name, value in asdict(settings).items()})
        shown = progress or Progress(unit="batches")
        report = take_steps(stepper, batches, validation, folder, resume, shown, loggers=loggers)
        if report.best is not None:
            if is_first():
                fill(model, load_file(folder / WEIGHTS), source=folder / WEIGHTS)
            stepper.team.spread(named_tensors(model))
    model.eval()
    return report


def save(folder: Path, model: nn.Module) -> None:
    write_tensors(folder / WEIGHTS, named_tensors(model), {"format": "pt"})


def counted_once(loss: Tensor) -> Loss:
    """A mean over a batch as the loop takes it."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise BadInput(f"loss(model, batch) must return one number as a tensor, such as losses.mean(); got {got}")
    total = loss.reshape(())
    return Loss(total, total.detach()[None], torch.ones_like(total))


def by_share(loss: Loss) -> Loss:
    """The loss of some rows of a batch counts by their share of it."""
    batch = current()
    if batch is None:
        return loss
    share = batch.own / batch.total
    return Loss(loss.total * share, loss.likelihood, loss.tokens * share)


# ---- batches


class Batches(Generic[Item]):
    """The user's batches in the order that the loop asks for."""

    def __init__(self, data: Iterable[Item] | Callable[[int], Iterable[Item]], seed: int) -> None:
        self.data, self.seed = data, seed
        again(data, "data")

    def order(self, epoch: int) -> Iterator[Item]:
        """The seed is set before every batch: what is drawn for a batch, such as augmentation, must not depend on
        the steps taken since the epoch began, as a resumed training does not take them again."""
        batches = iter(self.data(epoch) if callable(self.data) else self.data)
        place = 0
        while True:
            torch.manual_seed(noise(self.seed, epoch, -2 - place))  # other seeds than those of the steps
            try:
                item = next(batches)
            except StopIteration:
                return
            yield item
            place += 1

    def batch(self, item: Item) -> Any:
        return Moved(item)

    def share(self, item: Item, share: Share) -> tuple[Any, int]:
        first = next(tensors_of(item), None)
        if first is None or not first.dim():
            raise BadInput(
                "under torchrun the rows of a batch are divided among the processes: a batch must hold tensors, "
                f"with its rows as their first dimension; got {type(item).__name__}"
            )
        rows = torch.from_numpy(share.numbers(len(first)))
        total = len(first)
        taken = each_tensor(item, lambda x: x[rows.to(x.device)] if x.dim() and len(x) == total else x)
        return Moved(taken), total


@dataclass(frozen=True)
class Moved:
    """A batch of any form."""

    item: Any

    def to(self, device: torch.device) -> Any:
        return move(self.item, device)


def move(item: Any, device: torch.device) -> Any:
    """`item` with its tensors on the device."""
    if hasattr(item, "to") and not isinstance(item, Tensor):
        return item.to(device)  # a batch that moves itself, as those of transformers' tokenizers
    return each_tensor(item, lambda tensor: send(tensor, device), lambda part: move(part, device))


def each_tensor(item: Any, work: Callable[[Tensor], Tensor], inside: Callable[[Any], Any] | None = None) -> Any:
    """`item` with its tensors, also those in tuples, lists and dicts, as `work` makes them. What holds no tensors
    that we know of stays as it is. `inside`: for the parts of a container, in place of this function."""
    again = inside or (lambda part: each_tensor(part, work))
    if isinstance(item, Tensor):
        return work(item)
    if isinstance(item, Mapping):
        return {key: again(value) for key, value in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(again(value) for value in item))
    if isinstance(item, list | tuple):
        return type(item)(again(value) for value in item)
    return item


def tensors_of(item: Any) -> Iterator[Tensor]:
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    each_tensor(item, keep)
    return iter(found)


def again(data: object, name: str) -> None:
    """BadInput for what can be iterated only once, or not at all."""
    if callable(data):
        return
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise BadInput(f"{name} must be batches, as a list or a DataLoader, got {type(data).__name__}")
    if isinstance(data, Iterator):
        raise BadInput(
            f"{name} is a {type(data).__name__}, which is empty after one pass; give a list, a DataLoader or a "
            "function that returns the batches anew"
        )


# ---- validation


def mean_loss(loss: Callable[[Trained, Item], Tensor], data: Iterable[Item]) -> Callable[[Trained], float]:
    again(data, "validate")

    def measure(model: Trained) -> float:
        device = next(model.parameters()).device

        def work(batch: Item, tick: Callable[[], None]) -> list[Tensor]:
            return [counted_once(loss(model, move(batch, device))).total.cpu()]

        losses = list(each(data, work))
        if not losses:
            raise BadInput("validate has no batch; give it at least one")
        return wide(torch.stack(losses)).mean().item()

    return measure


def by_name(measured: float | Mapping[str, float]) -> Metrics:
    if isinstance(measured, Mapping):
        return dict(measured)
    return {VALID_LOSS: float(measured)}
