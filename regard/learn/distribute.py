"""A training in several processes, by torch.distributed.

The global batch is what the recipe says: each process computes its rows of it, and the loss is the sum over all
tokens of all processes, divided by their number. What is drawn for a row (hard attention's places, an agent's
actions, dropped paths) follows the row; dropout masks are drawn by each process on its own, so they have the same
distribution but are not those of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.base import processes
from regard.base.divided import Way
from regard.base.divided import divided as divide
from regard.base.shared_batch import Share, SharedBatch, begin, counts, sharing
from regard.base.signals import Abandoned
from regard.base.tensors import named_tensors
from regard.layers.synced_norm import synchronise_norms
from regard.learn import checkpoint
from regard.learn.interrupt import Interrupt
from regard.learn.seeds import noise
from regard.learn.team import Alone, Part, Stepper, seed_draws

T = TypeVar("T")
# Its name until torch 2.12, and since.
NAMES = ("broadcast_buffers", "forward_sync_buffers")
BUFFERS = [name for name in NAMES if name in signature(DistributedDataParallel).parameters][-1]


class OwnRows(NamedTuple):
    """A batch of this process, as a part of one with `total` rows."""

    batch: Any
    total: int


class Team(Alone):
    """All processes that torchrun started, with a copy of the model each (DDP)."""

    several = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.group = processes.group_for(device)
        self.share = Share(processes.rank(), processes.count())
        self.is_first = processes.is_first()
        self.generator = torch.Generator(device)
        self.wrapped: Any = None

    # -- batches

    def batch(self, data: Any, item: Any) -> OwnRows:
        return OwnRows(*data.share(item, self.share))

    @contextmanager
    def step(self) -> Iterator[None]:
        with sharing():
            yield

    def begin(self, batch: OwnRows, seed: int, device: torch.device) -> Any:
        self.generator.manual_seed(seed)
        # Rows follow the seed of the step, dropout a seed of the process too.
        seed_draws(seed if self.is_first else noise(seed, 0, self.share.rank), device)
        begin(SharedBatch(self.share, batch.total, self.generator, lambda x: _Sum.apply(x, self.group)))
        return batch.batch.to(device)

    # -- gradients

    def place(self, model: Any, device: torch.device) -> Any:
        model = model.to(device)
        synchronise_norms(model, device)
        self.spread(named_tensors(model))
        return model

    def learning(self, model: Any, learn: Callable[[Any], Part]) -> Callable[[Any], Part]:
        options: dict[str, Any] = {BUFFERS: False}  # they are equal: statistics of batches are synchronised
        options["device_ids"] = [self.device] if self.device.type == "cuda" else None

        def zero(batch: Any) -> Any:
            return _zero_of(model)

        learning = Learning(model, zero)
        self.wrapped = DistributedDataParallel(
            learning, process_group=self.group, gradient_as_bucket_view=True, **options
        )
        # DDP sorts its buckets anew after the first backward pass, and the place of a gradient in its bucket
        # decides in which order three processes or more add it up: here, so that a resumed training does not round
        # its first step in another way.
        self.wrapped(None).backward()
        model.zero_grad()
        learning.learn = learn
        return self.wrapped

    @contextmanager
    def reducing(self, last: bool) -> Iterator[None]:
        if last:
            yield
        else:
            with self.wrapped.no_sync():
                yield

    def weigh(self, part: Part) -> Part:
        """DDP takes the mean over processes, and so the mean loss of each is multiplied by their number. The tokens
        stay on the device: reading them would wait for it."""
        mean, total, tokens = part
        own = torch.stack([total.double(), tokens.double()])
        own = own * counts()
        every = own.clone()
        dist.all_reduce(every, group=self.group)
        factor = self.share.count * own[1] / every[1]
        return mean * factor.to(mean.dtype), every[0], every[1]

    # -- checkpoints

    def writer(self, folder: Path, stepper: Stepper, standing: checkpoint.Standing) -> Callable[[], object]:
        return super().writer(folder, stepper, standing) if self.is_first else lambda: None

    def load(self, folder: Path, stepper: Stepper, say: checkpoint.Say) -> checkpoint.Standing | None:
        """The first process reads it, and the others get it from there."""
        model, optimiser = stepper.model, stepper.optimiser
        standing = self.of_first(lambda: checkpoint.load_newest(folder, model, optimiser, say=say))
        if standing:
            self.spread(named_tensors(model))
            parameters = dict(model.named_parameters())
            moments = self.spread(checkpoint.optimiser_tensors(parameters, optimiser), new=True)
            if not self.is_first:
                checkpoint.fill_optimiser(parameters, optimiser, moments, source=folder)
        return standing

    def average(self, folder: Path, count: int, model: Any, say: checkpoint.Say) -> int:
        used = self.of_first(lambda: checkpoint.average(folder, count, model, say=say))
        self.spread(named_tensors(model))
        return used

    # -- validation

    def validate(self, work: Callable[[], T], interrupt: Interrupt, *, divided: bool) -> T | None:
        if not divided or (self.share.count == 1 and not self.sharded):
            return self.of_first(lambda: interrupt.unless_signalled(work))
        with divide(self.way(interrupt)):
            try:
                return work()
            except Abandoned:  # by all processes
                return None

    def way(self, interrupt: Interrupt) -> Way:
        """How the processes go through the validation data."""
        return OwnPieces(interrupt)

    # -- agreement

    def highest(self, number: int) -> int:
        every = torch.tensor(number)
        dist.all_reduce(every, dist.ReduceOp.MAX, group=processes.group_for(every.device))
        return int(every)

    def of_first(self, work: Callable[[], T]) -> T:
        return processes.of_first(work)

    def together(self) -> AbstractContextManager[None]:
        return processes.together()

    def spread(self, tensors: dict[str, Tensor], *, new: bool = False) -> dict[str, Tensor]:
        forms = {name: (x.shape, x.dtype, x.device.type) for name, x in tensors.items()}
        every = {}
        for name, (shape, dtype, kind) in processes.broadcast(forms).items():
            device = self.device if kind == self.device.type else torch.device(kind)
            own = torch.empty(shape, dtype=dtype, device=device) if new and not self.is_first else tensors[name]
            every[name] = own.detach()
            sent = every[name].contiguous()  # bytes travel as they lie: those of convolutions may be channels last
            dist.broadcast(sent, 0, group=processes.group_for(device))
            every[name].copy_(sent)
        return every


class OwnPieces(Way):
    """Each process does its batches without the others, and gives them up if it gets a signal."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt

    def run(self, work: Callable[[], Any], *, own_pace: bool) -> Any:
        return self.interrupt.unless_signalled(work)

    def given_up(self) -> bool:
        return self.interrupt.signalled


class Learning(nn.Module):
    """Torch's wrappers see to gradients in `forward`: `wrapped.module.loss(batch)` would not synchronise them."""

    def __init__(self, model: nn.Module, learn: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.model, self.learn = model, learn

    def forward(self, batch: Any) -> Any:
        assert self.learn is not None
        return self.learn(batch)


def _zero_of(model: nn.Module) -> Tensor:
    """Of which every gradient is zero."""
    return torch.stack([0 * weight.sum() for weight in model.parameters() if weight.requires_grad]).sum()


class _Sum(torch.autograd.Function):
    """Over all processes. The gradient too: what is summed counts in the loss of each of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Sum.apply(gradient, ctx.group), None
