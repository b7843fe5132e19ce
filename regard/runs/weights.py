"""Weights from disk. Every header is read, and every name and shape is checked, before memory is allocated for a
tensor. Only files beside config.json are opened, whatever an index says. Safetensors, or HDF5 in a form that has
its weights there."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.base.files import LARGEST_JSON, check_regular, explain_os_errors, is_there, parse_json, read_bytes
from regard.base.tensors import CHECKSUM, checksum
from regard.errors import RunError
from regard.foreign.contents import Contents, run_errors
from regard.foreign.form import Form
from regard.foreign.hdf5 import SUFFIX, hdf5_header, read_hdf5
from regard.runs.tensor_file import TensorFile

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (b"\x80", b"PK")  # the first bytes of a pickle, and of the zip file that torch.save writes

# What a tensor may hold, in a file (by safetensors' names) and in a model. Within a kind tensors are converted.
KINDS: dict[str, dict[str, torch.dtype]] = {
    "floating point": {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    "integers": {f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)}
    | {f"U{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)},
    "booleans": {"BOOL": torch.bool},
}

Shape = tuple[int, ...]
Header = dict[str, tuple[Shape, str]]  # shape and dtype of each tensor
Place = tuple[Path, str]  # the file and the name in it


def kind_of(name: str, dtype: str | torch.dtype) -> str:
    """The kind of a tensor, by its dtype in a file or a model. RunError for complex numbers, float8 and others."""
    for kind, dtypes in KINDS.items():
        if dtype in (dtypes if isinstance(dtype, str) else dtypes.values()):
            return kind
    shown = ", ".join(dtype_name for dtypes in KINDS.values() for dtype_name in dtypes)
    raise RunError(f"{name} holds {str(dtype).removeprefix('torch.')}; a run's tensors must be one of {shown}")


def has_weights(folder: Path) -> bool:
    return any(is_there(folder / name) for name in (WEIGHTS, INDEX))


def read_headers(folder: Path, form: Form[Any] | None = None) -> dict[Path, Header]:
    """The headers of a folder's weight files: what they hold."""
    with run_errors():
        own = form.weight_file(Contents(folder)) if form else ""
        files = [folder / own] if own else weight_files(folder)
        return {path: _header(path) for path in files}


def stored_numbers(headers: Mapping[Path, Header]) -> int:
    """How many numbers the files hold."""
    return sum(math.prod(shape) for header in headers.values() for shape, _ in header.values())


def read_weights(
    headers: Mapping[Path, Header],
    wanted: Mapping[str, Tensor],
    form: Form[Any] | None = None,
    copies: Mapping[str, str] | None = None,
) -> dict[str, Tensor]:
    """The tensors of exactly these names, shapes and dtypes, which `wanted` has on the meta device. In another
    library's form some may be missing (`form.optional`) and some may be stored twice (`copies`)."""
    files = list(headers)
    places, repeated, derived = _places(headers, wanted, form, copies or {})
    for name, want in wanted.items():
        if name not in places and not (form and re.fullmatch(form.optional, name)):
            settings = form.config_file if form else "config.json"
            raise RunError(f"{_all(files)}: {name} should be {tuple(want.shape)} by {settings}, but is missing")
    # Each file is opened once, as its header is parsed every time.
    opened = {path: _opened(path) for path in files if path.suffix != SUFFIX}
    for path, name in derived:
        assert form is not None
        form.check_derived(f"{path}: {name}", partial(_read, opened, path, name))
    tensors = {
        name: _read(opened, *places[name], want.dtype)
        if name in places
        else torch.zeros(want.shape, dtype=want.dtype)
        for name, want in wanted.items()
    }
    for path, name, original in repeated:
        first = tensors[original]
        copy = _read(opened, path, name, first.dtype)
        if not ((copy == first) | ((copy != copy) & (first != first))).all():  # NaN is equal to NaN here
            raise RunError(
                f"{path}: {name} differs from {original}, and config.json says that they are tied; if they "
                "are not, set tie_word_embeddings = false there"
            )
    return tensors


def broken_weights(files: list[Path], tensors: Mapping[str, Tensor]) -> str:
    """Which weights are not finite, and in which file; "": all are."""
    broken = [name for name, x in tensors.items() if x.is_floating_point() and not _is_finite(x)]
    shown = ", ".join(broken[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
    return f"{_all(files)}: NaN or infinity in {shown}" if broken else ""


def changed_files(headers: Mapping[Path, Header]) -> list[str]:
    """What to say of each file whose weights are no longer those of its checksum, which regard writes with them."""
    said = []
    for path in headers:
        if path.suffix == SUFFIX:
            continue
        file = _opened(path)
        written = file.metadata.get(CHECKSUM)
        if written and written != checksum((name, _stored(path, file, name)) for name in headers[path]):
            said.append(
                f"{path}: the weights were changed since they were written: their checksum is not the one in "
                "the file. If you did not change them, copy the run again"
            )
    return said


def _is_finite(x: Tensor) -> bool:
    """A quick sum hides neither NaN nor infinity. Large numbers may add up to infinity: look at each then."""
    return bool(x.sum().isfinite() or x.isfinite().all())


def _places(
    headers: Mapping[Path, Header], wanted: Mapping[str, Tensor], form: Form[Any] | None, copies: Mapping[str, str]
) -> tuple[dict[str, Place], list[tuple[Path, str, str]], list[Place]]:
    """Where each wanted tensor is stored, which others are copies of one (path, name, original), and which are
    derived."""
    places: dict[str, Place] = {}
    repeated, derived = [], []
    for path, tensors in headers.items():
        for name, (shape, dtype) in tensors.items():
            full = name if form is None else _full(form.rename(name), wanted, copies, form)
            original = copies.get(full, full)
            if form and re.fullmatch(form.derived, full):
                derived.append((path, name))
                continue
            if not original:
                continue
            settings = form.config_file if form else "config.json"
            _check(f"{path}: {name:.200}", shape, dtype, wanted.get(original), settings)
            if full in copies:
                repeated.append((path, name, original))
            elif full in places:
                raise RunError(f"{path}: {name} is stored twice, also in {places[full][0].name}")
            else:
                places[full] = path, name
    for path, name, original in repeated:
        places.setdefault(original, (path, name))
    return places, repeated, derived


def _check(where: str, shape: Shape, dtype: str, want: Tensor | None, settings: str) -> None:
    """`settings`: the file that says what there should be."""
    if want is None or want.shape != shape:
        should = "absent" if want is None else tuple(want.shape)
        raise RunError(f"{where} should be {should} by {settings}, but is {shape}")
    kind, wanted = kind_of(where, dtype), kind_of(where, want.dtype)
    if kind != wanted:
        raise RunError(f"{where} holds {kind} ({dtype}), and this model has {wanted} there")


def _all(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"the {len(files)} files of {files[0].parent / INDEX}"


def _full(name: str, wanted: Mapping[str, Tensor], copies: Mapping[str, str], form: Form[Any]) -> str:
    """The name with the form's prefix, which files of a model without a head leave out."""
    full = form.prefix + name
    bare = name not in wanted and name not in copies
    return full if bare and (full in wanted or full in copies or re.fullmatch(form.derived, full)) else name


def weight_files(folder: Path) -> list[Path]:
    """model.safetensors, or the files that the index names."""
    if is_there(folder / WEIGHTS):
        return [folder / WEIGHTS]
    path = folder / INDEX
    if not is_there(path):
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.h5")):
            raise RunError(
                f"{folder} has its weights in a pickle or another format that can carry code; that is not opened: "
                f"save them as {WEIGHTS}, as `save_pretrained` of transformers does"
            )
        raise RunError(
            f"{folder} has no {WEIGHTS}; if it is being trained, wait for the first validation; if the training "
            "was killed before that, give the same command with --resume"
        )
    raw = read_bytes(path, LARGEST_JSON)
    try:
        names = sorted(set(parse_json(raw)["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise RunError(f"{path} is not an index of weights: {error!r:.200}") from None
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w-][\w.-]*\.safetensors", name):
            raise RunError(f"{path} names {name!r:.80}; only .safetensors files beside it are allowed")
        if not is_there(folder / name):
            raise RunError(f"{path} names {name}, which is not there; the folder is incomplete")
    if not names:
        raise RunError(f"{path} names no file")
    return [folder / name for name in names]


def _header(path: Path) -> Header:
    if path.suffix == SUFFIX:
        return hdf5_header(path)
    check_regular(path)
    with explain_os_errors(path), open(path, "rb") as file:
        begin = file.read(8)
    if begin.startswith(PICKLES):
        try:
            with safe_open(path, framework="pt"):  # the length of a header may have the same first bytes
                pass
        except SafetensorError:
            raise RunError(f"{path} is a pickle or an archive, not a safetensors file; it is not opened") from None
    if (length := int.from_bytes(begin, "little")) > LARGEST_JSON:
        raise _unreadable(path, f"its header has {length:,} bytes, and at most {LARGEST_JSON:,} are read")
    return _opened(path).header


def _opened(path: Path) -> TensorFile:
    try:
        return TensorFile(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, str(error)) from None


def _stored(path: Path, file: TensorFile, name: str) -> Tensor:
    _, dtype = file.header[name]
    return file.tensor(name, KINDS[kind_of(f"{path}: {name:.200}", dtype)][dtype])


def _unreadable(path: Path, why: str) -> RunError:
    return RunError(f"{path} cannot be read; it is truncated, changed or not a safetensors file: {why:.300}")


def _read(opened: Mapping[Path, TensorFile], path: Path, name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """From one of the opened safetensors files, else from an HDF5 file."""
    tensor = _stored(path, opened[path], name) if path in opened else read_hdf5(path, name)
    if dtype != tensor.dtype and dtype in KINDS["integers"].values() and tensor.numel():
        values, limits = tensor.numpy(), torch.iinfo(dtype)
        low, high = int(values.min()), int(values.max())
        if low < limits.min or high > limits.max:
            raise RunError(
                f"{path}: {name} holds integers from {low:,} to {high:,}, and this model's are {limits.dtype}: "
                f"from {limits.min:,} to {limits.max:,}"
            )
    return tensor.to(dtype)
