"""A training whose weights, gradients and optimiser state are divided among the processes: torch's FSDP2.

The model itself is sharded, also while it is validated: no process has all weights on its GPU, but for a translator
of Transformer blocks while it writes. The first process has a whole copy in main memory, to save the best weights.
Checkpoints are written by torch's distributed checkpoint to safetensors files, one for each process, which any
number of processes can read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.attention.memory import Memory
from regard.attention.question import Question
from regard.base import processes
from regard.base.divided import Way
from regard.base.tensors import fill, named_tensors
from regard.layers.block import blocks_of
from regard.layers.synced_norm import synchronise_norms
from regard.learn import checkpoint
from regard.learn.distribute import Learning, Team
from regard.learn.interrupt import Interrupt
from regard.learn.sharded_files import MODEL, OPTIMISER, SCALAR, forms, named
from regard.learn.team import Part, Stepper

T = TypeVar("T")

# FSDP2 fetches and frees weights by hooks on the tensors that go into and come out of a module. Before torch 2.13
# it sees those of a dataclass only if torch knows it.
for passed in (Question, Memory):
    torch.export.register_dataclass(passed)


class ShardedTeam(Team):
    """All processes that torchrun started, with a part of the weights each."""

    sharded = True

    def __init__(self, device: torch.device, precision: str) -> None:
        super().__init__(device)
        self.precision = precision
        self.half = False  # whether the weights of blocks travel, and are there, in bfloat16
        self.copy: Any = None  # of the whole model, in main memory
        self.mesh = DeviceMesh.from_group(self.group, device.type)  # of the CPU also where a GPU is present
        self.saving = dist.new_group(backend="gloo")  # a checkpoint may be written while gradients travel
        # A block adds what its attention returns out of place.
        warnings.filterwarnings("ignore", r"FSDP2-wrapped module \(FSDPMultiHead\) returned a view", UserWarning)
        # cuDNN puts the weights of recurrent layers into one piece at each call.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk", UserWarning)
        self.hooks: dict[nn.Parameter, list[Callable[[Tensor], Tensor | None]]] = {}
        self.own: dict[nn.Parameter, nn.Parameter] = {}  # of each parameter the part that is here

    # -- gradients

    def place(self, model: Any, device: torch.device) -> Any:
        """From main memory to the device part by part: it need not fit there as a whole."""
        model = model.to("cpu")
        self.spread(named_tensors(model))
        if self.is_first:  # before norms have a group of processes, which cannot be copied
            self.copy = deepcopy(model)
        synchronise_norms(model, device)
        hooks = {name: list((weight._backward_hooks or {}).values()) for name, weight in model.named_parameters()}
        # A block with cross-attention belongs to a model that writes while it is validated, in float32 as ever.
        self.half = self.precision == "bfloat16" and not any(block.cross for block in blocks_of(model))
        self.wrapped = shard_blocks(model, self.mesh, half=self.half)
        # FSDP2 makes new parameters, without the hooks of the old ones.
        self.hooks = {weight: hooks[name] for name, weight in model.named_parameters()}
        with torch.no_grad():
            self.own = {
                weight: nn.Parameter(weight.to_local(), weight.requires_grad) for weight in model.parameters()
            }
        return model

    def own_part(self, parameter: nn.Parameter) -> nn.Parameter:
        """Updates are made element by element: by plain tensors, as DTensor would find out for each operation how
        its result is divided."""
        return self.own[parameter]

    def learning(self, model: Any, learn: Callable[[Any], Part]) -> Callable[[Any], Part]:
        self.wrapped.learn = learn
        return self.wrapped

    def forward(self, work: Callable[[], T], *, own_pace: bool = False) -> T:
        """`work` has the weights outside of blocks, and each block its own while it runs. `own_pace`: all of them,
        so that no process needs the others for a block."""
        results: list[T] = []

        def learn(batch: Any) -> Any:
            with self._with_all_blocks() if own_pace else nullcontext():
                results.append(work())

        self.wrapped.learn, before = learn, self.wrapped.learn
        try:
            self.wrapped(None)
        finally:
            self.wrapped.learn = before
        return results[0]

    @contextmanager
    def _with_all_blocks(self) -> Iterator[None]:
        parts = [
            part for part in self.wrapped.modules() if isinstance(part, FSDPModule) and part is not self.wrapped
        ]
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in parts:
                part.set_reshard_after_forward(True, recurse=False)
                part.reshard()

    @contextmanager
    def reducing(self, last: bool) -> Iterator[None]:
        self.wrapped.set_requires_gradient_sync(last)
        yield

    @torch.no_grad()
    def complete(self) -> None:
        for parameter, own in self.own.items():
            gradient: Any = parameter.grad
            if gradient is None:
                continue
            if hooks := self.hooks[parameter]:
                whole = gradient.full_tensor()
                for hook in hooks:
                    changed = hook(whole)
                    whole = whole if changed is None else changed
                gradient = _divided(whole, parameter)
            own.grad, parameter.grad = gradient.to_local(), None

    def whole_norm(self, norm: Tensor) -> Tensor:
        square = norm.double().square()
        dist.all_reduce(square, group=self.group)
        return square.sqrt().to(norm.dtype)

    # -- the model as a whole

    @torch.no_grad()
    def whole_model(self, model: Any) -> Any:
        """Collected tensor by tensor, in main memory."""
        places = named_tensors(self.copy) if self.is_first else {}
        for name, tensor in named_tensors(model).items():
            whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if self.is_first:
                places[name].copy_(whole)
        return self.copy

    @torch.no_grad()
    def average(self, folder: Path, count: int, model: Any, say: checkpoint.Say) -> int:
        used = self.of_first(lambda: checkpoint.average(folder, count, self.copy, say=say))
        if not used:
            return 0
        wholes = named_tensors(self.copy) if self.is_first else {}
        for name, own in named_tensors(model).items():
            whole = torch.empty(own.shape, dtype=own.dtype, device=own.device)
            if self.is_first:
                whole.copy_(wholes[name])
            dist.broadcast(whole, 0, group=processes.group_for(own.device))
            own.copy_(_divided(whole, own))
        return used

    # -- validation

    def validate(self, work: Callable[[], T], interrupt: Interrupt, *, divided: bool) -> T | None:
        assert divided  # what one process does alone cannot use weights of which it has a part
        try:
            return super().validate(work, interrupt, divided=divided)
        finally:
            self.wrapped.reshard()

    def way(self, interrupt: Interrupt) -> Way:
        return InStep(self, interrupt)

    # -- checkpoints

    def writer(self, folder: Path, stepper: Stepper, standing: checkpoint.Standing) -> Callable[[], object]:
        optimiser, settings = stepper.optimiser, stepper.settings
        tensors = self._flat(stepper.model, optimiser)
        if settings.async_save:
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}

        def write() -> None:
            if not self.is_first:
                self._write_files(None, tensors)
                return
            average = settings.average_checkpoints
            with checkpoint.drafted(folder, standing, optimiser, average=average) as (draft, files):
                files |= self._write_files(draft, tensors)

        return write

    def _write_files(self, draft: Path | None, tensors: dict[str, Tensor]) -> dict[str, str]:
        """The sha256 of all files, each of which is read again by one process."""
        path = [draft]
        dist.broadcast_object_list(path, 0, group=self.saving)
        assert path[0] is not None
        writer = HuggingFaceStorageWriter(str(path[0]), save_distributed=True)
        dcp.save(tensors, storage_writer=writer, process_group=self.saving)
        own = sorted(path[0].glob("*.safetensors"))[self.share.rank :: self.share.count]
        digests = {file.name: checkpoint.sha256_of(file) for file in own}
        every: list[Any] = [None] * self.share.count
        dist.all_gather_object(every, digests, group=self.saving)
        return {name: digest for part in every for name, digest in part.items()}

    def load(self, folder: Path, stepper: Stepper, say: checkpoint.Say) -> checkpoint.Standing | None:
        """The first process looks for it, and each reads its part."""
        model, optimiser = stepper.model, stepper.optimiser
        newest = self.of_first(lambda: checkpoint.find_newest(folder, optimiser, _checked, say=say))
        if newest is None:
            return None
        path, standing, sharded = newest
        parameters = dict(model.named_parameters())
        if sharded:
            tensors = {name: _like(name, form, parameters) for name, form in forms(path).items()}
            tensors |= {name: x for name, x in self._flat(model, optimiser).items() if name.startswith(MODEL)}
            dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(path)), process_group=self.saving)
            moments = named(tensors, OPTIMISER)
        else:
            weights, moments = checkpoint.read_plain(path)
            places = named_tensors(model)
            fill(model, {name: _divided(x, places[name]) for name, x in weights.items()}, source=path)
            moments = {name: _divided(x, parameters[name.partition("/")[2]]) for name, x in moments.items()}
        moments = {name: x.to_local() if isinstance(x, DTensor) else x for name, x in moments.items()}
        checkpoint.fill_optimiser(self._own_parts(model), optimiser, moments, source=path)
        return standing

    def _own_parts(self, model: Any) -> dict[str, Tensor]:
        return {name: self.own[parameter] for name, parameter in model.named_parameters()}

    def _flat(self, model: Any, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
        """All tensors of a checkpoint under one name each."""
        parameters = dict(model.named_parameters())
        tensors = {MODEL + name: tensor.detach() for name, tensor in named_tensors(model).items()}
        for name, tensor in checkpoint.optimiser_tensors(self._own_parts(model), optimiser).items():
            tensors[OPTIMISER + name] = _as_part(tensor, parameters[name.partition("/")[2]])
        return {(name if x.dim() else name + SCALAR): (x if x.dim() else x.view(1)) for name, x in tensors.items()}


class InStep(Way):
    """Every forward pass needs all processes: they compute as many batches, and stop between two turns."""

    in_step = True

    def __init__(self, team: ShardedTeam, interrupt: Interrupt) -> None:
        self.team, self.interrupt = team, interrupt

    def run(self, work: Callable[[], Any], *, own_pace: bool) -> Any:
        with torch.autocast(self.team.device.type, torch.bfloat16, enabled=self.team.half):
            return self.team.forward(work, own_pace=own_pace)

    def given_up(self) -> bool:
        return self.interrupt.signalled


def shard_blocks(model: nn.Module, mesh: DeviceMesh, *, half: bool = False) -> Any:
    """Divide a model in place, each Transformer block on its own; returns what is called to learn from a batch.

    half: the weights of blocks travel in bfloat16, gradients in float32. Autocast rounds the same weights the same
    way, so that nothing changes; those of norms, which it does not round, are divided apart from their block."""
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if half else None, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for parameter in model.parameters():  # FSDP2 takes no others; those of convolutions may be channels last
        parameter.data = parameter.data.contiguous()
    for part in model.modules():
        if isinstance(part, nn.RNNBase):
            # For cuDNN it would move its weights into one piece, where FSDP2 does not write those of later steps.
            part.flatten_parameters = _leave_in_place  # type: ignore[method-assign]
    for block in blocks_of(model):
        if block.cross is not None:  # its keys and values are made outside of the block
            fully_shard(block.cross, mesh=mesh)
            register_fsdp_forward_method(block.cross, "remember")
        if half:
            fully_shard([block.attend_norm, block.feed_norm], mesh=mesh)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(Learning(model), mesh=mesh)


def _leave_in_place() -> None:
    pass


def _checked(path: Path, record: dict[str, Any]) -> bool:
    checkpoint.check_files(path, record)
    return checkpoint.is_sharded(record)


def _as_part(own: Tensor, parameter: Any) -> Tensor:
    """A moment as what it is of the whole: a part as that of its parameter. A number is the same everywhere."""
    if not own.dim():
        return own
    mesh, placements = parameter.device_mesh, parameter.placements
    return DTensor.from_local(
        own, mesh, placements, run_check=False, shape=parameter.shape, stride=parameter.stride()
    )


def _like(name: str, form: tuple[torch.Size, torch.dtype], parameters: dict[str, nn.Parameter]) -> Tensor:
    """An empty tensor of the optimiser, divided as its parameter is."""
    size, dtype = form
    parameter = parameters.get(name.removeprefix(OPTIMISER).partition("/")[2])
    if parameter is None or parameter.shape != size:
        return torch.empty(size, dtype=dtype)
    return torch.empty_like(parameter, dtype=dtype)


def _divided(whole: Tensor, like: Tensor) -> Tensor:
    """The part of a tensor that this process has of `like`; every process has the whole."""
    if not isinstance(like, DTensor) or whole.shape != like.shape:
        return whole
    whole = whole.to(like.device)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)
