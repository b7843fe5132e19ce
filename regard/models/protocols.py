"""What models can be asked, as typed protocols. Code above `models` knows a model by these and never by its class.

Letters: B batch, T tokens, S source tokens, N = B x beams, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from regard.data.made.environments import Environments, Experience, Trajectory
from regard.data.text.characters import CharacterEncoding
from regard.data.text.text_encoding import TextEncoding
from regard.errors import RunError
from regard.layers.loss import Loss
from regard.layers.state import State

P = TypeVar("P")  # a protocol


class Module(Protocol):
    """The part of `torch.nn.Module` that is used here."""

    training: bool

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def modules(self) -> Iterator[nn.Module]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]: ...

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...

    def to(self, device: torch.device | str) -> Any: ...


class ModelConfig(Protocol):
    """A frozen dataclass of settings that checks itself. It may have a `task` of its own, where that depends on
    the head, and `labels`, `vocabulary`, `source_vocabulary`, which follow from the data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __hash__(self) -> int: ...


class Batch(Protocol):
    """What a learner learns from: tensors that can be moved to a device."""

    def to(self, device: torch.device) -> Any: ...


class Images(Protocol):
    """A batch of images, as a classifier reads them."""

    @property
    def images(self) -> Tensor: ...  # (B, C, H, W), normalised


class BitSequences(Protocol):
    """A batch of sequences of bits, to be turned into others."""

    @property
    def inputs(self) -> Tensor: ...  # (B, T, I): bits, and flags such as a delimiter

    @property
    def targets(self) -> Tensor: ...  # (B, T, O): bits

    @property
    def mask(self) -> Tensor: ...  # (B, T), True = a step whose bits are predicted


@runtime_checkable
class Learner(Module, Protocol):
    """A module that can be trained. `loss` may take further options; a task names those that it allows
    (`label_smoothing`, `r_drop`)."""

    def loss(self, batch: Any) -> Loss: ...


class Model(Learner, Protocol):
    """An entry of MODELS. It may have `least_precision`, the lowest that its mathematics allows ("tf32",
    "float32"), in which it is trained on a GPU; without it, that is bfloat16."""

    paper: str
    Config: Any  # the dataclass that `config` is an instance of
    task: str  # the verb of its task, unless its configuration names it
    numbering: str  # how a tokenizer numbers the special tokens for it; "": it reads no text

    def __init__(self, config: Any) -> None: ...

    @property
    def config(self) -> Any: ...

    @property
    def alignment(self) -> str: ...  # the attention that is shown unless another is asked for; "": it has none


@runtime_checkable
class Adopter(Protocol):
    """A model that can begin with the weights of a model with another head or another input size."""

    def adopt(self, other: Any) -> list[str]:
        """Take over what fits; the names of the weights that stay new."""
        ...


@runtime_checkable
class Generator(Module, Protocol):
    """Writes one token at a time."""

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source or prompt (B, S), mask True = a real token."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The last tokens (N,) -> logits of the next ones (N, V), which may be overwritten then, and the state
        after them."""
        ...


@runtime_checkable
class Speculator(Generator, Protocol):
    """Reads several tokens at once where it has stopped, and forgets them again: proposals can be verified."""

    def read_on(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """As `step` of one token after the other: tokens (N, T) -> logits (N, T, V)."""
        ...

    def cut_back(self, state: State, count: int | Tensor) -> State:
        """The state without its last tokens; a tensor () where it has buffers."""
        ...


@runtime_checkable
class Translator(Model, Generator, Protocol):
    """Reads a source text as a memory and writes a target."""

    max_target_positions: int  # the most tokens it can write

    @property
    def max_source_positions(self) -> int: ...  # the most tokens it can read

    def check_source(self, source: Tensor) -> None: ...  # ValueError if it is too long

    def encode(self, source: Tensor, mask: Tensor) -> Any: ...

    def decode(self, target: Tensor, *encoded: Any) -> Any: ...


@runtime_checkable
class Captioner(Model, Generator, Protocol):
    """Reads an image and writes a text about it: a generator whose source is images (B, C, H, W)."""

    max_target_positions: int  # the most tokens it can write

    def grid(self, images: Tensor) -> tuple[int, int]: ...  # rows and columns of the places it looks at

    def encode(self, images: Tensor) -> Any: ...  # a memory and the decoder's first state

    def decode(self, target: Tensor, *encoded: Any) -> Any: ...  # states (B, T, D) and the looks

    def start(self, images: Tensor, mask: Tensor | None = None) -> State: ...  # an image needs no mask


@runtime_checkable
class LanguageModel(Model, Generator, Protocol):
    """Continues a text."""

    max_target_positions: int  # the most tokens it sees at once

    def states(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor: ...


@runtime_checkable
class Classifier(Model, Protocol):
    """Tells classes apart: of texts, of images, of whatever its batch holds."""

    def class_logits(self, batch: Any) -> Tensor: ...  # (B, classes)


@runtime_checkable
class FewShotClassifier(Classifier, Protocol):
    """Tells apart classes of which it is shown examples: its batch holds episodes, sequences of S labelled
    images with the Q to classify at the end. A class is a number from 0 to `config.ways` - 1."""

    def embed(self, images: Tensor) -> Tensor: ...  # (N, C, H, W) -> (N, D)

    def answer(self, states: Tensor, labels: Tensor) -> Tensor: ...  # (E, S + Q, D), (E, S) -> (E, Q, ways)


@runtime_checkable
class TextClassifier(Classifier, Protocol):
    """Tells classes of texts apart."""

    @property
    def encoding(self) -> TextEncoding: ...  # how it reads texts: what batch `class_logits` takes


@runtime_checkable
class LayeredEncoder(TextClassifier, Protocol):
    """Gives every token of a text a state in each of its `config.layers` layers, and in layer 0, the embeddings."""

    @property
    def state_dim(self) -> int: ...  # the size of a state

    def text_states(self, batch: Any) -> Tensor: ...  # (B, T, D): what it gives unless a layer is asked for

    def states_of_layers(self, batch: Any) -> Tensor: ...  # (B, layers + 1, T, D)

    def state_mask(self, batch: Any) -> Tensor: ...  # (B, T), True = the state of a token


@runtime_checkable
class BidirectionalLanguageModel(LayeredEncoder, Protocol):
    """Predicts every word of a sentence from those before it, and from those after it."""

    @property
    def encoding(self) -> CharacterEncoding: ...

    def likelihoods(self, batch: Any) -> Tensor: ...  # (B, 2): log p of each sentence, forward and backward


@runtime_checkable
class Encoder(LayeredEncoder, Protocol):
    """Reads texts, or pairs of texts, as tokens alone."""

    def states(self, tokens: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor: ...


@runtime_checkable
class DocumentClassifier(TextClassifier, Protocol):
    """Weighs the words of a text, or words and sentences."""

    @property
    def levels(self) -> tuple[str, ...]: ...  # the sites of these weights, words first; (): it has none


@runtime_checkable
class LayerMixer(Model, Protocol):
    """Reads a mix of the layers of another model."""

    @property
    def layer_weights(self) -> dict[int, float]: ...  # how much each layer counts; {}: it has no mix


@runtime_checkable
class WordReader(Model, Protocol):
    """Reads words, whose embeddings may begin with the vectors of a file."""

    @property
    def word_table(self) -> nn.Embedding: ...


@runtime_checkable
class PatchEncoder(Model, Protocol):
    """Gives every patch of an image a state (B, P, D), behind that of a class token if there is any."""

    def grid(self, images: Tensor) -> tuple[int, int]: ...  # rows and columns of patches

    def tokens(self, images: Tensor) -> Tensor: ...


@runtime_checkable
class Player(Model, Protocol):
    """Acts in environments, many at once."""

    @property
    def environments(self) -> Environments: ...  # the kind that it was made to act in

    def play(self, seeds: Tensor, *, greedy: bool = False) -> Trajectory: ...  # seeds (B,)

    def __call__(self, inputs: Tensor) -> Tensor: ...  # a whole trajectory's (B, T, I) -> logits (B, T, A)

    def experience(self, batch: Any) -> Experience: ...  # of Seeds; `loss` takes it too


@runtime_checkable
class SequenceMachine(Model, Protocol):
    """Turns sequences of bits into others, step by step: the answer to a step may use the steps up to it."""

    def begin(self, rows: int) -> Any: ...  # the state before the first step

    def step(self, x: Tensor, before: Any) -> tuple[Tensor, Any]: ...  # (B, I) -> logits (B, O), and the state

    def __call__(self, inputs: Tensor) -> Tensor: ...  # (B, T, I) -> logits (B, T, O)


@runtime_checkable
class MaskedLanguageModel(Encoder, Protocol):
    """Predicts masked tokens, and whether one part of a text follows another."""

    def masked_logits(self, states: Tensor) -> Tensor: ...

    def next_logits(self, states: Tensor) -> Tensor: ...


@runtime_checkable
class SpanFinder(Encoder, Protocol):
    """Finds where in the second text of a pair the answer to the first one stands."""

    def span_logits(self, batch: Any) -> Tensor: ...  # (B, T, 2): begins, ends; at token 0: there is none


def need(model: Model, protocol: type[P]) -> P:
    """The model in eval mode, known by what it can be asked."""
    if not isinstance(model, protocol):
        raise RunError(f"{type(model).__name__} cannot be asked as a {protocol.__name__}")
    model.eval()
    return model
