"""Every entry of MODELS, small, with inputs for it: for tests that ask all models of a kind the same question.

A configuration is made small by the names and types of its fields, so a new model needs no entry here. Every model
has the variant "plain"; its own test may name more, and is read by `own`, so it must not call `each`:

- VARIANTS = {"tied": {"tied": True}}: each has a reason of its own, and goes through every test.
- CROSSED: a product of parts, as each score with each way to weigh. All of them go through the tests of a forward
  and a backward pass, `each(crossed=True)`. Through the others (saving, loading, stepping, beams, ...) go only as
  many as it takes for every part to go through them once, see `representatives`: that two parts fit together shows
  in the pass; how a part is saved, loaded or stepped does not depend on the other.
- LEARNS: the names of those that are trained too."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.base.field_types import types_of
from regard.data.artifacts import Artifacts, Pixels
from regard.data.batches.batch import PairBatch, pad
from regard.data.images.caption_batches import CaptionBatch
from regard.data.images.episodes import EpisodeBatch
from regard.data.images.image_batches import ImageBatch
from regard.data.made.environments import Seeds
from regard.data.made.sequences import BitBatch
from regard.data.text.characters import CharacterBatch, spell
from regard.data.text.masking import MaskedBatch
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import LabelledBatch, PlainEncoding
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.windows import TextBatch
from regard.models import MODELS, name_of, task_of
from regard.models.bert import Bert, BertConfig
from regard.models.protocols import (
    Captioner,
    DocumentClassifier,
    Encoder,
    FewShotClassifier,
    LanguageModel,
    Player,
    SequenceMachine,
    Translator,
)
from regard.runs.folder import begin, save_weights

WORDS, LABELS = 11, ("bad", "fair", "good")
SIZES = {"vocabulary": WORDS, "max_positions": 12, "window": 1, "image_size": 12, "patch_size": 4, "pulls": 5}
LENGTHS, TARGETS = [4, 3, 6, 1], [4, 5, 2, 3]  # real tokens in the four rows of a batch

# ---- models


def small(name: str, variant: str = "plain", *, size: int = 8, **changes: Any) -> Any:
    """The model's configuration with every size made small, and without dropout."""
    kind, values = MODELS[name], {}
    types = types_of(kind.Config)
    for field in dataclasses.fields(kind.Config):
        if types[field.name] is int and field.default != 0:  # 0: as another setting
            largest = 2 if field.name.endswith(("layers", "heads")) else size
            values[field.name] = SIZES.get(field.name) or min(field.default, largest)
        elif is_dropout(field.name):
            values[field.name] = 0.0
        elif types[field.name] == tuple[int, ...]:  # numbers for each stage: of two stages
            largest = 1 if field.metadata.get("layers") else size
            values[field.name] = tuple(min(number, largest) for number in field.default[:2])
        elif field.name == "labels" and kind.task in ("classify", "recognise"):
            values[field.name] = LABELS
    return kind.Config(**values | variants(name)[variant] | changes)


def is_dropout(name: str) -> bool:
    return name.endswith("dropout") or name == "drop_path"


def wrong_values(kind: Any) -> Iterator[tuple[str, Any, str]]:
    """Of each setting of a configuration: values that must be refused, and the message's beginning."""
    types = types_of(kind)
    for field in dataclasses.fields(kind):
        name = field.name
        if types[name] is int:
            zero = field.default == 0 or field.metadata.get("or_zero")
            if "bounds" not in field.metadata:
                yield name, 99, f"{name} must lie in "
                continue
            bounded = field.metadata["bounds"]["at_most"] is not None
            yield name, -1 if zero else 0, f"{name} must {'lie in' if bounded else 'be at least'} "
            yield name, 1.5, f"{name} must be a whole number, got 1.5"
        elif is_dropout(name):
            yield name, -0.1, rf"{name} must lie in \[0, 1\), got"
            yield name, 1.0, rf"{name} must lie in \[0, 1\), got"
            yield name, float("nan"), f"{name} must be a number, got nan"
        elif types[name] in (str, bool):
            yield name, "neither", f"{name} must be "


def fresh(name: str, variant: str = "plain", **changes: Any) -> Any:
    """With its initial weights."""
    torch.manual_seed(0)
    return MODELS[name](small(name, variant, **changes))


def build(name: str, variant: str = "plain", **changes: Any) -> Any:
    """In eval mode. Initial weights are near 0 and biases are 0: noise makes every part matter."""
    model = fresh(name, variant, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = 0.3 * torch.randn_like(parameter)
            if parameter.dim() > 1 and parameter.any():
                noise[~parameter.flatten(1).any(1)] = 0  # a single row of 0, as that of Marian's padding, stays 0
            parameter.add_(noise)
    return model.eval()


@cache
def built(name: str, variant: str = "plain") -> Any:
    """As `build`, once for all tests: they only read it."""
    return build(name, variant)


def variants(name: str) -> dict[str, dict[str, Any]]:
    return {"plain": {}} | getattr(own(name), "VARIANTS", {}) | getattr(own(name), "CROSSED", {})


@cache
def representatives(name: str) -> tuple[str, ...]:
    """All variants but those of CROSSED whose every setting some other variant has too."""
    crossed, learns = getattr(own(name), "CROSSED", {}), getattr(own(name), "LEARNS", ())
    chosen = [variant for variant in variants(name) if variant not in crossed or variant in learns]
    covered = set().union(*(settings(name, variant) for variant in chosen))
    while crossed:
        variant = max(crossed, key=lambda variant: len(settings(name, variant) - covered))
        if settings(name, variant) <= covered:
            break
        chosen.append(variant)
        covered |= settings(name, variant)
    return tuple(chosen)


def settings(name: str, variant: str) -> set[tuple[str, Any]]:
    """Each setting with its value: the parts of a variant."""
    return set(vars(small(name, variant)).items())


@cache
def own(name: str) -> ModuleType | None:
    """The model's own test, if there is one: tests/models/ntm/test_model.py of regard/models/ntm/model.py."""
    folders, file = MODELS[name].__module__.split(".")[1:-1], MODELS[name].__module__.split(".")[-1]
    path = Path(__file__).parent.joinpath(*folders, f"test_{file}.py")
    spec = importlib.util.spec_from_file_location(f"own_test_of_{name}", path)
    if not path.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def each(
    *protocols: type, crossed: bool = False, learns: bool = False, only: Callable[[Any], bool] | None = None
) -> pytest.MarkDecorator:
    """The test runs for every model that satisfies one of the protocols, in each variant that represents it.

    crossed: in every variant. learns: only in "plain" and in what its test names in LEARNS. only: a condition on
    the configuration."""
    rows = []
    for name in MODELS:
        if not protocols or isinstance(built(name), protocols):
            chosen = tuple(variants(name)) if crossed else representatives(name)
            if learns:
                chosen = ("plain", *getattr(own(name), "LEARNS", ()))
            rows += [(name, variant) for variant in chosen if only is None or only(small(name, variant))]
    return pytest.mark.parametrize(("name", "variant"), rows, ids=["-".join(row).replace(" ", "_") for row in rows])


# ---- inputs


@dataclass(frozen=True)
class Rows:
    """What a model is called with: four rows of several lengths, with garbage in their padding at the right."""

    inputs: dict[str, Tensor]
    lengths: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # of the inputs that are padded
    answered: str = ""  # the input that the output is as long as; "": one answer for each row

    def answers(self, model: Any) -> list[Tensor]:
        """What the model says of the real tokens of each row."""
        outputs = model(**{name: x.to(next(model.parameters()).device) for name, x in self.inputs.items()})
        return [row[: self.lengths[self.answered][i]] if self.answered else row for i, row in enumerate(outputs)]

    def alone(self, row: int) -> Rows:
        """One row without padding, and so without a mask."""
        inputs = {name: x[row : row + 1] for name, x in self.inputs.items() if x.dtype != torch.bool}
        inputs = {
            name: x[:, : self.lengths[name][row]] if name in self.lengths else x for name, x in inputs.items()
        }
        return Rows(inputs, {name: [lengths[row]] for name, lengths in self.lengths.items()}, self.answered)

    def wider(self) -> Rows:
        """With more padding."""
        inputs = {
            name: torch.cat([x, x.new_zeros(len(x), 3)], 1) if name in self.lengths else x
            for name, x in self.inputs.items()
        }
        return Rows(inputs, self.lengths, self.answered)

    def other_padding(self) -> Rows:
        """With other garbage in the padding."""
        inputs = dict(self.inputs)
        for name, lengths in self.lengths.items():
            if inputs[name].dtype != torch.bool:
                inputs[name] = torch.where(real(lengths), inputs[name], 0)
        return Rows(inputs, self.lengths, self.answered)


def real(lengths: list[int]) -> Tensor:
    """(4, longest), True = a real token"""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def words(lengths: list[int], seed: int = 1) -> Tensor:
    """Tokens (4, longest) of ids that are special in no numbering; the rows differ in their first token."""
    tokens = torch.randint(5, WORDS - 1, (4, max(lengths)), generator=torch.Generator().manual_seed(seed))
    tokens[:, 0] = torch.arange(5, 9)
    return tokens


def other(tokens: Tensor) -> Tensor:
    """Another word at each position."""
    return 5 + (tokens - 4) % (WORDS - 6)


@dataclass(frozen=True)
class TextRows(Rows):
    """Four texts of a classifier that reads no tokens in segments, one of them with a single word."""

    model: Any = None
    texts: tuple[tuple[list[int], list[int]], ...] = ()
    padding: int = 0
    filler: int = 9

    def answers(self, model: Any) -> list[Tensor]:
        return list(model.class_logits(self.batch().to(next(model.parameters()).device)))

    def batch(self) -> Any:
        whole = self.model.encoding.batch(self.texts, dataclasses.replace(special(self.model), pad=self.filler))
        if not self.padding:
            return whole
        wider = {}
        for name, tensor in whole.tensors().items():
            wider[name] = torch.cat([tensor, tensor.new_zeros(len(tensor), 3)], 1)
        return dataclasses.replace(whole, **wider)

    def alone(self, row: int) -> TextRows:
        return dataclasses.replace(self, texts=self.texts[row : row + 1])

    def wider(self) -> TextRows:
        return dataclasses.replace(self, padding=3)

    def other_padding(self) -> TextRows:
        return dataclasses.replace(self, filler=5)


@dataclass(frozen=True)
class SpelledRows(TextRows):
    """The same of a model that reads words as characters: the classes of a text, or the states of its words."""

    def answers(self, model: Any) -> list[Tensor]:
        if model.config.labels:
            return super().answers(model)
        layers = model.states_of_layers(self.batch().to(next(model.parameters()).device))
        return [states[:, : places[-1] + 1] for states, (_, places) in zip(layers, self.texts, strict=True)]

    def batch(self) -> Any:
        whole = self.model.encoding.batch(self.texts, special(self.model))
        places = torch.where(whole.mask, whole.places, self.filler - 4)  # some word or other
        places, mask = (torch.nn.functional.pad(x, (0, self.padding)) for x in (places, whole.mask))
        return dataclasses.replace(whole, places=places, mask=mask)


def spelled(model: Any) -> SpelledRows:
    """Each token is a word of a letter or two."""
    by_letters = []
    for ids, _ in texts(model).texts:
        words = [spell("abcdefghijkl"[number : number + 1 + number % 2]) for number in ids]
        by_letters.append((list(chain(*words)), [place for place, word in enumerate(words) for _ in word]))
    return SpelledRows({}, model=model, texts=tuple(by_letters))


def texts(model: Any) -> TextRows:
    """The same tokens for all; in sentences of up to three words."""
    rows = [row[:count].tolist() for row, count in zip(words(LENGTHS), LENGTHS, strict=True)]
    in_sentences = tuple((ids, [place // 3 for place in range(len(ids))]) for ids in rows)
    return TextRows({}, model=model, texts=in_sentences)


def reads_plain_texts(model: Any) -> bool:
    """A classifier of rows without segments; a language model with such a head is one too."""
    if isinstance(model, DocumentClassifier):
        return True
    return task_of(name_of(model), model.config) == "classify" and isinstance(model.encoding, PlainEncoding)


def writes(config: Any) -> bool:
    """False where a model that could write has another head."""
    return getattr(config, "task", "generate") == "generate"


def rows(model: Any) -> Rows:
    if reads_plain_texts(model):
        return spelled(model) if model.encoding.spelled else texts(model)
    if isinstance(model, Translator):
        target = words(TARGETS, seed=2)
        target[:, 0] = special(model).start
        inputs = {"source": words(LENGTHS), "target": target, "source_mask": real(LENGTHS)}
        return Rows(inputs, {"source": LENGTHS, "target": TARGETS, "source_mask": LENGTHS}, "target")
    if isinstance(model, Captioner):
        target = words(TARGETS, seed=2)
        target[:, 0] = special(model).start
        return Rows({"images": images(model), "target": target}, {"target": TARGETS}, "target")
    if isinstance(model, FewShotClassifier):
        episode = episodes(model)
        return Rows({"images": episode.images, "labels": episode.labels})
    if isinstance(model, Player):
        return Rows({"inputs": model.play(torch.arange(4, device=next(model.parameters()).device)).inputs})
    if isinstance(model, SequenceMachine):
        return Rows({"inputs": bits(model).inputs}, {"inputs": LENGTHS}, "inputs")
    inputs = {"tokens": words(LENGTHS), "mask": real(LENGTHS)}
    if isinstance(model, Encoder):
        inputs["segments"] = (torch.arange(max(LENGTHS)) > torch.tensor([[2], [1], [3], [0]])).long()
    if isinstance(model, Encoder | LanguageModel):
        return Rows(inputs, dict.fromkeys(inputs, LENGTHS), "tokens")
    return Rows({"images": images(model)})


def images(model: Any) -> Tensor:
    config: Any = model.config
    height, width = config.image_size, getattr(config, "image_width", 0) or config.image_size
    return torch.randn(4, config.channels, height, width, generator=torch.Generator().manual_seed(1))


# ---- batches


def batch(model: Any) -> Any:
    """What the model learns from, as its task makes it."""
    task = task_of(name_of(model), model.config)
    assert task in BATCHES, f"no batch is known for models that {task}: add one to BATCHES"
    return BATCHES[task](model)


def pairs(model: Any) -> PairBatch:
    inputs = rows(model).inputs
    source = inputs["source"].masked_fill(~inputs["source_mask"], special(model).pad)
    return PairBatch(source, inputs["source_mask"], *ended(model))


def ended(model: Any) -> tuple[Tensor, Tensor]:
    """The targets with their end tokens and padding, and the mask."""
    mask = real(TARGETS)
    ends = torch.arange(max(TARGETS)) == torch.tensor(TARGETS)[:, None] - 1
    target = rows(model).inputs["target"].masked_fill(ends, special(model).end)
    return target.masked_fill(~mask, special(model).pad), mask


def captioned(model: Any) -> CaptionBatch:
    return CaptionBatch(images(model), *ended(model))


def windows(model: Any) -> TextBatch:
    tokens = words(LENGTHS)
    counted = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
    counted[1, :2] = counted[2, 4] = False
    return TextBatch(tokens, counted, None)


def masked(model: Any) -> MaskedBatch:
    """Some words of each row, shown or not; whether the second part follows, if the model predicts that."""
    tokens, segments, mask = (rows(model).inputs[name] for name in ("tokens", "segments", "mask"))
    predicted = torch.zeros_like(mask)
    for row, places in enumerate([(1, 2), (1, 2), (1, 4, 5), (0,)]):
        predicted[row, list(places)] = True
    shown = torch.where(predicted & (torch.arange(max(LENGTHS)) % 2 == 0), special(model).mask, tokens)
    follows = torch.tensor([0, 1, 1, 0]) if model.config.head == "pretrain" else None
    return MaskedBatch(shown, segments, mask, predicted, tokens, follows)


def labelled(model: Any) -> Any:
    if reads_plain_texts(model):
        return dataclasses.replace(rows(model).batch(), labels=torch.tensor([2, 0, 1, 2]))  # type: ignore[attr-defined]
    tokens, segments, mask = (rows(model).inputs[name] for name in ("tokens", "segments", "mask"))
    return LabelledBatch(tokens, segments, mask, torch.tensor([2, 0, 1, 2]))


def sentences(model: Any) -> CharacterBatch:
    """<s> w_1 .. w_n </s>, in characters and in ids. The first word and the last are unknown in all rows: nothing
    else could tell them from <s> alone, or from </s>."""
    first, last, unknown = special(model).start, special(model).end, special(model).unknown
    ids = [[first, *row[:count].tolist(), last] for row, count in zip(words(LENGTHS), LENGTHS, strict=True)]
    for row in ids:
        row[1] = row[-2] = unknown
    return dataclasses.replace(rows(model).batch(), words=pad(ids, special(model).pad)[0])  # type: ignore[attr-defined]


def pictured(model: Any) -> ImageBatch:
    return ImageBatch(images(model), torch.eye(len(LABELS))[[2, 0, 1, 2]])


def episodes(model: Any) -> EpisodeBatch:
    """Four episodes of one image of each class and a query, which is noise: what it is can only be learned."""
    config, generator = model.config, torch.Generator().manual_seed(1)
    labels = torch.stack([torch.randperm(config.ways, generator=generator) for _ in range(4)])
    images = 0.3 * torch.randn(4, config.ways + 1, config.channels, *config.size, generator=generator)
    return EpisodeBatch(images, labels, torch.tensor([[2], [0], [1], [2]]))


def environments(model: Any) -> Seeds:
    return Seeds(torch.arange(4))


def bits(model: Any) -> BitBatch:
    """Random bits, of which those behind the first third are wanted."""
    shape, random = (len(LENGTHS), max(LENGTHS)), torch.Generator().manual_seed(5)
    inputs, targets = (
        torch.randint(2, (*shape, width), generator=random).float()
        for width in (model.config.inputs, model.config.outputs)
    )
    return BitBatch(inputs * real(LENGTHS)[..., None], targets, real(LENGTHS))


BATCHES: dict[str, Callable[[Any], Any]] = {
    "translate": pairs,
    "generate": windows,
    "fill": masked,
    "embed": sentences,
    "classify": labelled,
    "recognise": pictured,
    "caption": captioned,
    "fewshot": episodes,
    "play": environments,
    "recall": bits,
}


# ---- runs


def save_encoder(folder: Path, tokens: Tokenizer, *, seed: int, **settings: Any) -> None:
    """A BERT with drawn weights, which say something different of every text."""
    torch.manual_seed(seed)
    model = Bert(BertConfig(len(tokens), **settings))
    with torch.no_grad():
        for weight in model.parameters():
            spread = 0.2 if weight.dim() == 1 else 1.2 / weight.shape[-1] ** 0.5
            weight.add_(torch.randn_like(weight), alpha=spread)
    begin(folder, model, Artifacts(tokens, labels=model.config.labels), "")
    save_weights(folder, model)


# ---- artifacts


@cache
def tokenizer(numbering: str, size: int) -> Tokenizer:
    kind = "wordpiece" if numbering == "bert" else "character"
    text = "abcdefghijkl" if kind == "character" else "a b c d e f g h i j k l"
    trained = Tokenizer.train([text], kind=kind, numbering=numbering, size=size)
    assert len(trained) == size
    return trained


def special(model: Any) -> Special:
    return tokenizer(model.numbering, WORDS).special


def artifacts(model: Any) -> Artifacts:
    source = getattr(model.config, "source_vocabulary", 0)
    return Artifacts(
        tokenizer(model.numbering, WORDS) if model.numbering else None,
        tokenizer(model.numbering, source) if source else None,
        labels=getattr(model.config, "labels", ()),
        pixels=Pixels(*[(0.5,) * model.config.channels] * 2) if hasattr(model.config, "channels") else None,
    )


def needs_bfloat16_lstm(model: nn.Module) -> None:
    """Skips the test where torch cannot run the model's LSTM: oneDNN has no bfloat16 kernel for some ARM CPUs."""
    if any(isinstance(part, nn.LSTM) for part in model.modules()):
        try:
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                nn.LSTM(8, 8)(torch.zeros(2, 1, 8))
        except RuntimeError as error:
            pytest.skip(f"torch has no LSTM in bfloat16 here: {error!s:.60}")


def near(ours: Tensor, wanted: Tensor) -> None:
    """To 1e-5 of the largest number."""
    options = {"rtol": 1e-5, "atol": 1e-5 * max(1.0, float(wanted.detach().abs().max()))}
    if ours.shape != wanted.shape or ours.dtype != wanted.dtype or not torch.allclose(ours, wanted, **options):
        torch.testing.assert_close(ours, wanted, **options)  # slower, and says where they differ
