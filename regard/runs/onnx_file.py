"""A run as an ONNX graph, for onnxruntime and whatever else reads such files: encoders and classifiers.

The graph has the inputs and outputs that tools of Hugging Face give a model of this kind: input_ids, attention_mask
(1 = a real token) and token_type_ids, or pixel_values; logits, or last_hidden_state. Batch and lengths are free. It
is opened in onnxruntime before the folder gets its name, and asked with other sizes than it was written with."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from regard.base.files import drafted_folder
from regard.base.tensors import fill, named_tensors
from regard.data.artifacts import Artifacts
from regard.data.text.document_encoding import DocumentBatch
from regard.data.text.text_encoding import LabelledBatch
from regard.errors import BadInput, RunError
from regard.foreign import ctranslate2_files, form_of
from regard.models import name_of
from regard.models.bert import Bert
from regard.models.han import HAN
from regard.models.pooling import Pooling
from regard.models.protocols import Generator, Model
from regard.models.senet import SENet
from regard.models.vit import ViT
from regard.runs.folder import Folder, SkipInit, begin
from regard.runs.writing import CARD, check_new, check_ours, copy_own

FILE = "model.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # of the extra `onnx`
CLOSE = 1e-5  # of the largest number of an answer, or of 1
WRITTEN, ASKED = (3, 5), ((2, 7), (1, 1))  # rows and tokens: of the example, and of those that are compared
Tensors = dict[str, Tensor]


class Graph(nn.Module):
    """A model as it is written: `forward` takes tensors alone, by the names of `axes`."""

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # of each input, those that may have any size
    shortest = 0  # tokens

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what `forward` gives."""
        return ("logits",)

    def example(self, rows: int, length: int) -> Tensors:
        """Inputs of `forward`: `rows` texts of up to `length` tokens."""
        length = min(length, getattr(self.model.config, "max_positions", length))
        generator = torch.Generator().manual_seed(rows * length)
        lengths = torch.randint(self.shortest, length + 1, (rows, 1), generator=generator)
        lengths[0] = length
        return {
            "input_ids": torch.randint(self.model.config.vocabulary, (rows, length), generator=generator),
            "attention_mask": (torch.arange(length) < lengths.sort(0, descending=True).values).long(),
        }


class Texts(Graph):
    """Reads rows of tokens."""

    axes: ClassVar = {"input_ids": ("batch", "tokens"), "attention_mask": ("batch", "tokens")}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask != 0)


class Bidirectional(Graph):
    """A BERT, by its head."""

    axes: ClassVar = {**Texts.axes, "token_type_ids": ("batch", "tokens")}
    shortest = 1

    @property
    def outputs(self) -> tuple[str, ...]:
        config = self.model.config
        states = ("last_hidden_state", "pooler_output") if config.pools else ("last_hidden_state",)
        heads = {
            "none": states,
            "pretrain": ("prediction_logits", "seq_relationship_logits"),
            "span": ("start_logits", "end_logits"),
        }
        return heads.get(config.head, ("logits",))

    def example(self, rows: int, length: int) -> Tensors:
        given = super().example(rows, length)
        second = given["attention_mask"].cumsum(1) > 1
        return {**given, "token_type_ids": second.long() * (self.model.config.segments > 1)}

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        model, head = self.model, self.model.config.head
        batch = LabelledBatch(input_ids, token_type_ids, attention_mask != 0)
        if head == "classify":
            return model.class_logits(batch)
        if head == "span":
            return model.span_logits(batch).unbind(-1)
        states = model.text_states(batch)
        if head == "none":
            return (states, model.pooled(states)) if model.config.pools else states
        if head == "next":
            return model.next_logits(states)
        words = model.masked_logits(states)
        return (words, model.next_logits(states)) if head == "pretrain" else words


class Documents(Graph):
    """Reads a table of sentences, and which of its rows are the sentences of each document."""

    axes: ClassVar = {
        "input_ids": ("sentences", "tokens"),
        "attention_mask": ("sentences", "tokens"),
        "sentences": ("batch", "places"),
        "sentence_mask": ("batch", "places"),
    }

    def example(self, rows: int, length: int) -> Tensors:
        sentences = rows + 1
        which = torch.arange(rows * 3).view(rows, 3) % sentences
        real = torch.arange(3) < torch.arange(3, 3 + rows)[:, None] % 4  # of the second document none
        return {
            **super().example(sentences, length),
            "sentences": which,
            "sentence_mask": real.long(),
        }

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, sentences: Tensor, sentence_mask: Tensor
    ) -> Tensor:
        return self.model(DocumentBatch(input_ids, attention_mask != 0, sentences, sentence_mask != 0))


class Pictures(Graph):
    """Reads images of the size of the model's training."""

    axes: ClassVar = {"pixel_values": ("batch",)}

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("logits",) if self.model.config.labels else ("last_hidden_state",)

    def example(self, rows: int, length: int) -> Tensors:
        config = self.model.config
        generator = torch.Generator().manual_seed(rows)
        return {"pixel_values": torch.randn(rows, config.channels, *config.size, generator=generator)}

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.model(pixel_values) if self.model.config.labels else self.model.tokens(pixel_values)


GRAPHS: dict[type, Callable[[Any], Graph]] = {
    Bert: Bidirectional,
    Pooling: Texts,
    HAN: Documents,
    ViT: Pictures,
    SENet: Pictures,
}


# ---- refusals


def check_onnx(run: Path, model: Model) -> None:
    """An error for a model that is not written as a graph, with what to do instead; and without the packages."""
    if type(model) not in GRAPHS:
        raise RunError(f"{run} cannot be exported to ONNX: {why_not(model)}")
    if isinstance(model, SENet) and not model.config.labels:
        raise RunError(f"{run} cannot be exported to ONNX: it has no classes; train it on labelled images first")
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise BadInput(f"the format onnx needs {', '.join(missing)}: pip install 'regard[onnx]'")


def why_not(model: Model) -> str:
    """What to do with a model that is no encoder and no classifier."""
    known = ", ".join(kind.__name__ for kind in GRAPHS)
    name = type(model).__name__
    if not isinstance(model, Generator):
        return f"the format onnx is for {known}, and this is a {name}; torch.export takes every model"
    ways = []
    if form := form_of(name_of(model), model.config):
        ways.append(f"leave --format out, which writes it for {form.library}")
    if not ctranslate2_files.why_not(model):
        ways.append("take --format ctranslate2")
    instead = ", or ".join(ways) or "torch.export takes every model's forward"
    grows = "writes one token after the other, from a state that grows, and a graph of ONNX has none"
    return f"a {name} {grows}; {instead}"


# ---- writing


def export_onnx(folder: Folder, to: Path, artifacts: Artifacts, model: Model | None = None) -> None:
    """A folder with the graph and the small files of a run: settings, tokenizer, how images are read."""
    check_new(to)
    check_ours(folder)
    model = model or folder.model()
    check_onnx(folder.path, model)
    with drafted_folder(to) as draft:
        begin(draft, model, artifacts, "")
        graph = GRAPHS[type(model)](_plain(model)).eval()
        with quiet(), torch.no_grad():
            _write(graph, draft / FILE)
            check_graph(graph, draft / FILE)
        if (folder.path / CARD).is_file():
            copy_own(folder.path / CARD, draft)


def _plain(model: Model) -> Model:
    """The same weights in a model of float32 on the CPU, which no other engine computes for."""
    with SkipInit():
        plain = type(model)(model.config)
    fill(plain, {name: _as_float32(tensor) for name, tensor in named_tensors(model).items()}, source="the run")
    return plain


def _as_float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32 if tensor.is_floating_point() else tensor.dtype)


def _write(graph: Graph, path: Path) -> None:
    given = graph.example(*WRITTEN)
    free = {name: dict.fromkeys(range(len(axes)), Dim.DYNAMIC) for name, axes in graph.axes.items()}
    names = {name: dict(enumerate(axes)) for name, axes in graph.axes.items()}
    program = torch.export.export(graph, (), given, dynamic_shapes=free)
    written = torch.onnx.export(
        program,
        (),
        kwargs=given,
        input_names=list(given),
        output_names=list(graph.outputs),
        dynamic_shapes=names,
        dynamo=True,
        verbose=False,
    )
    assert written is not None
    written.save(path)


def check_graph(graph: Graph, path: Path) -> None:
    """RunError unless onnxruntime gives the answers of torch, for inputs of other sizes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for rows, length in ASKED:
        given = graph.example(rows, length)
        answers = graph(**given)
        wanted = [answers] if isinstance(answers, Tensor) else list(answers)
        found = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        mask = given.get("attention_mask")
        for name, ours, theirs in zip(graph.outputs, wanted, found, strict=True):
            real: Any = ...
            if mask is not None and ours.shape[:2] == mask.shape:  # of padding nothing is said
                real = mask.numpy() != 0
            if not _close(theirs[real], ours.numpy()[real]):
                raise RunError(f"{name} of the graph is not that of the model; nothing was written")


def _close(theirs: np.ndarray, ours: np.ndarray) -> bool:
    if theirs.shape != ours.shape or not np.array_equal(np.isfinite(theirs), np.isfinite(ours)):
        return False
    finite = np.isfinite(ours)
    most = np.abs(ours[finite]).max(initial=1.0)
    return bool(np.abs(theirs[finite] - ours[finite]).max(initial=0.0) <= CLOSE * most)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch and onnxscript tell of their own parts."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
