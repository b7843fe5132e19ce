"""A run in memory becomes a folder: a run's own, or one of another library alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch

from regard.base.files import drafted_folder, write_file
from regard.base.tensors import named_tensors
from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import form_of, why_no_form
from regard.learn.progress import say
from regard.models.protocols import Model, Module
from regard.runs.folder import Folder, begin, in_dtype, save_weights, save_weights_in
from regard.runs.weights import INDEX
from regard.wrapped.opening import Wrapping

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CARD = "README.md"
KEPT = (".json", ".jsonl", ".md", ".spm", ".svg", ".toml", ".txt")  # files beside the weights, by their endings


def save(folder: Folder, to: Path, model: Model) -> None:
    """The files of a run's folder, but not its checkpoints, with the weights of the model."""
    check_new(to)
    form = folder.settings.form
    check_ours(folder)
    if form and form.lacks(folder.config):
        save_as_own(folder, to, model)
        return
    with drafted_folder(to) as draft:
        for path in sorted(folder.path.iterdir()):
            if path.suffix in KEPT and path.name != INDEX and path.is_file():
                copy_own(path, draft)
        if form and form.model_type:  # the weights that follow are float32, whatever the folder had
            config = {**folder.contents.json(form.config_file), "dtype": "float32"}
            config.pop("torch_dtype", None)  # its older name
            write_file(draft / form.config_file, (json.dumps(config, indent=2) + "\n").encode())
        save_weights_in(draft, model, form)
        check(Folder(draft).model(), model, torch.float32)


def save_as_own(folder: Folder, to: Path, model: Model) -> None:
    """Save in our own form, if the folder's form can be read but not written."""
    artifacts = Artifacts(folder.tokenizer(), max_length=folder.max_length())
    with drafted_folder(to) as draft:
        begin(draft, model, artifacts, "")
        save_weights(draft, model)
        check(Folder(draft).model(), model, torch.float32)


def export(
    folder: Folder,
    to: Path,
    artifacts: Artifacts,
    decodes: bool,
    *,
    dtype: str = "float32",
    model: Model | None = None,
) -> None:
    """A folder of another library and nothing else. `decodes`: decoding settings go with it. Without a `model`, the
    weights are those of the folder."""
    if dtype not in DTYPES:
        raise RunError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_new(to)
    check_ours(folder)
    if artifacts.tokenizer is not None and not isinstance(artifacts.tokenizer, Tokenizer):
        raise RunError(
            f"{folder.path} reads text by SentencePiece, whose files are not written here; copy its folder"
        )
    if form_of(folder.name, folder.config) is None:
        raise RunError(f"{folder.path} cannot be exported: {why_no_form(folder.name, folder.config)}")
    model = model or folder.model()
    decoding = folder.decoding() if decodes else None
    with drafted_folder(to) as draft:
        begin(draft, model, artifacts, "", decoding, dtype=dtype)
        save_weights(draft, model, DTYPES[dtype])
        if (folder.path / CARD).is_file():
            copy_own(folder.path / CARD, draft)
        check(Folder(draft).model(), model, DTYPES[dtype])


def copy_own(path: Path, to: Path) -> None:
    """Copy a file of a run's folder, but not what a link there finds outside of it: that may be any file of this
    machine. Links of the Hub's cache lead from a snapshot to the blobs beside it."""
    folder = path.parent.resolve()
    if folder.parent.name == "snapshots" and (folder.parent.parent / "blobs").is_dir():
        folder = folder.parent.parent
    if path.resolve().is_relative_to(folder):
        shutil.copyfile(path, to / path.name)
    else:
        say(f"{path} is a link to a file outside of that folder, and was not copied")


def check_ours(folder: Folder) -> None:
    """RunError where the model is another library's."""
    form = folder.settings.form
    if isinstance(form, Wrapping):
        raise RunError(f"{folder.path}: {form.lacks(folder.config)}")


def check_new(to: Path) -> None:
    if os.path.lexists(to):
        raise RunError(f"{to} already exists; name a folder that does not")


def check(reopened: Module, wanted: Module, dtype: torch.dtype) -> None:
    """Every weight came back as it was, but for rounding to the dtype."""
    back = named_tensors(reopened)
    for name, tensor in named_tensors(wanted).items():
        if not torch.equal(back[name], in_dtype(tensor, dtype).to(back[name].dtype).cpu()):
            raise RunError(f"{name} came back changed; nothing was written")
