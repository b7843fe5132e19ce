"""A trained captioner: what is in an image, in words, and where each word looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Unpack, overload

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace, trace
from regard.attention.trace import sites_of
from regard.base.short_repr import short_repr
from regard.data.artifacts import AnyTokenizer, Pixels
from regard.data.batches.batch import pad
from regard.data.images.given_images import Image, Images, pixels_of
from regard.data.images.images import check_channels
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Target
from regard.decode.search import decode as search
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention
from regard.layers.onednn import without_onednn
from regard.layers.recurrent import GATES
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.show import Gates, Heads, Line, Looks, Words
from regard.tasks.core.inputs import in_parts, read_all
from regard.tasks.core.options import CaptionOptions, checks_keywords
from regard.tasks.core.results import Cut, Evaluation, Scored, Shown, Tick, no_tick, scored_data, scored_lines
from regard.tasks.core.run import Data
from regard.tasks.shared.gate_maps import UNITS, gate_maps, gate_sites
from regard.tasks.shared.image_run import BATCH, ImageRun, OpenedImage
from regard.tasks.shared.sites import sites_like
from regard.tasks.shared.stepping import Beginning, check_tokens
from regard.tasks.shared.text_stream import Stream
from regard.tasks.shared.words import words_of
from regard.tasks.shared.writing import Passage, Writing, alone
from regard.tasks.shared.writing_run import WritingRun, check_search, never_written

LENGTH = 50  # tokens of a caption, at most, by default
EYE = "eye."  # the sites of the network that reads the image begin with this


@dataclass(frozen=True)
class Caption(Shown):
    """What a captioner says of an image: the text, its score, the next best captions, and where each word
    looked."""

    name: str  # of the image
    text: str
    score: float  # log p(text | image)
    others: tuple[Scored, ...] = ()  # the next best captions with their scores
    ranks: tuple[float, ...] = field(default=(), kw_only=True, repr=False, compare=False)  # log p / length^penalty
    cut: Cut | None = field(default=None, kw_only=True, compare=False)
    _image: Image = field(kw_only=True, repr=False, compare=False)
    written: tuple[int, ...] = field(kw_only=True, repr=False, compare=False)
    _run: Captioner = field(kw_only=True, repr=False, compare=False)

    __repr__ = short_repr

    @cached_property
    def attention(self) -> Looks:
        """Where in the image each word looked and how far its gate was open, from one pass over the finished
        caption. The model's own pieces of words are in `attention.pieces`."""
        return self._run.picture(self._image, list(self.written))

    def gates(self, *sites: str, units: int = UNITS, pieces: bool = False) -> Heads:
        """The gates of the LSTM over the words that it read: the mean of all units, and so many of them from the
        most open to the most closed."""
        gates = self._run.word_gates(self._image, list(self.written), sites, units)
        return gates.pieces if pieces else gates

    def channels(self, *sites: str) -> Gates:
        """How far the image opened each channel in every block of the network that reads it, or in the named blocks
        ("eye.stages.2.*")."""
        return self._run.channels(self._image, sites)

    @property
    def input(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, object]:
        return {
            **self.of_input(),
            "file": self.name,
            "text": self.text,
            "score": self.score,
            "others": scored_data(self.others),
        }

    def line(self) -> str:
        """`file TAB text`, or of several captions lines `file TAB score TAB text` in the order of these scores,
        `ranks`."""
        return scored_lines([(self.text, self.score), *self.others], f"{self.name}\t", self.ranks)

    def picture(self, sites: Sequence[str] = ()) -> Looks | Heads | Gates:
        """Attention where the model has some, else the gates of its LSTM; or what the named sites record."""
        model = self._run.model
        if not sites:
            return self.attention if model.alignment else self.gates()
        if set(sites_like(model, sites, kind=None)) & set(self._run.look_sites):
            return self.attention
        if set(sites_like(model, sites, kind=None)) & set(sites_of(model, GATES)):
            return self.gates(*sites)
        return self.channels(*sites)


class Captioner(WritingRun, ImageRun):
    """A trained captioner, as `regard.load(run)` gives it."""

    model: protocols.Captioner

    def __init__(self, model: Model, tokenizer: AnyTokenizer, pixels: Pixels, decode: Decoding | None = None):
        self.model = need(model, protocols.Captioner)
        self.tokenizer, self.pixels, self.decode = tokenizer, pixels, decode or Decoding()
        check_channels(self.model.config.channels)
        pixels.check(self.model.config.channels, self.model.config.size)

    @overload
    def caption(
        self, image: Images, decode: Decoding | None = None, **options: Unpack[CaptionOptions]
    ) -> list[Caption]: ...
    @overload
    def caption(
        self, image: Image, decode: Decoding | None = None, **options: Unpack[CaptionOptions]
    ) -> Caption: ...
    @checks_keywords
    def caption(
        self, image: Image | Images, decode: Decoding | None = None, **options: Unpack[CaptionOptions]
    ) -> Caption | list[Caption]:
        """One caption for an image (a file's name, a PIL image, a numpy array or a torch tensor, as for
        `recognise`), a list of them for a list. The keywords
        are the options of `regard caption`; an option that is not given is as `decode` says, else as the run's
        recipe says.

        `beam` hypotheses are kept (1 is greedy), `n_best` captions given; a `temperature` above 0 samples."""
        settings = self.decoding(options, decode)
        if isinstance(image, list):
            return list(self.answers(read_all(image, self.open, "images"), settings))
        return next(self.answers([self.open(image)], settings))

    @checks_keywords
    def evaluate(
        self, data: Data | None = None, *, columns: str = "", images: str = "", beam: int | None = None
    ) -> Evaluation:
        """How good the captions are: CIDEr, exact match, BLEU-1 to 4, ROUGE-L, perplexity, and where the objects
        are known whether their words looked at them; on a file of captions, or without one on the test data of the
        run's recipe. `columns`: as in "image,caption"; `images`: the folder or .zip that the images are in."""
        return self._evaluate(data, columns, images=images or None, beam=beam)

    def answers(
        self, images: Iterable[OpenedImage], decode: Decoding | None = None, *, tick: Tick = no_tick
    ) -> Iterator[Caption]:
        """In the order of the images. Where opening one raises BadInput, those before it are answered first. `tick`
        is called once for each image as it is answered."""
        decode = decode or self.decode
        self._check(decode)
        for part in in_parts(images, BATCH):
            answers = self.search(torch.cat([image.tensor for image in part]), decode)
            for image, hypotheses in zip(part, answers, strict=True):
                yield self._answer(image, hypotheses[: decode.n_best], decode)
                tick()

    def _check(self, decode: Decoding) -> None:
        if decode.coverage or decode.replace_unknown:
            raise BadInput("coverage and replace_unknown are for translators; leave them out of [decode]")
        check_search(decode, self.longest(decode), "a caption")

    def longest(self, decode: Decoding) -> int:
        """The most tokens of a caption, the end token included."""
        return min(self.model.max_target_positions, decode.max_length or max(LENGTH, decode.min_length + 1))

    def collate(self, images: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Images (1, C, H, W) as a batch, and the mask that a search asks for."""
        return torch.cat(list(images)), torch.ones(len(images), 1, dtype=torch.bool, device=self.device)

    def _target(self, decode: Decoding) -> Target:
        """No caption has an unknown word: there is no source text to copy one from."""
        special = self.tokenizer.special
        never = never_written(special, [special.unknown] if special.unknown >= 0 else ())
        return Target(special.start, special.end, self.longest(decode), never=never)

    def writing(self, image: OpenedImage, decode: Decoding | None = None) -> Writing | None:
        """The caption of an image, to be written together with others; None: a beam, which is not."""
        decode = decode or self.decode
        self._check(decode)
        if decode.is_beam:
            return None
        passage = Passage(image.tensor, decode, self._target(decode))
        text = Stream(self.tokenizer.decode, ())
        return Writing(alone(passage), text, lambda answer: self._answer(image, [answer], decode))

    def beginning(self, image: OpenedImage, prefix: list[int], decode: Decoding | None = None) -> Beginning:
        """A caption that begins with these tokens, to be continued step by step."""
        decode = decode or self.decode
        check_tokens(prefix, self.model.config.vocabulary)
        passage = Passage(image.tensor, decode, self._target(decode))
        grid, text = self.model.grid(image.tensor) if self.model.alignment else None, self.tokenizer.decode(prefix)
        return Beginning(
            passage, prefix, text, prefix, self.tokenizer, lambda site: (), grid, self.seen(pixels_of(image.image))
        )

    def search(self, images: Tensor, decode: Decoding) -> list[list[Hypothesis]]:
        """images (B, C, H, W) -> for each the captions that were found, best first."""
        mask = torch.ones(len(images), 1, dtype=torch.bool, device=images.device)
        return search(self.model, images, mask, decode, self._target(decode))

    def _answer(self, image: OpenedImage, hypotheses: list[Hypothesis], decode: Decoding) -> Caption:
        (text, score), *others = ((self.tokenizer.decode(answer.tokens), answer.score) for answer in hypotheses)
        return Caption(
            image.name,
            text,
            score,
            tuple(others),
            ranks=tuple(answer.normalised(decode.length_penalty) for answer in hypotheses),
            cut=image.cut,
            _image=image.image,
            written=tuple(hypotheses[0].tokens),
            _run=self,
        )

    # -- where it looked

    def look_at(self, images: Tensor) -> object:
        """Only read the images."""
        return self.model.encode(images)

    @property
    def look_sites(self) -> list[str]:
        """The sites of a word's look and of its gate, as far as the model has them."""
        gates = [site for site in sites_of(self.model, "gate") if not site.startswith(EYE)]
        return [self.model.alignment, *gates] if self.model.alignment else []

    def check_looks(self) -> None:
        """NoAttention where the model has none."""
        if not self.model.alignment:
            raise NoAttention(
                f"{type(self.model).__name__} keeps the whole image in one vector and has no attention; it can "
                "show the gates of its LSTM: gates()"
            )

    def trace(self, images: Tensor, captions: Sequence[Sequence[int]], *sites: str) -> Trace:
        """One teacher-forced pass over captions of images (B, C, H, W)."""
        special = self.tokenizer.special
        target, _ = pad([[special.start, *row] for row in captions], special.pad)
        with torch.inference_mode(), without_onednn(self.model):
            encoded = self.model.encode(images)  # before the trace: an LSTM that reads the image records no word
            with trace(self.model, *sites) as seen:
                self.model.decode(target.to(self.device), *encoded)
        return seen

    def looks(self, images: Tensor, captions: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray | None]:
        """Where each token of captions of images (B, C, H, W) looked, and the end token (B, T, rows, columns); and
        how far its gate was open (B, T), None where there is no gate. Rows beyond a caption's end are padding."""
        self.check_looks()
        site, *others = self.look_sites
        seen = self.trace(images, captions, site, *others)
        weights = seen[site].float().cpu().unflatten(-1, self.model.grid(images))
        gates = [seen[gate, "gate"].float().cpu().squeeze(-1).numpy() for gate in others]
        return weights.numpy(), gates[0] if gates else None

    def picture(self, image: Image, tokens: list[int]) -> Looks:
        """A panel for each word; of a word in several pieces, the mean of theirs."""
        opened = self.open(image)
        weights, gates = self.looks(opened.tensor, [tokens])
        seen, title = self.seen(pixels_of(image)), Path(opened.name).name
        count, words = len(tokens), words_of(self.tokenizer, tokens)
        looked, gated = weights[0, :count], None if gates is None else gates[0, :count]
        pieces = Line(self.tokenizer.tokens(tokens), looked, gated)
        spoken = [at for at, label in enumerate(words.labels) if label.strip()] or range(len(words.labels))
        merged = Line(  # a space between words is a token of some vocabularies, and no word
            [words.labels[at] for at in spoken],
            mean_of_pieces(looked, words)[spoken],
            None if gated is None else mean_of_pieces(gated, words)[spoken],
        )
        found = Looks(seen, (merged,), title)
        return found if words.are(pieces.words) else found.over(Looks(seen, (pieces,), title))

    def word_gates(self, image: Image, tokens: list[int], sites: Sequence[str] = (), units: int = UNITS) -> Heads:
        """The gates of the LSTM over the words that it read."""
        seen = self.trace(self.open(image).tensor, [tokens], *gate_sites(self.model, sites))
        return gate_maps(seen, lambda site: (self.tokenizer, [self.tokenizer.special.start, *tokens]), units)

    def channels(self, image: Image, sites: Sequence[str] = ()) -> Gates:
        """The gates of the channels in the network that reads the image."""
        pixels = pixels_of(image)
        gates = self.gates(pixels, sites or [f"{EYE}*"])
        return Gates(gates, image=self.seen(pixels), title=Path(self.open(image).name).name)


def mean_of_pieces(values: np.ndarray, words: Words) -> np.ndarray:
    """(pieces, ..) -> (words, ..)"""
    sums = np.add.reduceat(values, words.starts, 0)
    return sums / np.bincount(words.numbers).reshape(-1, *[1] * (values.ndim - 1))
