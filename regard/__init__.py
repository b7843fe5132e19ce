"""regard: attention models. A query looks at a memory.

    run = regard.load("dates")                 # a folder, a shipped run, or org/name on the Hugging Face Hub
    run.translate("3 May 1979").text
    run = regard.train("bahdanau-dates", out="runs/mine", set={"train.steps": 300})
    model = regard.load_model("runs/mine")     # the torch module alone

`import regard` does not import torch; what needs it does so when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from regard.errors import (
    BadInput,
    DataError,
    Diverged,
    DownloadError,
    Interrupted,
    NoAttention,
    NoTokenizer,
    OutOfMemory,
    PeerLost,
    RecipeError,
    RunError,
    Unanswered,
    Unrepresentable,
    WrongArgument,
)

if TYPE_CHECKING:
    from torch import nn

    from regard import attention, data, decode, layers, learn, metrics, models, show
    from regard.tasks.ask.run import QuestionReader
    from regard.tasks.caption.run import Captioner
    from regard.tasks.core.run import Run
    from regard.tasks.core.sweep import Sweep
    from regard.tasks.embed.run import Embedder
    from regard.tasks.fewshot.run import FewShot
    from regard.tasks.generate.run import LanguageModel
    from regard.tasks.play.run import Agent
    from regard.tasks.recall.run import Recaller
    from regard.tasks.recognise.run import Recogniser
    from regard.tasks.shared.reader import Reader
    from regard.tasks.shared.text_reader import TextReader
    from regard.tasks.translate.run import Translator

__version__ = "0.1.0"

# Loaded when they are first asked for.
PACKAGES = ("attention", "data", "decode", "layers", "learn", "metrics", "models", "show")
CLASSES = {
    "Agent": "regard.tasks.play.run",
    "Captioner": "regard.tasks.caption.run",
    "Embedder": "regard.tasks.embed.run",
    "FewShot": "regard.tasks.fewshot.run",
    "LanguageModel": "regard.tasks.generate.run",
    "QuestionReader": "regard.tasks.ask.run",
    "Reader": "regard.tasks.shared.reader",
    "Recaller": "regard.tasks.recall.run",
    "Recogniser": "regard.tasks.recognise.run",
    "Run": "regard.tasks.core.run",
    "TextReader": "regard.tasks.shared.text_reader",
    "Translator": "regard.tasks.translate.run",
}
__all__ = [
    "Agent",
    "BadInput",
    "Captioner",
    "DataError",
    "Diverged",
    "DownloadError",
    "Embedder",
    "FewShot",
    "Interrupted",
    "LanguageModel",
    "NoAttention",
    "NoTokenizer",
    "OutOfMemory",
    "PeerLost",
    "QuestionReader",
    "Reader",
    "Recaller",
    "RecipeError",
    "Recogniser",
    "Run",
    "RunError",
    "TextReader",
    "Translator",
    "Unanswered",
    "Unrepresentable",
    "WrongArgument",
    "attention",
    "data",
    "decode",
    "divided",
    "layers",
    "learn",
    "load",
    "load_model",
    "metrics",
    "models",
    "show",
    "sweep",
    "train",
]


Door = TypeVar("Door", bound=Callable[..., Any])


def _checked(function: Door) -> Door:
    """As `regard.base.arguments.checked`, which is imported when first needed: `import regard` is quick.

    The rows of `data` are checked where they are read."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        from regard.base.arguments import checking

        return checking(function, unchecked=("data",))(*args, **keywords)

    return call  # type: ignore[return-value]


class Computed(TypedDict, total=False):
    device: str
    engine: str
    dtype: str


# What a folder holds is known only when it is opened: with `task`, which is checked then, the type is known before.
@overload
def load(
    run: Literal["dates", "dates-luong", "dates-seq2seq", "de-en"], *, task: None = ..., **how: Unpack[Computed]
) -> Translator: ...
@overload
def load(
    run: Literal["sentences-lstmn", "shakespeare", "shakespeare-rnnlm"],
    *,
    task: None = ...,
    **how: Unpack[Computed],
) -> LanguageModel: ...
@overload
def load(run: Literal["paragraphs", "sentences-bert"], *, task: None = ..., **how: Unpack[Computed]) -> Reader: ...
@overload
def load(run: Literal["facts"], *, task: None = ..., **how: Unpack[Computed]) -> QuestionReader: ...
@overload
def load(run: Literal["sentences-elmo"], *, task: None = ..., **how: Unpack[Computed]) -> Embedder: ...
@overload
def load(
    run: Literal["reviews", "reviews-pooling"], *, task: None = ..., **how: Unpack[Computed]
) -> TextReader: ...
@overload
def load(
    run: Literal["associative-recall", "copy", "copy-lstm"], *, task: None = ..., **how: Unpack[Computed]
) -> Recaller: ...
@overload
def load(run: Literal["bandits"], *, task: None = ..., **how: Unpack[Computed]) -> Agent: ...
@overload
def load(run: Literal["omniglot"], *, task: None = ..., **how: Unpack[Computed]) -> FewShot: ...
@overload
def load(
    run: Literal["photos", "scenes", "scenes-show-and-tell"], *, task: None = ..., **how: Unpack[Computed]
) -> Captioner: ...
@overload
def load(run: Literal["shapes", "shapes-senet"], *, task: None = ..., **how: Unpack[Computed]) -> Recogniser: ...
@overload
def load(run: str | Path, *, task: Literal["translate"], **how: Unpack[Computed]) -> Translator: ...
@overload
def load(run: str | Path, *, task: Literal["generate"], **how: Unpack[Computed]) -> LanguageModel: ...
@overload
def load(run: str | Path, *, task: Literal["fill"], **how: Unpack[Computed]) -> Reader: ...
@overload
def load(run: str | Path, *, task: Literal["follows"], **how: Unpack[Computed]) -> Reader: ...
@overload
def load(run: str | Path, *, task: Literal["ask"], **how: Unpack[Computed]) -> QuestionReader: ...
@overload
def load(run: str | Path, *, task: Literal["embed"], **how: Unpack[Computed]) -> Embedder: ...
@overload
def load(run: str | Path, *, task: Literal["classify"], **how: Unpack[Computed]) -> TextReader: ...
@overload
def load(run: str | Path, *, task: Literal["recognise"], **how: Unpack[Computed]) -> Recogniser: ...
@overload
def load(run: str | Path, *, task: Literal["caption"], **how: Unpack[Computed]) -> Captioner: ...
@overload
def load(run: str | Path, *, task: Literal["fewshot"], **how: Unpack[Computed]) -> FewShot: ...
@overload
def load(run: str | Path, *, task: Literal["play"], **how: Unpack[Computed]) -> Agent: ...
@overload
def load(run: str | Path, *, task: Literal["recall"], **how: Unpack[Computed]) -> Recaller: ...
@overload
def load(run: str | Path, *, task: None = ..., **how: Unpack[Computed]) -> Run: ...
@_checked
def load(
    run: str | Path,
    *,
    device: str = "auto",
    engine: str = "torch",
    dtype: str = "float32",
    task: str | None = None,
) -> Run:
    """Open a run, to ask it: `regard.load("dates").translate("3 May 1979")`.

    run: the folder of a run or of a `transformers` model, the name of a shipped run, or org/name on the Hugging
        Face Hub, which is looked for in its cache and else downloaded.
    device: torch's name for one (cpu, cuda, cuda:1, mps); auto: a GPU if there is one.
    engine: torch, or ctranslate2 (the extra `fast`), which answers by Transformers, GPT-2 and BERT on the CPU;
        where they looked is computed by torch, from the same answer.
    dtype: float32, or int8: weights of 8 bits, faster on the CPU and a little less exact.
    task: translate, generate, fill, follows, ask, embed, classify, recognise, caption, fewshot, play or recall.
        RunError if the run cannot be asked to do this; editors and type checkers then know what `load` returns."""
    from regard.tasks.core.table import load, load_for, task_named

    computed = {"engine": engine, "dtype": dtype}
    if task is None:
        return load(run, device, **computed)
    return load_for(run, task_named(task), device, **computed)


@_checked
def load_model(run: str | Path, *, device: str = "cpu") -> nn.Module:
    """The torch module of a run, in float32 and eval mode, without tokenizer and task. `run` is as for `load`; a
    folder needs no tokenizer, as after `model.save_pretrained(folder)` of transformers."""
    from regard.tasks.core.table import load_model

    return load_model(run, device)


@_checked
def train(
    recipe: str | Path | Mapping[str, Mapping[str, Any]],
    *,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    data: Mapping[str, str | Path | Iterable[Any]] | None = None,
    resume: bool = False,
    accept_changed_data: bool = False,
    overwrite: bool = False,
    start: str | Path | None = None,
) -> Run:
    """Train by a recipe, as `regard train` does, and open the run: its best weights, and how the training ended in
    `run.report`.

        run = regard.train("bahdanau-pairs", out="runs/mine", set={"data.train": "pairs.tsv", "train.steps": 500})
        run.evaluate("test.tsv").metrics

    recipe: a shipped recipe's name, a TOML file, or its sections as a dict:
        {"data": {"train": "pairs.tsv"}, "model": {"name": "bahdanau"}, "train": {"steps": 500}}.
    out: the run's folder; runs/RECIPE unless given. A dict needs one.
    set: settings to change, by section.key.
    data: rows in memory in place of the recipe's files, {"train": rows}, also "valid" and "test": lists of tuples
        or dicts with the columns of files, a data frame, a dataset. See docs/data.md.
    resume: go on from the newest checkpoint in the folder. Data that has changed since is refused, unless
        accept_changed_data, which log.jsonl then says.
    overwrite: replace a run that is in the folder, once the data is read and the new training begins. A folder with
        anything else in it is refused.
    start: a run, or a `transformers` folder, whose weights and vocabulary to begin with.

    Ctrl-C saves a checkpoint and raises `regard.Interrupted`; the same call with resume=True goes on from there."""
    from regard.tasks.core.training import train_and_open

    return train_and_open(
        recipe,
        out,
        set or {},
        resume=resume,
        overwrite=overwrite,
        accept_changed_data=accept_changed_data,
        start=start,
        data=data,
    )


@_checked
def sweep(
    recipe: str | Path,
    *,
    vary: Mapping[str, Any],
    trials: int = 20,
    by: str | None = None,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    at_once: int = 1,
    prune: bool = True,
    start: str | Path | None = None,
) -> Sweep:
    """Search for good settings of a recipe, as `regard sweep` does: trainings proposed by optuna, judged by their
    validations.

        rates = {"train.learning_rate": "1e-4..3e-2:log", "model.dropout": [0.1, 0.3]}
        found = regard.sweep("bahdanau-dates", vary=rates, trials=30)
        found.best.changes, found.best.value
        run = regard.load(found.best.folder)

    vary: ranges as texts and values as lists, by section.key.
    trials: how many; the same call with more goes on.
    by: a metric of the validations; that which chooses the best weights unless given.
    out: a folder for the runs, table.md and sweep.svg; runs/sweep-RECIPE unless given.
    at_once: trainings at a time, each in a process: a script calls this below `if __name__ == "__main__":`.
    prune: end trainings early that fall behind the others."""
    from regard.tasks.core.recipe import changes_of
    from regard.tasks.core.sweep import sweep

    folder = Path(out) if out is not None else Path("runs", f"sweep-{Path(str(recipe)).stem}")
    begin = None if start is None else str(start)
    return sweep(
        str(recipe),
        vary,
        changes_of(set or {}),
        trials=trials,
        at_once=at_once,
        by=by,
        out=folder,
        start=begin,
        prune=prune,
    )


def divided() -> AbstractContextManager[None]:
    """In this block, processes that torchrun started divide every evaluation among them, and all get the result:

        with regard.divided():
            evaluation = run.evaluate("test.tsv")

    All processes must enter it and evaluate the same, as they wait for each other. Outside of it, every call is the
    work of the process that makes it, and so is every other call in it, as `run.translate`."""
    from regard.base.divided import divided

    return divided()


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"regard.{name}")
    if name in CLASSES:
        return getattr(import_module(CLASSES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *PACKAGES, *CLASSES})
