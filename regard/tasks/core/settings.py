"""What a recipe says, as frozen dataclasses: the tokens, and the whole job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from regard.base.digests import Source
from regard.base.fields import check, setting
from regard.data.text.special_tokens import EOS
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_training import KINDS, NORMAL_FORMS
from regard.decode.settings import Decoding
from regard.learn.settings import Training


class DataSettings(Protocol):
    """A recipe's [data]: a frozen dataclass that checks itself. `splits.py` has a base for each kind."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...  # what the data is called in a run's README

    def files(self) -> Sequence[Path]: ...  # what the settings name, so that nothing is written over it

    def sources(self) -> Mapping[str, Source]: ...  # the part of it that a training reads, file by file

    @property
    def has_own_test(self) -> bool: ...

    @property
    def test_files(self) -> tuple[str, ...]: ...

    @property
    def test_name(self) -> str: ...

    @classmethod
    def of_test_file(cls, file: str) -> dict[str, object]: ...

    def changes_to_test(self, file: str) -> dict[str, object]: ...


S = TypeVar("S", covariant=True, bound=DataSettings)
BLOCKS = ".blocks"  # in a run's folder, during training: data that does not fit in memory


@dataclass(frozen=True)
class Tokens:
    """A recipe's [tokens]."""

    # what a token is: a character, a word, what stands between spaces, a piece of a word by byte-level BPE, or
    # BERT's WordPiece
    kind: str = setting("bpe", choices=tuple(KINDS))
    size: int = 8000  # the most tokens of the vocabulary
    # What occurs less often is unknown (words, characters) or stays in pieces; with 2, unknown is learned too.
    min_count: int = setting(1, at_least=1)
    joint: bool = True  # one vocabulary for both sides; false: each has its own, of this size
    lowercase: bool = False  # lower-case all text first
    normalise: str = setting("", choices=tuple(NORMAL_FORMS))  # Unicode normal form of all text; empty: as it comes
    # the token that a target begins with: <s>, or <eos>, which also ends it; empty: as the model is used to
    start: str = setting("", choices=("", "<s>", EOS))

    def __post_init__(self) -> None:
        check(self)

    def learn(self, texts: Iterable[str], numbering: str, tags: Sequence[str] = ()) -> Tokenizer:
        """A vocabulary of the texts, with the special tokens of this numbering unless `start` asks for others."""
        return Tokenizer.train(
            texts,
            kind=self.kind,
            size=self.size,
            min_count=self.min_count,
            lowercase=self.lowercase,
            normalise=self.normalise,
            numbering=EOS if self.start == EOS else numbering,
            tags=tags,
        )


@dataclass(frozen=True)
class Job(Generic[S]):
    """All that a training needs; a recipe is one of these in TOML."""

    model: str  # its name in MODELS
    numbering: str  # how the tokenizer numbers special tokens for that model
    config: Any  # the Config of that model; what follows from the data is a placeholder until that is surveyed
    data: S
    train: Training
    tokens: Tokens = field(default_factory=Tokens)
    decode: Decoding = field(default_factory=Decoding)
    task: str = ""  # its verb
    sized: tuple[str, ...] = ()  # settings of config that the recipe leaves to the data, see model_size.py


AnyJob = Job[DataSettings]
