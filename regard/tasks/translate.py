"""Any text to text: training on pairs, answering, judging, and the look back at the source."""

from __future__ import annotations

import json
import math
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from regard.attention import trace
from regard.data.batch import PairData, pad
from regard.data.files import find_data, write_file
from regard.data.made import MADE
from regard.data.pairs import DataError, read_pairs
from regard.data.text import END, KINDS, PAD, START, Tokenizer
from regard.decode.beam import beam
from regard.decode.greedy import greedy
from regard.decode.protocol import Hypothesis
from regard.decode.sample import sample
from regard.learn.checkpoint import checkpoints
from regard.learn.loop import Report, fit
from regard.learn.optimise import Training
from regard.metrics.bleu import bleu, chrf
from regard.metrics.exact import exact_match
from regard.models import MODELS
from regard.show import Map, loss_curve
from regard.tasks import folder as runs

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Data:
    """Where pairs come from: a generated set, or tab-separated files (source, tab, target)."""

    made: str = ""  # dates, copy, reverse or sort
    train_count: int = 20000  # how many pairs of a generated set
    valid_count: int = 1000
    test_count: int = 1000
    train: str = ""  # files, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, one source in twenty is held out of train
    test: str = ""  # without one, the validation pairs are taken
    batch_tokens: int = 4096  # rows x longest side of a batch

    def __post_init__(self) -> None:
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to a file of pairs, "
                "one a line: source, tab, target"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")
        for name in ("train_count", "valid_count", "test_count", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def pairs(self, split: str) -> Pairs:
        if self.made:
            return MADE[self.made](split, getattr(self, f"{split}_count"))
        if split == "test" and not self.test:
            split = "valid"
        if named := getattr(self, split) if split != "train" else "":
            return read_pairs(find_data(named))
        pairs = read_pairs(find_data(self.train))
        if self.valid:
            return pairs
        chosen = [pair for pair in pairs if _held_out(pair[0]) == (split == "valid")]
        if not chosen:
            raise DataError(
                f"{self.train} has too few pairs to hold some out for validation; set data.valid to a file of pairs"
            )
        return chosen


def _held_out(source: str) -> bool:
    return zlib.crc32(source.encode()) % 20 == 0


@dataclass(frozen=True)
class Tokens:
    kind: str = "bpe"  # character, word or bpe
    size: int = 8000  # at most so many
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")


@dataclass(frozen=True)
class Decoding:
    """How answers are found: greedily, by beam search, or, with a temperature above 0, by drawing them."""

    beam: int = 1
    best: int = 1
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("beam", 1, 1000),
            ("best", 1, 1000),
            ("top_k", 0, 1 << 31),
            ("seed", 0, 1 << 63),
        ):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < most:
                raise ValueError(f"{name} must be a whole number from {least} to {most - 1:,}, got {value!r}")
        if self.best > self.beam:
            raise ValueError(f"best must be at most beam = {self.beam}, got {self.best}; a wider beam finds more")
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty must be finite, got {self.length_penalty}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be 0 (draw nothing) or above, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        if self.temperature and self.best > 1:
            raise ValueError(f"a draw gives one answer, got best = {self.best} with a temperature; set one of them")


@dataclass(frozen=True)
class Job:
    """All that a training needs; a recipe is one of these in TOML."""

    model: str
    config: dict[str, Any]
    data: Data
    train: Training
    tokens: Tokens = Tokens()
    decode: Decoding = Decoding()


@dataclass(frozen=True)
class Answer:
    source: str
    text: str
    score: float  # log p(text | source)
    others: tuple[tuple[str, float], ...] = ()  # the next best ones with their scores
    _look: Callable[[], Map] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which source tokens each token of the answer looked at, from one pass over the finished answer."""
        if self._look is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        return self._look()


class Translator:
    """A trained translator, as `regard.load(run)` gives it."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, decode: Decoding | None = None):
        self.model, self.tokenizer, self.decode = model.eval(), tokenizer, decode or Decoding()

    @overload
    def translate(self, text: str, decode: Decoding | None = None) -> Answer: ...
    @overload
    def translate(self, text: list[str], decode: Decoding | None = None) -> list[Answer]: ...
    def translate(self, text: str | list[str], decode: Decoding | None = None) -> Answer | list[Answer]:
        """One answer for a text, a list of them for a list."""
        if isinstance(text, str):
            return next(self.answers([text], decode))
        return list(self.answers(text, decode))

    def answers(self, texts: Iterable[str], decode: Decoding | None = None, *, batch: int = 64) -> Iterator[Answer]:
        """Answers in the order of the texts, which are read a batch at a time; a blank text is its own answer."""
        waiting: list[str] = []
        for text in texts:
            waiting.append(text)
            if len(waiting) == batch:
                yield from self._answer(waiting, decode or self.decode)
                waiting = []
        yield from self._answer(waiting, decode or self.decode)

    def _answer(self, texts: list[str], decode: Decoding) -> Iterator[Answer]:
        asked = [self._encode(text) for text in texts if text.strip()]
        found = iter(self._search(asked, decode) if asked else [])
        sources = iter(asked)
        for text in texts:
            if not text.strip():
                yield Answer(text, "", 0.0)
                continue
            (best, *others), source = next(found), next(sources)
            rest = tuple((self.tokenizer.decode(one.tokens), one.score) for one in others)
            look = partial(self.look, source, best.tokens)
            yield Answer(text, self.tokenizer.decode(best.tokens), best.score, rest, look)

    def _encode(self, text: str) -> list[int]:
        """The text's tokens and the end token."""
        source = [*self.tokenizer.encode(text), END]
        longest = self.model.config.longest  # type: ignore[union-attr]
        if len(source) > longest:  # type: ignore[operator]
            raise ValueError(
                f"{text[:40]!r}... has {len(source)} tokens with the end token and this model takes {longest}; "
                "shorten or split it"
            )
        return source

    def _search(self, sources: list[list[int]], decode: Decoding) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        source, mask = (x.to(device) for x in pad(sources, PAD))
        model: Any = self.model
        search: Callable[..., Any]
        if decode.temperature > 0:
            search = partial(
                sample,
                temperature=decode.temperature,
                top_k=decode.top_k or None,
                top_p=decode.top_p,
                seed=decode.seed,
            )
        elif decode.beam > 1 or decode.best > 1:
            search = partial(beam, width=decode.beam, best=decode.best, length_penalty=decode.length_penalty)
        else:
            search = greedy
        limit = 2 * mask.sum(1) + 20
        found = search(model, source, mask, start=START, end=END, limit=limit, never=(PAD, START))
        return [one if isinstance(one, list) else [one] for one in found]

    def look(self, source: list[int], target: list[int]) -> Map:
        """The weights of one teacher-forced pass: a row for each target token and one for the end."""
        device = next(self.model.parameters()).device
        site: Any = self.model.alignment
        with torch.inference_mode(), trace(self.model, site) as seen:
            self.model(torch.tensor([source], device=device), torch.tensor([[START, *target]], device=device))
        rows, columns = self.tokenizer.tokens([*target, END]), self.tokenizer.tokens(source)
        return Map(seen[site][0].float().cpu().numpy(), rows, columns)

    def evaluate(
        self, pairs: Pairs, decode: Decoding | None = None, *, tick: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Exact match, BLEU and chrF of the answers, perplexity of the references."""
        if not pairs:
            raise ValueError("there must be at least one pair to judge by, got none")
        answers = []
        for answer in self.answers([source for source, _ in pairs], decode):
            answers.append(answer.text)
            tick()
        references = [target for _, target in pairs]
        (bleu_score, bleu_how), (chrf_score, chrf_how) = bleu(answers, references), chrf(answers, references)
        return {
            "pairs": len(pairs),
            "exact_match": exact_match(answers, references),
            "bleu": bleu_score,
            "bleu_signature": bleu_how,
            "chrf": chrf_score,
            "chrf_signature": chrf_how,
            "perplexity": math.exp(min(700.0, mean_loss(self.model, encode(pairs, self.tokenizer, 4096, seed=0)))),
        }


def encode(pairs: Pairs, tokenizer: Tokenizer, batch_tokens: int, *, seed: int) -> PairData:
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    return PairData(sources, targets, batch_tokens=batch_tokens, seed=seed)


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


def build_model(job: Job, tokenizer: Tokenizer) -> nn.Module:
    """A new model, its first weights fixed by the seed."""
    torch.manual_seed(job.train.seed)
    kind = MODELS[job.model]
    return kind(kind.Config(vocabulary=len(tokenizer), **job.config))


def train(job: Job, out: Path, *, recipe: str, command: str, resume: bool = False) -> Report:
    """Train and leave a run in `out`: the best weights, the log, the curve, a card."""
    begun = bool(checkpoints(out))  # without one, what lies there is begun anew
    if begun and not resume:
        raise runs.RunError(f"{out} already holds a training: use --resume to go on, or another --out")
    if begun:
        check_recipe(out, recipe)
    pairs, valid = job.data.pairs("train"), job.data.pairs("valid")
    if begun:
        tokenizer = Tokenizer.load(out / "tokenizer.json")
    else:
        texts = (side for pair in pairs for side in pair)
        tokens = job.tokens
        tokenizer = Tokenizer.train(texts, kind=tokens.kind, size=tokens.size, lowercase=tokens.lowercase)
    model = build_model(job, tokenizer)
    data = encode(pairs, tokenizer, job.data.batch_tokens, seed=job.train.seed)
    held = encode(valid, tokenizer, job.data.batch_tokens, seed=0)
    _check_lengths(data, held, model)
    if begun:
        write_file(out / "recipe.toml", recipe.encode())
    else:
        runs.begin(out, model, tokenizer, recipe)

    def validate(model: nn.Module) -> dict[str, float]:
        few = valid[:200]
        answers = Translator(model, tokenizer).translate([source for source, _ in few])
        right = exact_match([answer.text for answer in answers], [target for _, target in few])
        return {"valid_loss": mean_loss(model, held), "exact_match": right}

    report = fit(
        model,
        data,
        settings=job.train,
        folder=out,
        validate=validate,
        keep_best=lambda model, metrics: runs.save_weights(out, model),
        better=("valid_loss", "min"),
        resume=resume,
    )
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    loss_curve(rows).save(out / "loss.svg")
    write_file(out / "README.md", card(job, report, model, command, len(pairs)).encode())
    return report


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


def _check_lengths(data: PairData, held: PairData, model: nn.Module) -> None:
    longest: Any = model.config.longest  # type: ignore[union-attr]
    for part in (data, held):
        if part.source_lengths.max() > longest:
            raise ValueError(
                f"the longest source has {part.source_lengths.max()} tokens and model.longest is {longest}; "
                f"set model.longest={part.source_lengths.max()} or shorten the data"
            )


def card(job: Job, report: Report, model: nn.Module, command: str, pairs: int) -> str:
    """README.md of a run."""
    data = f"generated set `{job.data.made}`" if job.data.made else f"`{Path(job.data.train).name}`"
    best = ", ".join(f"{name} {value:.4f}" for name, value in (report.best or {}).items())
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"""# {job.model} on {job.data.made or Path(job.data.train).stem}

{MODELS[job.model].paper}.

| | |
|---|---|
| data | {data}, {pairs:,} training pairs |
| licence of the data | {"made by regard, Apache-2.0" if job.data.made else "that of your file"} |
| parameters | {count:,} |
| steps | {report.step:,}, best at {report.best_step:,}, seed {job.train.seed} |
| on the validation pairs | {best} |
| command | `{command}` |

Use it: `regard translate DIR "..." --show alignment.png`, where DIR is this folder.
"""


def load(folder: Path, decode: Decoding | None = None) -> Translator:
    model: Any = runs.read_model(folder)
    tokenizer = runs.read_tokenizer(folder, model.config.vocabulary)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Translator(model.to(device), tokenizer, decode or _decoding(folder / "recipe.toml"))


def _decoding(path: Path) -> Decoding:
    """How the run's recipe has answers found."""
    if not path.is_file():
        return Decoding()
    try:
        return Decoding(**tomllib.loads(path.read_text(encoding="utf-8")).get("decode", {}))
    except (ValueError, TypeError, RecursionError) as error:
        raise runs.RunError(f"{path}, [decode]: {error}") from None
