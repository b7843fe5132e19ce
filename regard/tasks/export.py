"""A run as a folder of `transformers` and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from regard.data.text import Tokenizer
from regard.learn.checkpoint import named_tensors
from regard.models import FORMS
from regard.tasks import find, folder, load
from regard.tasks.weights import RunError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CARD = "README.md"


def export(run: str | Path, to: Path, dtype: str = "float32") -> None:
    """Written beside its place, loaded back and compared, and only then given its name."""
    if dtype not in DTYPES:
        raise RunError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if to.exists():
        raise RunError(f"{to} is there already; name a folder that is not")
    task = load(run)
    known = folder.read_known(find(run))
    if known.tokenizer is not None and not isinstance(known.tokenizer, Tokenizer):
        raise RunError(f"{run} reads text by SentencePiece, whose files are not written here; copy its folder")
    name, form = folder.form_of(task.model)
    if form is None:
        why = FORMS[name].lacks(task.model.config) if name in FORMS else f"transformers has no model like {name}"
        raise RunError(f"{run} cannot be exported: {why}")
    draft = to.with_name(f".tmp-{to.name}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        folder.begin(draft, task.model, known, "", getattr(task, "decode", None), dtype=dtype)
        folder.save_weights(draft, task.model, DTYPES[dtype])
        if (find(run) / CARD).is_file():
            shutil.copyfile(find(run) / CARD, draft / CARD)
        check(load(draft).model, task.model, DTYPES[dtype])
        os.rename(draft, to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check(found: Any, wanted: Any, dtype: torch.dtype) -> None:
    """Every weight came back as it was, but for what the dtype rounds off."""
    back = named_tensors(found)
    for name, tensor in named_tensors(wanted).items():
        if not torch.equal(back[name], tensor.to(dtype).to(tensor.dtype)):
            raise RunError(f"{name} came back changed; nothing was exported")
