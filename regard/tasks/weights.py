"""Weights from disk. Every header is read, and every name and shape compared, before memory is taken for a tensor.
Files are looked for beside config.json and nowhere else, whatever an index says."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.layers.positions import sinusoids
from regard.models.foreign import Form
from regard.models.transformer import halves

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST_INDEX = 16 << 20
PICKLES = (b"\x80", b"PK")  # how a pickle and torch's zip of one begin

KINDS = ("F32", "F16", "BF16", "F64")

Shape = tuple[int, ...]
Header = dict[str, tuple[Shape, str]]  # of each tensor its shape and kind of number
Place = tuple[Path, str]  # the file and the name in it


class RunError(ValueError):
    """A run folder that is missing, half there or not what it claims to be."""


def has_weights(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (WEIGHTS, INDEX))


def read_headers(folder: Path) -> dict[Path, Header]:
    """What the files of a folder say they hold."""
    return {path: _header(path) for path in _files(folder)}


def read_weights(
    headers: Mapping[Path, Header],
    wanted: Mapping[str, Shape],
    form: Form | None = None,
    copies: Mapping[str, str] | None = None,
) -> dict[str, Tensor]:
    """The tensors of just these names and shapes, in float32. A foreign form may lack some and repeat others."""
    files = list(headers)
    places, repeated = _places(headers, wanted, form, copies or {})
    for name, shape in wanted.items():
        if name not in places and not (form and name in form.may_lack):
            raise RunError(f"{_all(files)}: {name} should be {shape} by config.json, it is absent")
    tensors = {name: _read(*places[name]) if name in places else torch.zeros(wanted[name]) for name in wanted}
    for path, name, original in repeated:
        if not torch.allclose(_read(path, name), tensors[original], rtol=0, atol=0, equal_nan=True):
            raise RunError(
                f"{path}: {name} is another table than {original}, and config.json says they are one; "
                "if they are two, it must say tie_word_embeddings = false"
            )
    if form:
        _check_positions(headers)
    if broken := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        shown = ", ".join(broken[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
        warnings.warn(
            f"{_all(files)}: {shown} hold numbers that are not finite; what this model answers will be of no use",
            RuntimeWarning,
            stacklevel=2,
        )
    return tensors


def _places(
    headers: Mapping[Path, Header], wanted: Mapping[str, Shape], form: Form | None, copies: Mapping[str, str]
) -> tuple[dict[str, Place], list[tuple[Path, str, str]]]:
    """Where each wanted tensor lies, and which others only repeat one (path, name, original)."""
    places: dict[str, Place] = {}
    repeated = []
    for path, tensors in headers.items():
        for name, (shape, kind) in tensors.items():
            known = name if form is None else _full(form.rename(name), wanted, copies, form)
            original = copies.get(known, known)
            if not original or (form and re.fullmatch(form.computed, known)):
                continue
            if wanted.get(original) != shape:
                should = wanted.get(original, "absent")
                raise RunError(f"{path}: {name:.200} should be {should} by config.json, it is {shape}")
            if kind not in KINDS:
                raise RunError(f"{path}: {name} holds {kind}; weights must be one of {', '.join(KINDS)}")
            if known in copies:
                repeated.append((path, name, original))
            elif known in places:
                raise RunError(f"{path}: {name} is there a second time, also in {places[known][0].name}")
            else:
                places[known] = path, name
    for path, name, original in repeated:
        places.setdefault(original, (path, name))
    return places, repeated


def _all(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"the {len(files)} files of {files[0].parent / INDEX}"


def _full(name: str, wanted: Mapping[str, Shape], copies: Mapping[str, str], form: Form) -> str:
    """The name as the whole model's file has it; one of the bare model leaves the front out."""
    full = form.prefix + name
    bare = name not in wanted and name not in copies
    return full if bare and (full in wanted or full in copies or re.fullmatch(form.computed, full)) else name


def _files(folder: Path) -> list[Path]:
    """The file of weights, or those that the index names."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    path = folder / INDEX
    if not path.is_file():
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.h5")):
            raise RunError(
                f"{folder} has its weights in a pickle or another form that can carry code, which is not opened; "
                f"save them as {WEIGHTS}, as `save_pretrained` of transformers does"
            )
        raise RunError(f"{folder} has no {WEIGHTS}; if it is being trained, no validation has come yet")
    if path.stat().st_size > LARGEST_INDEX:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes; no index is that large")
    try:
        names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is not an index of weights: {error!r:.200}") from None
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w-][\w.-]*\.safetensors", name):
            raise RunError(f"{path} names {name!r:.80}; it may name .safetensors files beside it and no others")
        if not (folder / name).is_file():
            raise RunError(f"{path} names {name}, which is not there; the folder is not whole")
    if not names:
        raise RunError(f"{path} names no file")
    return [folder / name for name in names]


def _header(path: Path) -> Header:
    with open(path, "rb") as file:
        begin = file.read(2)
    if begin[:1] == PICKLES[0] or begin == PICKLES[1]:
        try:
            with safe_open(path, framework="pt"):  # a header may be of a length that begins so
                pass
        except SafetensorError:
            raise RunError(f"{path} is a pickle or an archive and no safetensors file; it is not opened") from None
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (tuple(one.get_shape()), one.get_dtype()) for name, one in slices.items()}


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise RunError(
            f"{path} cannot be read; it is cut short, altered or no safetensors file: {error!s:.300}"
        ) from None


def _read(path: Path, name: str) -> Tensor:
    with _opened(path) as file:
        return file.get_tensor(name).float()


def _check_positions(headers: Mapping[Path, Header]) -> None:
    """Old files store Marian's sinusoids. Were they others, they could not be left out."""
    for path, tensors in headers.items():
        for name, (shape, kind) in tensors.items():
            if not name.endswith("embed_positions.weight"):
                continue
            table = _read(path, name) if len(shape) == 2 and kind in KINDS else torch.empty(0, 2)
            ours = halves(sinusoids(torch.arange(len(table)), table.shape[-1]))
            if not len(table) or not torch.allclose(table, ours, atol=2e-3):  # bfloat16 has no more digits
                raise RunError(f"{path}: {name} holds no sinusoids; other positions have no counterpart here")
