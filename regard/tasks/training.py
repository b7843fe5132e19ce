"""From pairs to a run: tokens, batches, the training, and what is left in the folder."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.batch import Filter, PairData
from regard.data.blocks import BlockData, gather
from regard.data.files import write_file
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.learn.checkpoint import checkpoints
from regard.learn.loop import Report, fit
from regard.learn.progress import counted
from regard.metrics.bleu import bleu
from regard.metrics.exact import exact_match
from regard.models import MODELS
from regard.show import loss_curve
from regard.tasks import folder as runs
from regard.tasks.settings import Example, Job, Pair
from regard.tasks.translate import Translator

PART = 1000  # pairs encoded at once


def train(job: Job, out: Path, *, recipe: str, command: str, resume: bool = False) -> Report:
    """Train and leave a run in `out`: the best weights, the log, the curve, a card."""
    begun = bool(checkpoints(out))  # without one, what lies there is begun anew
    if begun and not resume:
        raise runs.RunError(f"{out} already holds a training: use --resume to go on, or another --out")
    if begun:
        check_recipe(out, recipe)
        tokenizer = Tokenizer.load(out / runs.TOKENIZER)
        source_tokenizer = None if job.tokens.joint else Tokenizer.load(out / runs.SOURCE_TOKENIZER)
    else:
        tokenizer, source_tokenizer = build_tokenizers(job)
    model = build_model(job, tokenizer, source_tokenizer)
    translator = Translator(model, tokenizer, source_tokenizer=source_tokenizer)
    few = build_examples(job, translator)
    data, held = build_data(job, translator, few, out)
    if begun:
        write_file(out / "recipe.toml", recipe.encode())
    else:
        runs.begin(out, model, tokenizer, recipe, source_tokenizer)
    few, settings = few[: job.data.judged], job.train
    batches: Any = data  # either kind: what one of them orders, the same one batches
    try:
        report = fit(
            model,
            batches,
            settings=settings,
            folder=out,
            validate=lambda _: validate(translator, held, few),
            keep_best=lambda model, metrics: runs.save_weights(out, model),
            better=(settings.best_by, "min" if settings.best_by == "valid_loss" else "max"),
            resume=resume,
        )
    finally:
        shutil.rmtree(out / "blocks", ignore_errors=True)  # made anew where the training goes on
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    loss_curve(rows).save(out / "loss.svg")
    write_file(out / "README.md", card(job, report, model, command, len(data)).encode())
    return report


def build_tokenizers(job: Job) -> tuple[Tokenizer, Tokenizer | None]:
    """The target's and the source's, trained on the training pairs; None: one serves both."""
    tokens = job.tokens

    def learn(texts: Iterable[str]) -> Tokenizer:
        return Tokenizer.train(
            texts, kind=tokens.kind, size=tokens.size, lowercase=tokens.lowercase, normalise=tokens.normalise
        )

    if tokens.joint:
        return learn(chain.from_iterable(counted(job.data.pairs("train"), "pairs read for the vocabulary"))), None
    target, source = (
        learn(pair[side] for pair in counted(job.data.pairs("train"), f"pairs read for the {name} vocabulary"))
        for side, name in ((1, "target"), (0, "source"))
    )
    return target, source


def build_model(job: Job, tokenizer: Tokenizer, source_tokenizer: Tokenizer | None = None) -> nn.Module:
    """A new model, its first weights fixed by the seed."""
    torch.manual_seed(job.train.seed)
    kind = MODELS[job.model]
    source = 0 if source_tokenizer is None else len(source_tokenizer)
    return kind(kind.Config(vocabulary=len(tokenizer), source_vocabulary=source, **job.config))


def build_examples(job: Job, translator: Translator) -> list[Example]:
    """What to validate by. Pairs held out of the training files pass the same filter as those that stay."""
    examples = job.data.examples("valid")
    if job.data.made or job.data.valid:
        return examples
    chosen = Filter(longest=job.data.longest, ratio=job.data.ratio)
    lengths = ((len(source), len(target)) for source, target in encode(_first(examples), translator))
    kept = [one for one, pair in zip(examples, lengths, strict=True) if chosen.passes(*pair)]
    if not kept:
        raise DataError(f"{chosen.report()}; none is left to validate by: set data.valid to a file of pairs")
    return kept


def _first(examples: Iterable[Example]) -> Iterator[Pair]:
    return ((source, references[0]) for source, references in examples)


def build_data(
    job: Job, translator: Translator, examples: list[Example], out: Path
) -> tuple[PairData | BlockData, PairData]:
    """Training and validation pairs as ids; what the length filter drops is told."""
    chosen = Filter(longest=job.data.longest, ratio=job.data.ratio)
    pairs = chosen(encode(counted(job.data.pairs("train"), "pairs read"), translator))
    first = next(pairs, None)
    if first is None:
        raise DataError(f"{chosen.report()}; none is left to learn from: raise data.longest or data.ratio")
    data = gather(
        chain([first], pairs),
        folder=out / "blocks",
        budget=job.data.memory << 20,
        batch_tokens=job.data.batch_tokens,
        seed=job.train.seed,
    )
    if dropped := chosen.report():
        print(dropped, file=sys.stderr)
    held = pair_data(_first(examples), translator, job.data.batch_tokens)
    longest: Any = translator.model.config.longest  # type: ignore[union-attr]
    if (most := max(data.longest_source, held.longest_source)) > longest:
        shutil.rmtree(out / "blocks", ignore_errors=True)
        with suppress(OSError):
            out.rmdir()  # if it was made for the blocks alone
        if data.longest_source > longest or not job.data.valid:
            raise ValueError(
                f"the longest source has {most} tokens and model.longest is {longest}; set model.longest={most}, "
                f"or data.longest={longest - 1} to drop longer training pairs"
            )
        raise ValueError(
            f"the longest source of {job.data.valid} has {most} tokens and model.longest is {longest}; "
            f"set model.longest={most}"
        )
    return data, held


def encode(pairs: Iterable[Pair], translator: Translator) -> Iterator[tuple[list[int], list[int]]]:
    pairs = iter(pairs)
    while part := list(islice(pairs, PART)):
        sources = translator.source_tokenizer.encode_batch([source for source, _ in part])
        targets = translator.tokenizer.encode_batch([target for _, target in part])
        yield from zip(sources, targets, strict=True)


def pair_data(pairs: Iterable[Pair], translator: Translator, batch_tokens: int) -> PairData:
    sources, targets = zip(*encode(pairs, translator), strict=True)
    return PairData(sources, targets, batch_tokens=batch_tokens, seed=0)


@torch.no_grad()
def mean_loss(model: nn.Module, data: PairData) -> float:
    """-log p per target token"""
    device = next(model.parameters()).device
    speak: Any = model.loss
    total = tokens = 0.0
    for rows in data.order(0):
        loss = speak(data.batch(rows).to(device))
        total, tokens = total + float(loss.total), tokens + int(loss.tokens)
    return total / tokens


def validate(translator: Translator, held: PairData, few: list[Example]) -> dict[str, float]:
    answers = [answer.text for answer in translator.translate([source for source, _ in few])]
    references = [targets for _, targets in few]
    return {
        "valid_loss": mean_loss(translator.model, held),
        "exact_match": exact_match(answers, references),
        "bleu": bleu(answers, references)[0],
    }


def check_recipe(folder: Path, recipe: str) -> None:
    """A training goes on with the settings it was begun with; only how long it goes on may change."""
    path = folder / "recipe.toml"
    try:
        tables = [tomllib.loads(text) for text in (path.read_text(encoding="utf-8"), recipe)]
    except (OSError, ValueError) as error:
        raise runs.RunError(f"{path} does not say how the training was begun: {error}") from None
    then, now = (
        {f"{name}.{key}": value for name, part in table.items() for key, value in part.items()} for table in tables
    )
    for key in sorted(then.keys() ^ now.keys() | {key for key in then if then[key] != now.get(key)}):
        if key not in ("train.steps", "train.patience"):
            was, comes = (repr(part[key]) if key in part else "not set" for part in (then, now))
            raise runs.RunError(
                f"{folder} was begun with other settings: {key} was {was}, now it is {comes}. "
                "Resume with the recipe and --set it was begun with, or take another --out"
            )


def card(job: Job, report: Report, model: nn.Module, command: str, pairs: int) -> str:
    """README.md of a run."""
    data = f"generated set `{job.data.made}`" if job.data.made else f"`{job.data.name}`"
    best = ", ".join(f"{name} {value:.4f}" for name, value in sorted((report.best or {}).items()))
    count = sum(parameter.numel() for parameter in model.parameters())
    show = " --show alignment.png" if model.alignment else ""  # a fixed vector has nothing to show
    return f"""# {job.model} on {job.data.name}

{MODELS[job.model].paper}.

| | |
|---|---|
| data | {data}, {pairs:,} training pairs |
| licence of the data | {"made by regard, Apache-2.0" if job.data.made else "that of your file"} |
| parameters | {count:,} |
| steps | {report.step:,}, best at {report.best_step:,}, seed {job.train.seed} |
| on the validation pairs | {best} |
| command | `{command}` |

Use it: `regard translate DIR "..."{show}`, where DIR is this folder.
"""
