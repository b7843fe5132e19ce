"""What computes a run's answers: torch, in float32 or int8, or CTranslate2 from a folder that is written once.

The folder is kept in the user's cache: opening a run writes nothing into it, and a stranger's run cannot bring one
along. Its name is the checksum of the weights, so that weights that change are written again."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.base.cache_place import cache_folder
from regard.base.files import drafted_folder
from regard.base.tensors import checksums, named_tensors
from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, RunError
from regard.foreign import ctranslate2_files
from regard.layers.int8 import take_int8
from regard.learn.progress import say
from regard.runs.engine_names import INT8, TORCH
from regard.runs.folder import SOURCE_TOKENIZER, TOKENIZER
from regard.runs.writing import check_new

if TYPE_CHECKING:
    from regard.runs.folder import Folder

FORM = 1  # of the folders that are kept: a new number writes them again
KEPT = "engines"  # of the cache
MODEL = "model.bin"
UNUSED = 30 * 24 * 3600.0  # seconds after which a folder that nobody used is deleted


def take_engine(folder: Folder, model: Any, artifacts: Artifacts, engine: str, dtype: str) -> None:
    """Let this engine compute for a model of a run, which is on its device."""
    if engine == TORCH:
        if dtype == INT8 and not take_int8(model):
            raise BadInput(f"dtype int8: {folder.path} has no product that is large enough; take dtype float32")
        return
    check_ctranslate2(folder.path, model)
    names, sources, end = token_names(model, artifacts)
    place = kept_folder(folder, model, names, sources, end, dtype)
    model.engine = engine_class(model)(model, place, dtype, names, end, sources)


def check_ctranslate2(run: Path, model: Any) -> None:
    """An error where CTranslate2 is not installed, or cannot have this model."""
    if reason := ctranslate2_files.why_not(model):
        raise RunError(f"{run} cannot be asked by the engine ctranslate2: {reason}")
    if (device := next(model.parameters()).device).type != "cpu":
        raise BadInput(f"the engine ctranslate2 is for the CPU here, and the device is {device}; take device cpu")
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        raise BadInput("the engine ctranslate2 is an extra: pip install 'regard[fast]'") from None


def token_names(model: Any, artifacts: Artifacts) -> tuple[list[str], list[str], int]:
    """The names of the tokens, of those of the source where it has a vocabulary of its own, and the end token."""
    config = model.config
    target = artifacts.tokenizer
    source = artifacts.source_tokenizer
    end = getattr(getattr(target, "special", None), "end", 0) if target is not None else 0
    names = names_of(target, config.vocabulary)
    return names, names_of(source, config.source_vocabulary) if source is not None else [], max(0, end)


def names_of(tokenizer: Any, count: int) -> list[str]:
    """A name for each token, no two the same."""
    known = isinstance(tokenizer, Tokenizer) and "inner" in vars(tokenizer)
    size = tokenizer.inner.get_vocab_size() if known else 0
    names = [tokenizer.inner.id_to_token(number) for number in range(min(size, count))]
    return [name or f"<unused {number}>" for number, name in enumerate(names)] + [
        f"<unused {number}>" for number in range(len(names), count)
    ]


def kept_folder(
    folder: Folder, model: Any, names: Sequence[str], sources: Sequence[str], end: int, dtype: str
) -> Path:
    """Where the model stands as CTranslate2 reads it; written if it is not there."""
    told = [checksums(named_tensors(model).items()), repr(model.config), *names, *sources, str(end)]
    name = f"ctranslate2-{dtype}-{FORM}-{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:24]}"
    place = cache_folder() / KEPT / name
    if (place / MODEL).is_file():
        with suppress(OSError):
            os.utime(place)
        return place
    say(f"{folder.path.name} is written for CTranslate2 in {dtype}, once: {place}")
    try:
        with drafted_folder(place) as draft:
            ctranslate2_files.write(model, draft, names, end, sources=sources, dtype=dtype)
    except OSError:
        if not (place / MODEL).is_file():  # else another process has written it meanwhile
            raise
    for older in place.parent.iterdir():
        with suppress(OSError):
            if older.stat().st_mtime < time.time() - UNUSED:
                shutil.rmtree(older)
    return place


def export_ctranslate2(folder: Folder, to: Path, artifacts: Artifacts, dtype: str, model: Any = None) -> None:
    """A folder of CTranslate2 with the tokenizers beside it, which is opened before it gets its name."""
    check_new(to)
    model = model or folder.model()
    check_ctranslate2(folder.path, model)
    names, sources, end = token_names(model, artifacts)
    with drafted_folder(to) as draft:
        ctranslate2_files.write(model, draft, names, end, sources=sources, dtype=dtype)
        artifacts.own_tokenizer.save(draft / TOKENIZER)
        if artifacts.source_tokenizer is not None:
            artifacts.source_tokenizer.save(draft / SOURCE_TOKENIZER)
        engine_class(model)(model, draft, "default", names, end, sources).workers(1)


def engine_class(model: Any) -> Any:
    from regard.runs.ctranslate2_engine import ENGINES

    return ENGINES[type(model)]
