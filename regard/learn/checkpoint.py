"""Training state on disk, in safetensors and JSON: OUT/training/step-00000100/. Weights that are divided among
processes are in several files, which each process writes for itself (`learn.shard`); the rest is the same.

A checkpoint is written to a temporary folder, synced and renamed, so a folder named step-... is complete.
Files that are damaged later are found by their sha256 in state.json, and the checkpoint before is used."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load as parse_tensors
from torch import Tensor

from regard.base.files import (
    DRAFT,
    LARGEST_JSON,
    check_regular,
    draft_of,
    drafted_folder,
    parse_json,
    read_bytes,
    sync_folder,
    write_file,
)
from regard.base.tensors import fill, form_of, named_tensors, tensors_to_bytes
from regard.errors import DataError, RunError
from regard.models.protocols import Module

MODEL, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"
Say = Callable[[str], None]
T = TypeVar("T")
Parts = dict[str, dict[str, Tensor]]  # the tensors of each file, by name


@dataclass
class Standing:
    """The training state beside model and optimiser. Noise and data order follow from the seed and the step."""

    step: int = 0  # steps taken
    epoch: int = 0
    index: int = 0  # the next batch of the epoch
    bookmark: list[int] = field(default_factory=list)  # where the data finds that batch again, if it can
    best: dict[str, float] | None = None  # metrics of the best validation
    best_step: int = 0
    stale: int = 0  # validations since the best
    perfect: int = 0  # validations in a row that were perfect, up to this one
    plateau_scale: float = 1.0
    plateau_stale: int = 0
    scaler: dict[str, Any] = field(default_factory=dict)
    baseline: float = 0.0  # the moving baseline of REINFORCE
    chosen: dict[str, Any] = field(default_factory=dict)  # what `auto` stood for, see `learn.auto`
    validated: bool = False  # False: saved by Ctrl-C or SIGTERM between two validations; never averaged
    averaged: int = 0  # how many checkpoints were averaged at the end
    ended: bool = False


class Damaged(Exception):
    """Why a checkpoint cannot be used."""


def optimiser_tensors(parameters: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by parameter name: {"exp_avg/encoder.weight": ...}."""
    tensors = {}
    for name, parameter in parameters.items():
        for key, value in optimiser.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"{key}/{name}"] = torch.as_tensor(value)
    return tensors


def fill_optimiser(
    parameters: Mapping[str, Tensor],
    optimiser: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    *,
    source: Path,
) -> None:
    """The reverse of optimiser_tensors."""
    states: dict[Tensor, dict[str, Tensor]] = {}
    for label, tensor in tensors.items():
        key, _, name = label.partition("/")
        if name not in parameters or tensor.shape not in (parameters[name].shape, torch.Size()):
            raise ValueError(f"{source}: {label} {form_of(tensor)} belongs to no parameter of this model")
        if tensor.shape == parameters[name].shape:  # fused AdamW wants the parameter's memory layout: channels last
            tensor = torch.empty_like(parameters[name], dtype=tensor.dtype).copy_(tensor)
        states.setdefault(parameters[name], {})[key] = tensor
    groups = optimiser.state_dict()["param_groups"]  # torch numbers parameters in the order of the groups
    order = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state = {number: states[parameter] for number, parameter in enumerate(order) if parameter in states}
    optimiser.load_state_dict({"state": state, "param_groups": groups})


# ---- writing


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of run folder OUT, newest first."""
    return sorted((path for path in _named(folder) if path.is_dir()), key=_step_of, reverse=True)


def _named(folder: Path) -> list[Path]:
    return [path for path in (folder / "training").glob("step-*") if re.fullmatch(r"step-[0-9]+", path.name)]


def refuse_files(folder: Path) -> None:
    """RunError for a file or link that is named like a checkpoint: it would be in the way of a checkpoint, and is
    not ours to delete. Beside a checkpoint that training can go on from, files are only moved out of the way."""
    training = folder / "training"  # may be a link to a larger disk
    odd = [path for path in _named(folder) if path.is_symlink() or not path.is_dir()]
    if checkpoints(folder):
        odd = [path for path in odd if path.is_symlink()]
    if os.path.lexists(training) and not training.is_dir():
        odd = [training]
    for path in odd:
        what = "a link" if path.is_symlink() else "a file"
        raise RunError(f"{path} is {what}, and only a folder can be there; move it away, then go on with --resume")


def move_files(folder: Path, say: Say) -> None:
    """Give files that are named like checkpoints another name, where they are in the way of none."""
    for path in _named(folder):
        if path.is_file() and not path.is_symlink():
            aside = path.with_name(f"{path.name}.file-{secrets.token_hex(4)}")
            path.rename(aside)
            say(f"{path} is a file and no checkpoint: it is now {aside.name}")


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def path_of(folder: Path, step: int) -> Path:
    return folder / "training" / f"step-{step:08d}"


def clean(folder: Path) -> None:
    """Remove half-written files of a killed run."""
    for place in (folder, folder / "training", *checkpoints(folder)):  # `update` writes into a checkpoint
        for left in place.glob(f"{DRAFT}*"):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def parts_of(model: Module, optimiser: torch.optim.Optimizer, *, copied: bool = False) -> Parts:
    """The tensors of each file; a copy of them, if the training goes on while they are written."""
    parts = {MODEL: named_tensors(model), OPTIMISER: optimiser_tensors(dict(model.named_parameters()), optimiser)}
    if not copied:
        return parts
    return {file: {name: x.detach().clone() for name, x in part.items()} for file, part in parts.items()}


def save(
    folder: Path,
    standing: Standing,
    model: Module,
    optimiser: torch.optim.Optimizer,
    *,
    average: int = 0,
    parts: Parts | None = None,
) -> Path:
    """Write a checkpoint, then delete older ones. Returns its folder. `parts`: instead of the tensors as they are
    now."""
    with drafted(folder, standing, optimiser, average=average) as (draft, files):
        for name, tensors in (parts or parts_of(model, optimiser)).items():
            data = tensors_to_bytes(tensors)
            files[name] = _sha256(data)
            write_file(draft / name, data)
    return path_of(folder, standing.step)


@contextmanager
def drafted(
    folder: Path, standing: Standing, optimiser: torch.optim.Optimizer, *, average: int
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder that becomes the checkpoint when the block ends; the block writes files there, and their sha256 by
    name into the dict. Older checkpoints are deleted then."""
    path = path_of(folder, standing.step)
    path.parent.mkdir(parents=True, exist_ok=True)
    with drafted_folder(path) as draft:
        files: dict[str, str] = {}
        yield draft, files
        _write_state(draft, standing, files, type(optimiser).__name__)
        if path.exists():  # a damaged checkpoint that was skipped when the run was resumed
            remove(path)
    sync_folder(path.parent)
    _prune(folder, standing.step, average)


def update(folder: Path, standing: Standing, *, average: int = 0) -> Path:
    """Rewrite state.json of the checkpoint of standing.step; its tensors stay. Older checkpoints, left by a run
    that was killed within `save`, are deleted."""
    _prune(folder, standing.step, average)
    path = path_of(folder, standing.step)
    record = _read_state(path)
    _write_state(path, standing, record["files"], record["optimiser"])
    return path


def _write_state(path: Path, standing: Standing, files: dict[str, str], optimiser: str) -> None:
    record: dict[str, Any] = {"standing": asdict(standing), "files": files, "optimiser": optimiser}
    record["sha256"] = _sha256(_canonical(record))
    write_file(path / STATE, _canonical(record))


def _canonical(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, indent=1).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _prune(folder: Path, step: int, average: int) -> None:
    """Keep the newest two checkpoints and the validated ones that will be averaged.

    Checkpoints after `step` are damaged; they were skipped when the run was resumed."""
    past = [path for path in checkpoints(folder) if _step_of(path) <= step]
    keep = past[:2] + [path for path in past if _validated(path)][:average]
    for path in checkpoints(folder):
        if path not in keep:
            remove(path)


def remove(path: Path) -> None:
    """Rename, then delete: a run killed in between leaves nothing that looks like a checkpoint."""
    away = draft_of(path)
    os.rename(path, away)
    shutil.rmtree(away)


def _validated(path: Path) -> bool:
    try:
        return bool(_read_state(path)["standing"]["validated"])
    except Damaged:
        return False


# ---- reading


def _read_state(path: Path) -> dict[str, Any]:
    try:
        record = parse_json(read_bytes(path / STATE, LARGEST_JSON))
        digest = record.pop("sha256")
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise Damaged(f"{STATE} cannot be read ({error})") from error
    if digest != _sha256(_canonical(record)):
        raise Damaged(f"{STATE} was altered (its sha256 does not match)")
    return record


def _read_tensors(path: Path, name: str, record: dict[str, Any]) -> dict[str, Tensor]:
    try:
        check_regular(path / name)
        data = (path / name).read_bytes()
    except (OSError, DataError) as error:
        raise Damaged(f"{name} cannot be read ({error})") from error
    if _sha256(data) != record["files"].get(name):
        raise Damaged(f"{name} was truncated or altered (its sha256 does not match)")
    return parse_tensors(data)


def load_newest(folder: Path, model: Module, optimiser: torch.optim.Optimizer, *, say: Say) -> Standing | None:
    """Fill model and optimiser from the newest checkpoint that is undamaged; None if there is no checkpoint."""
    newest = find_newest(folder, optimiser, _read, say=say)
    if newest is None:
        return None
    path, standing, (weights, moments) = newest
    fill(model, weights, source=path / MODEL)
    fill_optimiser(dict(model.named_parameters()), optimiser, moments, source=path / OPTIMISER)
    return standing


def find_newest(
    folder: Path, optimiser: torch.optim.Optimizer, read: Callable[[Path, dict[str, Any]], T], *, say: Say
) -> tuple[Path, Standing, T] | None:
    """The newest checkpoint that is undamaged and what `read` reads of it; None if there is no checkpoint. A
    checkpoint is tried by its path and what its state.json says; `read` raises Damaged."""
    paths = checkpoints(folder)
    for path in paths:
        try:
            record = _read_state(path)
            contents = read(path, record)
            standing = _standing(record)
        except Damaged as damage:
            say(f"{path} is skipped: {damage}")
            continue
        if record["optimiser"] != type(optimiser).__name__:
            raise ValueError(
                f"{path} was written with {record['optimiser']}, the settings now ask for "
                f"{type(optimiser).__name__}. Resume with the optimiser it was written with"
            )
        return path, standing, contents
    if paths:
        raise ValueError(
            f"none of the {len(paths)} checkpoints in {folder / 'training'} can be used. "
            f"Delete that folder to train from the start"
        )
    return None


def _read(path: Path, record: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights, and the optimiser's tensors."""
    if not is_sharded(record):
        weights, moments = (_read_tensors(path, name, record) for name in (MODEL, OPTIMISER))
        return weights, moments
    from regard.learn.sharded_files import read_whole  # torch.distributed is imported for these alone

    check_files(path, record)
    return read_whole(path)


def read_plain(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and the optimiser's tensors of a checkpoint that was checked."""
    return _read(path, _read_state(path))


def is_sharded(record: dict[str, Any]) -> bool:
    """Whether several processes have written the tensors."""
    return MODEL not in record["files"]


def check_files(path: Path, record: dict[str, Any]) -> None:
    """Damaged unless every file is as it was written."""
    for name, digest in record["files"].items():
        try:
            check_regular(path / name)
            found = sha256_of(path / name)
        except (OSError, DataError) as error:
            raise Damaged(f"{name} cannot be read ({error})") from error
        if found != digest:
            raise Damaged(f"{name} was truncated or altered (its sha256 does not match)")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _standing(record: dict[str, Any]) -> Standing:
    try:
        return Standing(**record["standing"])
    except TypeError as error:
        raise Damaged(f"{STATE} was written by another version ({error})") from error


def chosen_before(folder: Path) -> dict[str, Any] | None:
    """What `auto` stood for in the newest checkpoint; None: there is none."""
    for path in checkpoints(folder):
        try:
            return _standing(_read_state(path)).chosen
        except Damaged:  # the checkpoint before is used
            continue
    return None


def _whole(folder: Path, say: Say) -> Iterator[dict[str, Tensor]]:
    for path in checkpoints(folder):
        if not _validated(path):
            continue
        try:
            yield _read(path, _read_state(path))[0]
        except Damaged as damage:
            say(f"{path} is left out of the average: {damage}")


def average(folder: Path, count: int, model: Module, *, say: Say) -> int:
    """Fill the model with the float64 mean of the newest `count` validated checkpoints; returns how many it used.

    Integer tensors (counters) are not averaged: the newest is kept."""
    total: dict[str, Tensor] = {}
    used = 0
    for tensors in _whole(folder, say):
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                total.setdefault(name, tensor)
            else:
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        used += 1
        if used == count:
            break
    if used:
        own = named_tensors(model)
        means = {name: (x / used).to(own[name].dtype) if x.is_floating_point() else x for name, x in total.items()}
        fill(model, means, source=folder / "training")
    return used
