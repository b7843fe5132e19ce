"""What a model must know of its data before it can be built or asked: tokenizers, class names, pixel statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import NoTokenizer, RunError

if TYPE_CHECKING:
    from regard.data.made.sequences import Sequences

MOST_EDGE = 1 << 16  # pixels


@dataclass(frozen=True)
class Pixels:
    """How images become numbers: resized to the model's size, then (value / 255 - mean) / std in each channel.

    With `shortest_edge`, the shorter side is resized to that many pixels, and the centre of the model's size is cut
    out (`data.images.images.fit_image`)."""

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # as many as the model has channels
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    resample: str = "bilinear"  # one of data.images.RESAMPLING
    shortest_edge: int = 0  # 0: the whole image is resized, whatever its aspect ratio

    def check(self, channels: int, size: tuple[int, int]) -> None:
        """ValueError unless a model of these channels and images (height, width) can read images so."""
        if not len(self.mean) == len(self.std) == channels or min(self.std) <= 0:
            raise ValueError(
                f"mean and std must have one number for each of {channels} channels, std above 0; "
                f"got {self.mean} and {self.std}"
            )
        if self.shortest_edge and not max(size) <= self.shortest_edge <= MOST_EDGE:
            raise ValueError(
                f"shortest_edge must be 0, or lie in [{max(size)}, {MOST_EDGE}] so that {size[0]} x {size[1]} "
                f"pixels can be cut out; got {self.shortest_edge}"
            )


class AnyTokenizer(Protocol):
    """What text models ask of a tokenizer: ours, or SentencePiece in a Marian folder."""

    special: Special
    silent: set[int]  # ids that are never written out

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def encode_words(self, text: str) -> tuple[list[int], list[int]]: ...

    def decode(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> str: ...

    def tokens(self, ids: Iterable[int]) -> list[str]: ...

    def pieces(self, text: str) -> list[str]: ...

    def unknown_in(self, text: str, ids: Sequence[int]) -> tuple[str, ...]: ...

    def word_of(self, ids: Iterable[int], unknown: Sequence[str] | None = None) -> list[int]: ...


class MissingTokenizer(Tokenizer):
    """Stands for the tokenizer of a folder that has none, and raises NoTokenizer as soon as it is asked anything.
    So a bare model opens, and only text is refused."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # those by which Python and notebooks look at an object
            raise AttributeError(name)
        raise NoTokenizer(self._why)

    def __len__(self) -> int:
        raise NoTokenizer(self._why)

    def __bool__(self) -> bool:
        return True  # and not by its length

    def __repr__(self) -> str:
        return f"<no tokenizer: {self._why}>"


@dataclass(frozen=True)
class Artifacts:
    """Each task needs some of these. A run's folder keeps them beside the weights."""

    tokenizer: AnyTokenizer | None = None  # a translator's for the target, and for the source if that has none
    source_tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    pixels: Pixels | None = None
    image_size: tuple[int, int] | None = None  # height and width of the images that `pixels` was for
    max_length: int = 0  # tokens of a text that were read in training; 0: as many as the model has positions
    sequences: Sequences | None = None  # of bits: their kind

    @property
    def text(self) -> AnyTokenizer:
        """The tokenizer of a task that reads text."""
        assert self.tokenizer is not None
        return self.tokenizer

    @property
    def own_tokenizer(self) -> Tokenizer:
        """The same where only a tokenizer of ours will do: to train with, or to write to a folder."""
        if not isinstance(self.tokenizer, Tokenizer):
            raise RunError(
                "this model reads text by SentencePiece, which can be run here but not trained or written"
            )
        return self.tokenizer

    def settings(self) -> dict[str, int | tuple[str, ...]]:
        """The fields of a model's configuration that follow from the data."""
        settings: dict[str, int | tuple[str, ...]] = {}
        if self.tokenizer is not None:
            settings["vocabulary"] = len(self.tokenizer)
        if self.source_tokenizer is not None:
            settings["source_vocabulary"] = len(self.source_tokenizer)
        if self.labels:
            settings["labels"] = self.labels
        if self.sequences is not None:
            settings |= {"inputs": self.sequences.inputs, "outputs": self.sequences.outputs}
        return settings
