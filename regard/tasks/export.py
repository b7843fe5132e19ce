"""A run as a folder of `transformers` alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from regard.data.tokenizer import Tokenizer
from regard.errors import RunError
from regard.foreign import form_of, why_no_form
from regard.learn.checkpoint import named_tensors
from regard.models.protocols import Module
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.table import task_for

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CARD = "README.md"


def export(run: str | Path, to: Path, dtype: str = "float32") -> None:
    """Written under a temporary name, loaded back and compared, and only then renamed."""
    if dtype not in DTYPES:
        raise RunError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if to.exists():
        raise RunError(f"{to} already exists; name a folder that does not")
    folder = Folder(run)
    task = task_for(folder)
    artifacts = task.artifacts(folder)
    if artifacts.tokenizer is not None and not isinstance(artifacts.tokenizer, Tokenizer):
        raise RunError(f"{run} reads text by SentencePiece, whose files are not written here; copy its folder")
    if form_of(folder.name, folder.config) is None:
        raise RunError(f"{run} cannot be exported: {why_no_form(folder.name, folder.config)}")
    model = folder.model()
    draft = to.with_name(f".tmp-{to.name}")
    shutil.rmtree(draft, ignore_errors=True)
    decoding = folder.decoding() if "decode" in task.sections else None
    try:
        begin(draft, model, artifacts, "", decoding, dtype=dtype)
        save_weights(draft, model, DTYPES[dtype])
        if (folder.path / CARD).is_file():
            shutil.copyfile(folder.path / CARD, draft / CARD)
        check(Folder(draft).model(), model, DTYPES[dtype])
        os.rename(draft, to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check(found: Module, wanted: Module, dtype: torch.dtype) -> None:
    """Every weight came back as it was, but for rounding to the dtype."""
    back = named_tensors(found)
    for name, tensor in named_tensors(wanted).items():
        if not torch.equal(back[name], tensor.to(dtype).to(tensor.dtype)):
            raise RunError(f"{name} came back changed; nothing was exported")
