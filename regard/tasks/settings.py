"""What a recipe may say beside the model and its training: the data, the tokens, how answers are found."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from regard.data.documents import READERS, Document, read_documents
from regard.data.made import MADE
from regard.data.pairs import Columns, DataError, read_pairs, read_rows
from regard.data.text import KINDS, NORMAL_FORMS, Tokenizer
from regard.learn.optimise import Training
from regard.models import MODELS, blank, task_of

Pair = tuple[str, str]
Example = tuple[str, tuple[str, ...]]  # a source and its references

BLOCKS = ".blocks"  # in a run's folder, while it is trained: data that is larger than memory
MOST_HELD_OUT = 2000  # sources; more would only make validation slow


@dataclass(frozen=True)
class Data:
    """Where pairs come from: a generated set, or files (`data.pairs` tells their forms)."""

    made: str = ""  # dates, copy, reverse or sort
    train_count: int = 20000  # how many pairs of a generated set
    valid_count: int = 1000
    test_count: int = 1000
    train: str | tuple[str, ...] = ""  # one file or several, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, one source in twenty is held out of train
    test: str = ""  # without one, the validation pairs are taken
    source: str = ""  # the column: its name in CSV and JSONL, its number in TSV
    target: str = ""
    longest: int = 0  # training pairs with more tokens on a side are dropped; 0: none is
    ratio: float = 0.0  # and those with one side so many times as long as the other
    memory: int = 2048  # MiB of training pairs held at once; more are shuffled in blocks on the disk
    judged: int = 200  # how many validation pairs are also translated at each validation
    batch_tokens: int = 4096  # rows x longest side of a batch

    def __post_init__(self) -> None:
        object.__setattr__(self, "train", file_names(self.train))
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to a file of pairs, "
                "one a line: source, tab, target"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")
        for name in ("train_count", "valid_count", "test_count", "memory", "judged", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.longest < 0:
            raise ValueError(f"longest must be at least 0 (none is too long), got {self.longest}")
        if self.ratio and not 1 <= self.ratio < math.inf:
            raise ValueError(f"ratio must be at least 1, or 0 (none is too uneven), got {self.ratio}")

    @property
    def name(self) -> str:
        return self.made or ", ".join(file.rpartition("/")[2] for file in self.train)

    @property
    def columns(self) -> Columns:
        return Columns(self.source, self.target)

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of train, valid or test; files are read as they are asked for, never held whole."""
        if self.made:
            return iter(MADE[self.made](split, getattr(self, f"{split}_count")))
        if split == "test" and not self.test:
            split = "valid"
        if split != "train" and getattr(self, split):
            return read_pairs(getattr(self, split), self.columns)
        if self.valid:
            return self._all()
        return (pair for pair in self._all() if (pair[0] in self.held_out) == (split == "valid"))

    def examples(self, split: str) -> list[Example]:
        """The same to judge by: a source may have several references."""
        named = "" if self.made else (self.test if split == "test" else "") or self.valid
        if named and split != "train":
            return [(row[0], row[1:]) for row in read_rows(named, self.columns)]
        return [(source, (target,)) for source, target in self.pairs(split)]

    @cached_property
    def held_out(self) -> frozenset[str]:
        """One source in twenty, chosen by its text, so that another order of the file chooses the same."""
        found: dict[str, int] = {}
        rest = False
        for source, _ in self._all():
            share, chosen = divmod(zlib.crc32(source.encode()), 20)
            if chosen == 0:
                found[source] = share
            rest = rest or chosen != 0
            if len(found) >= 2 * MOST_HELD_OUT:
                found = _smallest(found)
        found = _smallest(found)
        if not found or not rest:
            raise DataError(
                f"{', '.join(self.train)} has too few pairs to hold some out for validation; "
                "set data.valid to a file of pairs"
            )
        return frozenset(found)

    def _all(self) -> Iterator[Pair]:
        return chain.from_iterable(read_pairs(file, self.columns) for file in self.train)


@dataclass(frozen=True)
class Text:
    """Where the text of a language model comes from (`data.documents` tells the forms of files)."""

    train: str | tuple[str, ...] = ""  # one file or several, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, the last part of train is held out
    test: str = ""  # without one, the validation text is taken
    documents: str = "file"  # what is one document: the file, a line, what blank lines part, or a heading begins
    column: str = "text"  # of CSV and JSONL, where each row is a document
    held_out: float = 0.1  # the share of train, from its end, to validate by
    apart: bool = False  # let attention see no other document of the window; false: as in GPT-2
    length: int = 0  # tokens in a window; 0: as many as the model takes
    stride: int = 0  # how far windows lie apart when text is judged; 0: as long as they are
    memory: int = 2048  # MiB of training tokens held at once; more are read from a file
    batch_tokens: int = 16384

    def __post_init__(self) -> None:
        object.__setattr__(self, "train", file_names(self.train))
        if not self.train:
            raise ValueError("set data.train to a file of text")
        if self.documents not in READERS:
            raise ValueError(f"documents must be one of {', '.join(READERS)}, got {self.documents!r}")
        for name in ("memory", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.length < 0 or self.length == 1:
            raise ValueError(f"length must be at least 2, or 0 (as the model takes), got {self.length}")
        if self.stride < 0:
            raise ValueError(f"stride must be at least 1, or 0 (as length), got {self.stride}")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out must lie in (0, 1), got {self.held_out}")

    @property
    def name(self) -> str:
        return ", ".join(file.rpartition("/")[2] for file in self.train)

    def read(self, files: Iterable[str]) -> Iterator[Document]:
        for file in files:
            yield from read_documents(file, documents=self.documents, column=self.column)


def file_names(files: str | Sequence[str]) -> tuple[str, ...]:
    """One file or a list of them, as TOML gives it; empty names are left out."""
    named = [files] if isinstance(files, str) else files
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise ValueError(f"train must be a file or a list of files, got {files!r}")
    return tuple(one for one in named if one)


def _smallest(found: dict[str, int]) -> dict[str, int]:
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0]))[:MOST_HELD_OUT])


@dataclass(frozen=True)
class Tokens:
    kind: str = "bpe"  # character, word, space (words are what spaces part), bpe or wordpiece (of bert)
    size: int = 8000  # at most so many
    joint: bool = True  # one vocabulary for both sides; false: one for each, of this size
    lowercase: bool = False
    normalise: str = ""  # nfc or nfkc: one spelling for what Unicode can spell in several ways

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.normalise not in NORMAL_FORMS:
            raise ValueError(f"normalise must be empty, nfc or nfkc, got {self.normalise!r}")

    def learn(self, texts: Iterable[str], layout: str) -> Tokenizer:
        return Tokenizer.train(
            texts,
            kind=self.kind,
            size=self.size,
            lowercase=self.lowercase,
            normalise=self.normalise,
            layout=layout,
        )


@dataclass(frozen=True)
class Decoding:
    """How answers are found: greedily, by beam search, or, with a temperature above 0, by drawing them."""

    beam: int = 1
    best: int = 1
    length_penalty: float = 1.0
    coverage: float = 0.0  # beam: what an answer pays that left source tokens unread (Wu 2016, eq. 14)
    min_length: int = 0  # tokens
    max_length: int = 0  # tokens, the end token included; 0: twice the source and 20
    replace_unknown: bool = False  # write the source word most looked at in place of an unknown one
    repetition_penalty: float = 1.0  # above 1, tokens that came before are less likely (Keskar 2019)
    no_repeat: int = 0  # so many tokens in a row are not written twice; 0: they may be
    renormalise: bool = False  # beam: what may not be written is dealt out among the rest
    stop: tuple[str, ...] = ()  # generating ends before any of these
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("beam", 1, 1000),
            ("best", 1, 1000),
            ("min_length", 0, 1 << 20),
            ("max_length", 0, 1 << 20),
            ("no_repeat", 0, 1 << 20),
            ("top_k", 0, 1 << 31),
            ("seed", 0, 1 << 63),
        ):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < most:
                raise ValueError(f"{name} must be a whole number from {least} to {most - 1:,}, got {value!r}")
        if self.best > self.beam:
            raise ValueError(f"best must be at most beam = {self.beam}, got {self.best}; a wider beam finds more")
        if self.max_length and self.min_length >= self.max_length:
            raise ValueError(
                f"min_length must be below max_length = {self.max_length}, which counts the end token too, "
                f"got {self.min_length}"
            )
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty must be finite, got {self.length_penalty}")
        if not 0 <= self.coverage < math.inf:
            raise ValueError(f"coverage must be 0 (no penalty) or above, got {self.coverage}")
        if self.coverage and self.beam == 1:
            raise ValueError("coverage chooses among the answers of a beam; set beam above 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(f"repetition_penalty must be above 0 (1 is none), got {self.repetition_penalty}")
        if type(self.renormalise) is not bool:
            raise ValueError(f"renormalise must be true or false, got {self.renormalise!r}")
        stops = [self.stop] if isinstance(self.stop, str) else self.stop
        if not isinstance(stops, list | tuple) or not all(isinstance(one, str) and one for one in stops):
            raise ValueError(f"stop must be a text or a list of texts, none empty, got {self.stop!r}")
        object.__setattr__(self, "stop", tuple(stops))  # a TOML file gives a list
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
    data: Any  # the settings of the task's data
    train: Training
    tokens: Tokens = Tokens()
    decode: Decoding = Decoding()

    @property
    def task(self) -> str:
        return task_of(self.model, MODELS[self.model].Config(**blank(self.model), **self.config))
