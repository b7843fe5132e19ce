"""What people ask for: data, model, decoding, metric and picture tied together."""

from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.tasks import folder
from regard.tasks.folder import find, shipped
from regard.tasks.generate import Continuation, LanguageModel
from regard.tasks.settings import Decoding
from regard.tasks.translate import Answer, Translator
from regard.tasks.weights import RunError

__all__ = [
    "Answer",
    "Continuation",
    "Decoding",
    "LanguageModel",
    "RunError",
    "Translator",
    "find",
    "load",
    "load_as",
    "shipped",
]


Task = TypeVar("Task", Translator, LanguageModel)
COMMANDS = {Translator: "translate", LanguageModel: "generate"}


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
    decode = folder.read_decoding(place)  # what is small comes first: a fault there is told before weights are read
    tokenizer, source_tokenizer = folder.read_tokenizers(place)
    model = folder.read_model(place)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    if model.task == "generate":
        return LanguageModel(model, tokenizer, decode)
    return Translator(model, tokenizer, decode, source_tokenizer=source_tokenizer)
