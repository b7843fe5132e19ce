"""`torch.export` with a dynamic batch and dynamic lengths: every model of MODELS, with few layers, since
each loop over time takes torch a second to trace."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from small_models import SIZES, WORDS, build, near
from torch import Tensor
from torch.export import Dim

from regard.data.text.document_encoding import DocumentBatch
from regard.layers import packed
from regard.models import MODELS

torch.export.register_dataclass(DocumentBatch)

QUERIES = 2  # of an episode
# Each is like a model that stays, bahdanau, show_and_tell, elmo or snail_agent, or is written for ONNX from such a
# program (test_onnx).
THOROUGH = ("luong", "seq2seq", "show_attend_tell", "bit_lstm", "pooling", "han", "snail")
TWO_LAYERS = ("bit_lstm",)  # layers that are one loop each
GATED = ("pooling", "elmo")  # with a GRU or an LSTM, as `bit_lstm`; the others have a plain RNN
SHORTEST = {
    "elmo": 2,
    "snail": 2,
}  # words, labelled images; torch takes a size of 0 or 1 within a model for a constant


@pytest.fixture(scope="module", autouse=True)
def no_cache_of_fake_tensors() -> Iterator[None]:
    """With dynamic sizes, to look up what an operation gave takes torch longer than to find it out again."""
    with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
        yield


def inputs(model: Any, rows: int, length: int) -> dict[str, Any]:
    """Arguments of `forward` by their names: `rows` sequences of up to `length` places."""
    generator = torch.Generator().manual_seed(rows * length)

    def words(*shape: int) -> Tensor:
        return torch.randint(5, WORDS - 1, shape, generator=generator)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    lengths = torch.randint(1, length + 1, (rows, 1), generator=generator)
    lengths = lengths.sort(0, descending=True).values  # as documents want their sentences
    lengths[0] = length
    mask = torch.arange(length) < lengths
    config, few_shot = model.config, hasattr(model.config, "ways")
    height = getattr(config, "image_size", 0)
    shape = (config.channels, height, height) if height else ()
    made = {
        "tokens": lambda: words(rows, length),
        "segments": lambda: (torch.arange(length) > lengths // 2).long(),
        "mask": lambda: mask,
        "source": lambda: words(rows, length),
        "source_mask": lambda: mask,
        "target": lambda: words(rows, length + 1),
        "characters": lambda: words(rows, length + 2, config.max_characters),
        "images": lambda: numbers(rows, *((length + QUERIES,) if few_shot else ()), *shape),
        "labels": lambda: words(rows, length) % config.ways,
        "inputs": lambda: numbers(rows, length, getattr(config, "inputs", 0) or model.embed.in_features),
        "batch": lambda: DocumentBatch(
            words(rows, length), mask, words(rows + 1, 3) % rows, torch.arange(3) < words(rows + 1, 1) - 5
        ),
    }
    names = list(inspect.signature(model.forward).parameters)
    given = {name: made[name]() for name in names}
    if "characters" in given:
        given["mask"] = torch.arange(length + 2) < lengths + 2
    return given


def real(model: Any, given: dict[str, Any], output: Tensor) -> Tensor:
    """What is said of real tokens, where it is said of each."""
    mask = given.get("mask")
    per_token = mask is not None and output.shape[:2] == mask.shape
    return output[mask] if per_token else output


def dynamic(x: Any) -> Any:
    if isinstance(x, DocumentBatch):
        return [dynamic(tensor) for tensor in x.tensors().values()]
    return dict.fromkeys(range(1 if x.dim() == 4 else 2), Dim.DYNAMIC)


def export(model: Any, rows: int, length: int) -> Any:
    given = inputs(model, rows, length)
    shapes = {name: dynamic(x) for name, x in given.items()}
    return torch.export.export(model, (), given, dynamic_shapes=shapes).module()


def simplest(name: str) -> dict[str, Any]:
    """Settings with which torch has least to trace, but with every part."""
    fields = [field.name for field in dataclasses.fields(MODELS[name].Config)]
    layers = {field: 1 for field in fields if field.endswith("layers") and name not in TWO_LAYERS}
    parts = {"bigrams": 7} if "bigrams" in fields else {}
    return layers | parts | ({"cell": "rnn"} if "cell" in fields and name not in GATED else {})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in THOROUGH)) for name in MODELS]
)
@torch.no_grad()
def test_an_exported_model_answers_the_same_at_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGE", 0)
    model = build(name, **simplest(name))
    packed.pack_products(model)  # as a run is opened
    exported = export(model, 3, 5)
    for rows, length in ((7, SIZES["max_positions"]), (1, 6), (1, SHORTEST.get(name, 1))):
        given = inputs(model, rows, length)
        near(real(model, given, exported(**given)), real(model, given, model(**given)))
    if name in SHORTEST:
        assert "Exported with a dynamic length it takes" in str(model.forward.__doc__)
        with pytest.raises(AssertionError, match="Guard failed"):
            exported(**inputs(model, 1, 1))
