"""What people ask for: data, model, decoding, metric and picture tied together."""

from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.models import task_of
from regard.tasks import folder
from regard.tasks.folder import find, shipped
from regard.tasks.generate import Continuation, LanguageModel
from regard.tasks.read import Filled, Reader, Sorted
from regard.tasks.recognise import Recognised, Recogniser
from regard.tasks.settings import Decoding
from regard.tasks.translate import Answer, Translator
from regard.tasks.weights import RunError

__all__ = [
    "Answer",
    "Continuation",
    "Decoding",
    "Filled",
    "LanguageModel",
    "Reader",
    "Recognised",
    "Recogniser",
    "RunError",
    "Sorted",
    "Translator",
    "find",
    "load",
    "load_as",
    "shipped",
]


Task = TypeVar("Task", Translator, LanguageModel, Reader, Recogniser)
COMMANDS = {
    Translator: "translate",
    LanguageModel: "generate",
    Reader: "fill, embed or classify",
    Recogniser: "recognise",
}


def load_as(run: str | Path, kind: type[Task]) -> Task:
    """The same, where only one kind of run will do."""
    found = load(run)
    if not isinstance(found, kind):
        raise RunError(
            f"{run} is a {type(found.model).__name__}, which is for `regard {COMMANDS[type(found)]}` "
            f"and not for `regard {COMMANDS[kind]}`"
        )
    return found


def load(run: str | Path) -> Any:
    """The task object of a run: a folder (one of `transformers`, too), else the name of a shipped run."""
    place = find(run)
    task = task_of(*folder.read_config(place))
    writes = task in ("translate", "generate")
    # What is small comes first: a fault there is told before weights are read.
    decode = folder.read_decoding(place) if writes else Decoding()
    known = folder.read_known(place)
    model: Any = folder.read_model(place).to("cuda" if torch.cuda.is_available() else "cpu")
    if task == "translate":
        return Translator(model, known.tokenizer, decode, source_tokenizer=known.source_tokenizer)
    if task == "generate":
        return LanguageModel(model, known.tokenizer, decode)
    if known.pixels:
        return Recogniser(model, known.pixels)
    return Reader(model, known.tokenizer, known.longest)
