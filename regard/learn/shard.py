"""A training whose weights, gradients and optimiser state are divided among the processes: torch's FSDP2.

What is trained is a sharded copy. The model itself stays whole, in main memory between validations, so that
everything else in the library sees plain tensors. Checkpoints are written by torch's distributed checkpoint to
safetensors files, one for each process, which any number of processes can read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.base.tensors import fill, named_tensors
from regard.layers.block import blocks_of
from regard.layers.synced_norm import synchronise_norms
from regard.learn import checkpoint
from regard.learn.distribute import Learning, Team
from regard.learn.sharded_files import MODEL, OPTIMISER, SCALAR, forms, named
from regard.learn.team import Part, Stepper


class ShardedTeam(Team):
    """All processes that torchrun started, with a part of the weights each."""

    sharded = True

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.mesh = DeviceMesh.from_group(self.group, device.type)  # of the CPU also where a GPU is present
        self.saving = dist.new_group(backend="gloo")  # a checkpoint may be written while gradients travel
        # A block adds what its attention returns out of place.
        warnings.filterwarnings("ignore", r"FSDP2-wrapped module \(FSDPMultiHead\) returned a view", UserWarning)
        self.hooked: list[tuple[Any, list[Callable[[Tensor], Tensor | None]]]] = []

    # -- gradients

    def trained(self, model: Any) -> Any:
        synchronise_norms(model)
        self.spread(named_tensors(model))
        copy = deepcopy(model)
        self.wrapped = shard_blocks(copy, self.mesh)
        self._keep_hooks(model, copy)
        if self.device.type != "cpu":
            model.to("cpu")
        return copy

    def _keep_hooks(self, model: nn.Module, copy: nn.Module) -> None:
        """FSDP2 makes new parameters, without the hooks of the old ones."""
        sharded = dict(copy.named_parameters())
        for name, parameter in model.named_parameters():
            if hooks := list((parameter._backward_hooks or {}).values()):
                self.hooked.append((sharded[name], hooks))

    def learning(self, trained: Any, learn: Callable[[Any], Part]) -> Callable[[Any], Part]:
        self.wrapped.learn = learn
        return self.wrapped

    @contextmanager
    def reducing(self, last: bool) -> Iterator[None]:
        self.wrapped.set_requires_gradient_sync(last)
        yield

    def complete(self) -> None:
        for parameter, hooks in self.hooked:
            if parameter.grad is None:
                continue
            whole = parameter.grad.full_tensor()
            for hook in hooks:
                changed = hook(whole)
                whole = whole if changed is None else changed
            parameter.grad = _divided(whole, parameter)

    def whole(self, number: Tensor) -> Tensor:
        """A norm of sharded gradients is a partial sum until it is asked for as a whole."""
        return number.full_tensor() if isinstance(number, DTensor) else number

    # -- the model as a whole

    @torch.no_grad()
    def collect(self, trained: Any, model: Any) -> None:
        model.to(self.device)
        places = named_tensors(model)
        for name, tensor in named_tensors(trained).items():
            places[name].copy_(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor)

    # -- checkpoints

    def writer(self, folder: Path, stepper: Stepper, standing: checkpoint.Standing) -> Callable[[], object]:
        optimiser, settings = stepper.optimiser, stepper.settings
        tensors = _flat(stepper.trained, optimiser)
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
        trained, optimiser = stepper.trained, stepper.optimiser
        newest = self.of_first(lambda: checkpoint.find_newest(folder, optimiser, _checked, say=say))
        if newest is None:
            return None
        path, standing, sharded = newest
        parameters = dict(trained.named_parameters())
        if sharded:
            tensors = {name: _like(name, form, parameters) for name, form in forms(path).items()}
            tensors |= {name: x for name, x in _flat(trained, optimiser).items() if name.startswith(MODEL)}
            dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(path)), process_group=self.saving)
            moments = named(tensors, OPTIMISER)
        else:
            weights, moments = checkpoint.read_plain(path)
            own = named_tensors(trained)
            fill(trained, {name: _divided(x, own[name]) for name, x in weights.items()}, source=path)
            moments = {name: _divided(x, parameters[name.partition("/")[2]]) for name, x in moments.items()}
        checkpoint.fill_optimiser(trained, optimiser, moments, source=path)
        return standing


def shard_blocks(model: nn.Module, mesh: DeviceMesh) -> Any:
    """Divide a model in place, each Transformer block on its own; returns what is called to learn from a batch."""
    for parameter in model.parameters():  # FSDP2 takes no others; those of convolutions may be channels last
        parameter.data = parameter.data.contiguous()
    for block in blocks_of(model):
        if block.cross is not None:  # its keys and values are made outside of the block
            fully_shard(block.cross, mesh=mesh)
            register_fsdp_forward_method(block.cross, "remember")
        fully_shard(block, mesh=mesh)
    return fully_shard(Learning(model), mesh=mesh)


def _checked(path: Path, record: dict[str, Any]) -> bool:
    checkpoint.check_files(path, record)
    return checkpoint.is_sharded(record)


def _flat(model: Any, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """All tensors of a checkpoint under one name each."""
    weights, moments = named_tensors(model), checkpoint.optimiser_tensors(model, optimiser)
    tensors = {MODEL + name: tensor.detach() for name, tensor in weights.items()}
    tensors |= {OPTIMISER + name: tensor.detach() for name, tensor in moments.items()}
    return {(name if x.dim() else name + SCALAR): (x if x.dim() else x.view(1)) for name, x in tensors.items()}


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
