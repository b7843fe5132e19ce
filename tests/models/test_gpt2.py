"""Radford 2019 against its equations, written out place by place in float64, and the facts of its table 2."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.data.text.windows import TextBatch
from regard.errors import RecipeError
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import shapes
from regard.tasks.core.recipe import build_job

WORDS, DIM, HEADS, LAYERS = 9, 6, 2, 2
TEXT = torch.tensor([0, 5, 3, 7, 4])
VARIANTS: dict[str, dict[str, Any]] = {
    "untied": {"tied": False},
    "narrow": {"ff": 5, "heads": 1, "layers": 3},
    "gelu": {"activation": "gelu"},
    "eps": {"eps": 1e-2},
    "sinusoidal": {"positions": "sinusoidal"},
}
LEARNS = ("untied",)


def build(**changes: Any) -> GPT2:
    torch.manual_seed(0)
    sizes = {"dim": DIM, "layers": LAYERS, "heads": HEADS, "max_positions": 20}
    return GPT2(GPT2Config(WORDS, **sizes | changes)).eval()


def stirred(model: GPT2) -> GPT2:
    """In float64, with all weights well off their first values."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def by_hand(model: GPT2, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (T, V), and the weights (H, T, T) of the last layer."""
    known, eps = model.state_dict(), model.config.eps

    def linear(name: str, x: Tensor) -> Tensor:
        return known[f"{name}.weight"] @ x + known[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        spread = ((x - x.mean()) ** 2).mean() + eps
        return (x - x.mean()) / spread.sqrt() * known[f"{name}.weight"] + known[f"{name}.bias"]

    def gelu(x: Tensor) -> Tensor:
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())

    def wave(place: int) -> Tensor:
        pairs = [(f(place / 10000 ** (2 * i / DIM))) for i in range(DIM // 2) for f in (math.sin, math.cos)]
        return torch.tensor(pairs, dtype=torch.float64)

    row = [
        known["embed.weight"][t] + known["positions.table.weight"][place]
        if model.config.positions == "learned"
        else math.sqrt(DIM) * known["embed.weight"][t] + wave(place)
        for place, t in enumerate(tokens)
    ]
    size = DIM // HEADS
    for layer in range(LAYERS):
        block, after = f"blocks.{layer}", []
        weights = torch.zeros(HEADS, len(row), len(row), dtype=torch.float64)
        normed = [norm(f"{block}.attend_norm", x) for x in row]
        for place, x in enumerate(row):
            reads = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                query = linear(f"{block}.attend.query", normed[place])[part]
                past = normed[: place + 1]
                scores = [query @ linear(f"{block}.attend.key", y)[part] / math.sqrt(size) for y in past]
                weight = torch.stack(scores).softmax(0)
                values = torch.stack([linear(f"{block}.attend.value", y)[part] for y in past])
                weights[head, place, : place + 1] = weight
                reads.append(weight @ values)
            x = x + linear(f"{block}.attend.out", torch.cat(reads))
            inner = gelu(linear(f"{block}.feed.inner", norm(f"{block}.feed_norm", x)))
            after.append(x + linear(f"{block}.feed.outer", inner))
        row = after
    return torch.stack([known["out.weight"] @ norm("norm", x) for x in row]), weights


@pytest.mark.parametrize(
    "changes", [{}, {"tied": False}, {"eps": 0.01}, {"ff": 5}, {"positions": "sinusoidal"}], ids=str
)
@torch.no_grad()
def test_logits_and_weights_are_those_of_the_paper(changes: dict[str, Any]) -> None:
    model = stirred(build(**changes))
    assert model.alignment == f"blocks.{LAYERS - 1}.attend"
    with trace(model, model.alignment) as seen:
        logits = model(TEXT[None])[0]
    wanted, weights = by_hand(model, TEXT)
    torch.testing.assert_close(logits, wanted, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(seen[model.alignment][0].double(), weights, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_sines_have_no_end() -> None:
    """What comes later changes nothing, and the table's length is no setting of theirs."""
    model = build(positions="sinusoidal")
    long = torch.randint(2, WORDS, (1, 50), generator=torch.Generator().manual_seed(1))
    logits = model(long)
    torch.testing.assert_close(logits[:, :20], model(long[:, :20]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits, build(positions="sinusoidal", max_positions=64)(long), rtol=0, atol=0)
    assert not any(name.startswith("positions") for name in model.state_dict())
    with pytest.raises(ValueError, match="position 49 is beyond the last of the 20 positions of this model"):
        build()(long)


@pytest.mark.parametrize("variant", ["plain", *VARIANTS])
@torch.no_grad()
def test_documents_of_a_row_are_as_if_alone(variant: str) -> None:
    """They neither see each other nor count each other's positions; so the loss is the sum of theirs, too."""
    model = stirred(build(**VARIANTS.get(variant, {})))
    tokens = torch.randint(2, WORDS, (2, 9), generator=torch.Generator().manual_seed(1))
    since = torch.tensor([[0, 0, 0, 3, 3, 3, 3, 3], [0, 1, 1, 1, 1, 1, 1, 1]])
    states = model.states(tokens[:, :-1], since=since)
    total, likelihood = torch.zeros((), dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for row, ends in enumerate([[0, 3, 8], [0, 1, 8]]):
        for begin, end in pairwise(ends):
            alone = tokens[row : row + 1, begin : end + 1]
            torch.testing.assert_close(states[row, begin:end], model.states(alone[:, :-1])[0])
            loss = model.loss(TextBatch(alone, torch.ones_like(alone[:, 1:], dtype=torch.bool), None))
            total, likelihood[row] = total + loss.total, likelihood[row] + loss.likelihood[0]
    packed = model.loss(TextBatch(tokens, torch.ones_like(since, dtype=torch.bool), since))
    torch.testing.assert_close(packed.total.double(), total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.likelihood.double(), likelihood, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(model.states(tokens[:, :-1]), states, atol=1e-3)


@torch.no_grad()
def test_it_ends_with_its_positions() -> None:
    long = torch.randint(2, WORDS, (1, 21))
    model = build()
    state = model.start(long[:, :-1], torch.ones(1, 20, dtype=torch.bool))
    for too_long in (lambda: model(long), lambda: model.step(long[:, -1], state)):
        with pytest.raises(ValueError, match=r"position 20 is beyond the last of the 20 .* shorten the text"):
            too_long()


def test_first_weights() -> None:
    """N(0, 0.02), what writes into the residual path smaller by sqrt(2 N) (section 2.3); biases 0, norms 1."""
    model = build(dim=128, layers=8, max_positions=500)
    for label, parameter in model.named_parameters():
        if "norm" in label:
            assert torch.equal(parameter, torch.full_like(parameter, float(label.endswith("weight")))), label
        elif label.endswith("bias"):
            assert not parameter.any(), label
        else:
            writes = label.endswith(("attend.out.weight", "feed.outer.weight"))
            wanted = 0.02 / math.sqrt(2 * 8) if writes else 0.02
            assert abs(parameter.std() / wanted - 1) < 0.1, label
    assert model.out.weight is model.embed.weight


SIZES = {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_released_models(name: str) -> None:
    table = {"model": {"name": "gpt2", "size": name}, "data": {"train": "some.txt"}, "train": {"steps": 1}}
    config = replace(build_job(table).config, vocabulary=50257)
    assert sum(tensor.numel() for tensor in shapes("gpt2", config).values()) == SIZES[name]


def test_a_size_there_is_not_is_refused() -> None:
    with pytest.raises(RecipeError, match="must be one of small, medium, large, xl, got 'base'"):
        build_job({"model": {"name": "gpt2", "size": "base"}, "data": {"train": "some.txt"}})


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="got dim 6 and 4 heads"):
        build(heads=4)
    with pytest.raises(ValueError, match=r"activation must be one of 'relu', .*, got 'maxout'"):
        build(activation="maxout")
    with pytest.raises(ValueError, match="eps must be a number, got nan"):
        build(eps=float("nan"))
    for eps in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"eps must lie in \(0, 1\)"):
            build(eps=eps)
