"""What a training asks of the other processes, where there are none. `learn.distribute` has the answers of several;
it is imported under torchrun alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.learn import checkpoint
from regard.learn.interrupt import Interrupt
from regard.learn.settings import Training

T = TypeVar("T")


class Stepper(Protocol):
    """The part of `learn.stepper.Stepper` that is saved."""

    model: Any
    optimiser: torch.optim.Optimizer
    settings: Training


Part = tuple[Tensor, Tensor, Tensor]  # the mean loss to differentiate, the total, the tokens


class Alone:
    """One process."""

    is_first = True  # the process that writes files, progress and messages
    several = False
    sharded = False  # whether each process has a part of the weights

    def batch(self, data: Any, item: Any) -> Any:
        """The rows of a batch that are computed here."""
        return data.batch(item)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around a step."""
        yield

    def begin(self, batch: Any, seed: int, device: torch.device) -> Any:
        """The batch on the device, with the seed set for what is drawn for it."""
        seed_draws(seed, device)
        return batch.to(device)

    def place(self, model: Any, device: torch.device) -> Any:
        """The model on its device, with the weights of the first process; each may have a part of them."""
        return model.to(device)

    def learning(self, model: Any, learn: Callable[[Any], Part]) -> Callable[[Any], Part]:
        """`learn`, with gradients that are those of all processes."""
        return learn

    def own_part(self, parameter: nn.Parameter) -> nn.Parameter:
        """What is updated here of a parameter: a plain tensor, which has its gradient after `complete`."""
        return parameter

    def forward(self, work: Callable[[], T]) -> T:
        """Work that calls the model without gradients, made by all processes."""
        return work()

    def reducing(self, last: bool) -> AbstractContextManager[None]:
        """Around the batches of a step, of which the last exchanges the gradients."""
        return nullcontext()

    def weigh(self, part: Part) -> Part:
        """By its tokens among those of all processes."""
        return part

    def highest(self, number: int) -> int:
        """The highest of all processes."""
        return number

    def of_first(self, work: Callable[[], T]) -> T:
        """What the first process finds out by itself, in every process."""
        return work()

    def together(self) -> AbstractContextManager[None]:
        """Around all that needs the others: one that is gone or hangs is named."""
        return nullcontext()

    def complete(self) -> None:
        """Called when the gradients of a step are there."""

    def whole_norm(self, norm: Tensor) -> Tensor:
        """The norm of all gradients, where each process may have a part of them."""
        return norm

    def whole_model(self, model: Any) -> Any:
        """The model with whole weights, to be saved by the first process. Every process must ask."""
        return model

    def validate(self, work: Callable[[], T], interrupt: Interrupt, *, divided: bool) -> T | None:
        """A validation; None where a signal came before its end. `divided`: it goes through its batches by `each`,
        so that every process can do some; else the first does it."""
        return interrupt.unless_signalled(work)

    def average(self, folder: Path, count: int, model: Any, say: checkpoint.Say) -> int:
        """Fill the model with the average of the last checkpoints; how many there were."""
        return checkpoint.average(folder, count, model, say=say)

    def writer(self, folder: Path, stepper: Stepper, standing: checkpoint.Standing) -> Callable[[], object]:
        """Writes a checkpoint, in this or another thread."""
        model, optimiser, settings = stepper.model, stepper.optimiser, stepper.settings
        parts = checkpoint.parts_of(model, optimiser, copied=settings.async_save)
        average = settings.average_checkpoints
        return lambda: checkpoint.save(folder, standing, model, optimiser, average=average, parts=parts)

    def load(self, folder: Path, stepper: Stepper, say: checkpoint.Say) -> checkpoint.Standing | None:
        """Fill model and optimiser from the newest checkpoint that is undamaged; None: there is none."""
        return checkpoint.load_newest(folder, stepper.model, stepper.optimiser, say=say)

    def spread(self, tensors: dict[str, Tensor], *, new: bool = False) -> dict[str, Tensor]:
        """The tensors of the first process, in every process: copied into theirs, or new ones."""
        return tensors


def seed_draws(seed: int, device: torch.device) -> None:
    """As torch.manual_seed, for the CPU and devices of this kind alone: seeding those that are not there takes
    longer than a small step. torch.cuda.manual_seed would seed the current GPU, which may be another."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        module = torch.get_device_module(device)
        getattr(module, "manual_seed_all", module.manual_seed)(seed)  # mps has one device
